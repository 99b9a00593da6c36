"""Front ends: dumps of other frameworks, read into one graph model and written as fact tables."""
