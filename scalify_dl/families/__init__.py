"""Families: captures whose sizes are formulas, and one proof for all sizes."""
