"""What test suites use: the pytest plugin (`scalify_dl.testing.plugin`)."""
