"""Equality of formulas by normal form: what is left where correspondences end (docs/algebra.md)."""
