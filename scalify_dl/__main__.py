"""`python -m scalify_dl` is `dlverify`."""

from scalify_dl.cli import main

main()
