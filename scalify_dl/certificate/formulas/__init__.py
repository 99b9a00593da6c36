"""The checker's own algebra: both sides of an equality computed from the inputs, element by element, and compared.

It shares no code with `scalify_dl.algebra`, and has fewer laws: what it cannot follow it does not accept.
"""
