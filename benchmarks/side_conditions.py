"""Side conditions that nothing watches: see `scalify_dl.audit.side_conditions`."""

import sys

from scalify_dl.audit.side_conditions import main

sys.exit(main())
