"""The mutation campaign: see `scalify_dl.audit.mutate.campaign`."""

import sys

from scalify_dl.audit.mutate.campaign import main

sys.exit(main())
