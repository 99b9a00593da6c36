"""The misplacement campaign: see `scalify_dl.audit.misplaced.campaign`."""

import sys

from scalify_dl.audit.misplaced.campaign import main

sys.exit(main())
