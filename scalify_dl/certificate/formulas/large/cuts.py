"""Where unknowns are cut, as those who read them ask."""

from __future__ import annotations

from itertools import pairwise

from .atoms import Spread
from .blocks import Parts


def wanted(atoms: Spread) -> dict[tuple[str, int], tuple[set[int], set[int]]]:
    """For each dim of unknown tensors: where elements are read from or up to, and by which strides."""
    found: dict[tuple[str, int], tuple[set[int], set[int]]] = {}
    for kind, data in atoms.kinds:
        if kind != "input":
            continue
        tensor, places = data
        for dim, place in enumerate(places):
            ends, steps = found.setdefault((tensor, dim), (set(), set()))
            if any(factor < 0 for _, factor in place.terms):
                continue
            least = min((factor for _, factor in place.terms), default=1)
            ends |= {place.start // least * least, (place.most // least + 1) * least}
            steps |= {factor for _, factor in place.terms}
    return found


def cut_as_wanted(size: int, ends: set[int], steps: set[int]) -> Parts:
    """A dim, cut so; digits where all of them fit."""
    found = []
    inside = sorted({0, size, *(e for e in ends if 0 < e < size)})
    for begin, end in pairwise(inside):
        counts = [1, *sorted(s for s in steps if 1 < s < end - begin), end - begin]
        if any(b % a for a, b in pairwise(counts)):
            counts = [1, end - begin]
        found.append(tuple(b // a for a, b in reversed([*pairwise(counts)]) if b != a))
    return tuple(found)
