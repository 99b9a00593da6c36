"""Random pairs of programs around every op kind: what the rules derive of them is audited.

A pair is a chain of random steps, each the same on both sides,
now and then not; the rules may derive whatever they can prove,
and everything that they derive is checked numerically.
"""

from __future__ import annotations

from .check import Report, Unsound, check_rules
from .generate import random_pair

__all__ = ["Report", "Unsound", "check_rules", "random_pair"]
