"""Random families: see `scalify_dl.audit.families`."""

import sys

from scalify_dl.audit.families import main

sys.exit(main())
