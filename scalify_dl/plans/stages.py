"""Stages of different sizes, which the fold does not cover: told by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from .tables import Tables


class OtherStages(Exception):
    """Stages have other numbers of copies or tp ranks than others; the text says which."""


def even(tables: Tables, places: Mapping[int, tuple[int, int, int]]) -> None:
    """OtherStages where all ranks that have ops are placed, and some stages have more of them than others."""
    if not set(tables["op"].columns[2]) <= places.keys():
        return
    found: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for d, s, t in places.values():
        found[s].add((d, t))
    sizes = {s: (1 + max(d for d, _ in at), 1 + max(t for _, t in at)) for s, at in sorted(found.items())}
    if any(len(found[s]) != copies * tp for s, (copies, tp) in sizes.items()) or len(set(sizes.values())) < 2:
        return
    words = [
        f"stage {s} {copies} cop{'ies' if copies > 1 else 'y'} of {tp} tp rank{'s' * (tp > 1)}"
        for s, (copies, tp) in sizes.items()
    ]
    raise OtherStages(
        f"stages of different sizes are not folded ({', '.join(words)}): what is resharded between them is not covered"
    )
