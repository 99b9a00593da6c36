"""Wrong programs written by hand, each for a condition of some rule that random pairs hardly ever need.

Nothing false may be derived of them: `rules check` begins with them, and `audit/side_conditions.py` tries them, and
those of `WRONG`, where it deletes a condition. A new one is a function that returns a `Pair`, with `@trial` above it,
in the file of its theme.
"""

from __future__ import annotations

from . import (  # noqa: F401  (they register their trials)
    counted,
    counted_parts,
    crossed,
    expert_by_rank,
    expert_gates,
    expert_places,
    expert_slots,
    glued,
    index,
    infinite,
    integer,
    late,
    layers,
    mesh,
    mixed,
    models,
    moved,
    narrow,
    number,
    one_hot,
    own_cut,
    padded,
    piece,
    positions,
    programs,
    ring,
    row,
    row_orders,
    several,
    still,
    taken_apart,
    variance,
    whole,
    window,
)
from .registry import ROUNDED, TRIALS, WRONG

__all__ = ["ROUNDED", "TRIALS", "WRONG"]
