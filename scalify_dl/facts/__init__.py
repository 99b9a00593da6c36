"""The facts directory: the interface between front ends, rules, oracle and reports (docs/facts.md)."""

from .model import Facts
from .schema import TABLES

__all__ = ["TABLES", "Facts"]
