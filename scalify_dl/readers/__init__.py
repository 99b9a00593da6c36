"""Readers: dumps of other frameworks → `ir.graph.Graph`; the kind of a file is told by its content (`read`)."""
