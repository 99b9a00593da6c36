"""Wrong programs written by hand, each for a condition of some rule that random pairs hardly ever need.

Nothing false may be derived of them: `rules check` begins with them, and `benchmarks/side_conditions.py` tries them
where it deletes a condition. A new one is a function that returns a `Pair`, with `@trial` above it, in the file of its
theme.
"""

from __future__ import annotations

from . import (  # noqa: F401  (they register their trials)
    infinite,
    integer,
    mesh,
    mixed,
    moved,
    number,
    piece,
    ring,
    row,
    whole,
    window,
)
from .registry import ROUNDED, TRIALS

__all__ = ["ROUNDED", "TRIALS"]
