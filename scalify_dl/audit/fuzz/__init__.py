"""Random pairs of programs around every op kind: what the rules derive of them is audited.

A pair is a chain of random steps, each the same on both sides,
now and then not; the rules may derive whatever they can prove,
and everything that they derive is checked numerically.
"""

from __future__ import annotations

from .check import Report, check_rules
from .coverage import Coverage, Lemma
from .generate import random_pair
from .smallest import Unsound

__all__ = ["Coverage", "Lemma", "Report", "Unsound", "check_rules", "random_pair"]
