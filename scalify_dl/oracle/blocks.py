"""Blocks of baseline values: micro-batches, what a turn of a ring has, what one stage of several computes.

They are no shards, as no mesh axis says which block it is, but nothing is wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
MOST_ELEMENTS = 400_000
"""Of larger baselines no blocks are looked for."""
MOST_PLACES = 48
"""A number that stands in more places tells too little."""


class Blocks:
    """The real values of a baseline; whether a value is a block of one of them."""

    def __init__(self, values: Iterable[Array], match: float) -> None:
        self.values = [value for value in values if value.dtype.kind == "f" and value.size]
        self.match = match
        if sum(value.size for value in self.values) > MOST_ELEMENTS:
            self.values = []

    @cached_property
    def _sorted(self) -> tuple[Array, Array, Array]:
        """All numbers in order, with the place of each, and where each value begins."""
        flat = np.concatenate([value.ravel() for value in self.values])
        order = np.argsort(flat)
        return flat[order], order, np.cumsum([0, *(value.size for value in self.values)])

    def hold(self, value: Mapping[int, Array]) -> bool:
        """Whether what each rank has is a block of some baseline value."""
        return bool(self.values) and all(self._holds(part) for part in value.values())

    def _holds(self, part: Array) -> bool:
        if part.dtype.kind != "f" or not np.isfinite(part).any() or np.isnan(part).any():
            return False
        finite = np.where(np.isfinite(part), np.abs(part), 0.0)
        at = np.unravel_index(int(finite.argmax()), part.shape)
        number = float(part[at])
        width = self.match * abs(number)
        numbers, places, begins = self._sorted
        first, last = np.searchsorted(numbers, [number - width, number + width])
        if not 0 < last - first <= MOST_PLACES:
            return False
        for place in places[first:last]:
            which = int(np.searchsorted(begins, place, side="right")) - 1
            base = self.values[which]
            if self._same(base, np.unravel_index(int(place - begins[which]), base.shape), part, at):
                return True
        return False

    def _same(self, base: Array, place: tuple[Any, ...], part: Array, at: tuple[Any, ...]) -> bool:
        """Whether the block of the baseline value that has its element `place` where the part has `at` is the part."""
        more = base.ndim - part.ndim
        if more < 0:
            if any(size != 1 for size in part.shape[:-more]):
                return False
            part, at, more = part.reshape(part.shape[-more:]), at[-more:], 0
        starts = [int(p) - int(a) for p, a in zip(place, (*place[:more], *at), strict=True)]
        sizes = (*(1 for _ in range(more)), *part.shape)
        starts[:more] = [int(p) for p in place[:more]]
        if any(s < 0 or s + n > whole for s, n, whole in zip(starts, sizes, base.shape, strict=True)):
            return False
        block = base[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))].reshape(part.shape)
        return bool(np.allclose(block, part, rtol=self.match, atol=self.match * abs(float(part[at]))))
