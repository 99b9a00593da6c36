"""Whether two elements are equal: one node, or one normal form of the algebra; elements alike are decided once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .domain import Array
from .terms import Terms


@dataclass(slots=True)
class Answer:
    """Whether all pairs are equal; if not, why not."""

    equal: bool
    reason: str = ""
    assumptions: list[tuple[str, str]] = field(default_factory=list)


def all_equal(terms: Terms, pairs: Sequence[tuple[Array, Array]], seconds: float) -> Answer:
    """Whether arrays of nodes are equal, element by element."""
    for ours, theirs in pairs:
        left, right = terms.canonical(ours), terms.canonical(theirs)
        different = left != right
        if different.any():
            at = [int(i) for i in np.argwhere(different)[0]]
            return Answer(False, f"element {at} is computed in another way")
    return Answer(True)
