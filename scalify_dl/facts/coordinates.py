"""Where the ranks of a mesh sit, and which mesh axes groups of ranks run along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from math import prod

from .model import Row


class Ranks:
    """Ranks and coordinates, from the rows of `rank_coord`."""

    def __init__(self, rows: Sequence[Row], axes: Sequence[str]) -> None:
        self.axes = list(axes)
        found: dict[int, dict[str, int]] = {}
        for rank, axis, coordinate in rows:
            found.setdefault(rank, {})[axis] = coordinate
        self.coordinates = {rank: tuple(place[axis] for axis in self.axes) for rank, place in sorted(found.items())}

    @property
    def all(self) -> list[int]:
        """Every rank."""
        return list(self.coordinates)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {axis: 1 + max(place[i] for place in self.coordinates.values()) for i, axis in enumerate(self.axes)}

    @cached_property
    def _rank(self) -> dict[tuple[int, ...], int]:
        return {place: rank for rank, place in self.coordinates.items()}

    def size(self, axis: str) -> int:
        """Positions along an axis."""
        return self._sizes[axis]

    def place(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Coordinates of a rank along some axes."""
        place = dict(zip(self.axes, self.coordinates[rank], strict=True))
        return tuple(place[axis] for axis in axes)

    def places(self, axes: Sequence[str]) -> Iterator[tuple[int, ...]]:
        """All coordinates along some axes."""
        return product(*(range(self.size(axis)) for axis in axes))

    def at(self, axes: Sequence[str], place: Sequence[int], start: int | None = None) -> int:
        """The rank at a place along some axes, with the other coordinates of `start` (0 without one)."""
        there = [0] * len(self.axes) if start is None else list(self.coordinates[start])
        for axis, coordinate in zip(axes, place, strict=True):
            there[self.axes.index(axis)] = coordinate
        return self._rank[tuple(there)]

    def moved(self, rank: int, axis: str, steps: int) -> int:
        """The rank some steps further along an axis."""
        return self.at([axis], [self.place(rank, [axis])[0] + steps], rank)

    def axes_of(self, groups: Sequence[Sequence[int]]) -> tuple[str, ...] | None:
        """The axes, major first, along which the members of every group run in order; None where they do not run
        along whole axes. Axes of one position are left out."""
        first = groups[0]
        weights = {}
        for axis in self.axes:
            if self.size(axis) > 1 and len({self.place(rank, [axis]) for rank in first}) > 1:
                start = self.at([axis], [0], first[0])
                step = self.moved(start, axis, 1)
                if start not in first or step not in first:
                    return None
                weights[axis] = first.index(step) - first.index(start)
        axes = sorted(weights, key=lambda axis: -weights[axis])
        if len(first) != prod(self.size(axis) for axis in axes):
            return None
        others = [axis for axis in self.axes if axis not in axes]
        inside = list(self.places(axes))
        where, rest = ([self.axes.index(axis) for axis in some] for some in (axes, others))
        seen = set()
        for group in groups:
            places = [self.coordinates[rank] for rank in group]
            outside = {tuple(place[i] for i in rest) for place in places}
            if len(outside) != 1 or [tuple(place[i] for i in where) for place in places] != inside:
                return None
            seen |= outside
        return tuple(axes) if len(seen) == len(groups) == prod(self.size(axis) for axis in others) else None
