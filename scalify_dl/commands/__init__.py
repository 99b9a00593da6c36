"""One module per group of `dlverify` commands. `scalify_dl.cli` imports each only when it runs."""
