"""A mesh as positions: its axes in prime factors, major first; and what groups and tables of ranks say of positions.

    grid = Grid(Mesh.parse("dp=2,tp=4"))
    [axis for axis, _ in grid.positions]          # dp, tp, tp
    grid.along([[0, 1, 2, 3], [4, 5, 6, 7]])       # (1, 2): both positions of tp, the major one first
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any

from scalify_dl.ir.layout import Digit, Entry, Pending, Repl
from scalify_dl.ir.mesh import Mesh, primes

if TYPE_CHECKING:
    import numpy as np


class Grid:
    """Positions of a mesh; the coordinates of every rank at them."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.positions = [(axis, prime) for axis, size in mesh.axes for prime in primes(size)]
        self.sizes = [size for _, size in self.positions]

    @cached_property
    def coordinates(self) -> list[tuple[int, ...]]:
        """Of every rank."""
        found = []
        for rank in range(self.mesh.size):
            digits: list[int] = []
            for size in reversed(self.sizes):
                digits.append(rank % size)
                rank //= size
            found.append(tuple(reversed(digits)))
        return found

    def along(self, groups: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
        """The positions along which the groups run, in the order of their members, major first; None where the groups
        are no part of the mesh."""
        if sorted(rank for group in groups for rank in group) != list(range(self.mesh.size)):
            return None
        first = [self.coordinates[rank] for rank in groups[0]]
        moving = [p for p in range(len(self.sizes)) if len({at[p] for at in first}) > 1]
        if prod(self.sizes[p] for p in moving) != len(first) or len(moving) > 6:
            return None
        for order in permutations(moving):
            if all(self._in_order([self.coordinates[r] for r in group], order) for group in groups):
                return order
        return None

    def _in_order(self, places: Sequence[tuple[int, ...]], order: Sequence[int]) -> bool:
        """Whether places are all numbers of these positions, counted up, and alike at all others."""
        for number, at in enumerate(places):
            for p in reversed(order):
                if at[p] != number % self.sizes[p]:
                    return False
                number //= self.sizes[p]
            if any(at[p] != places[0][p] for p in range(len(at)) if p not in order):
                return False
        return True

    def block_of(self, starts: Sequence[int], block: int) -> tuple[int, ...] | None:
        """The positions, major first, whose number times `block` is where each rank starts; None where there are
        none."""
        moving = [
            p for p in range(len(self.sizes))
            if any(starts[r] != starts[0] for r, at in enumerate(self.coordinates)
                   if all(x == 0 for q, x in enumerate(at) if q != p))
        ]  # fmt: skip
        for order in permutations(moving) if len(moving) <= 6 else ():
            if all(starts[rank] == block * self.number(at, order) for rank, at in enumerate(self.coordinates)):
                return order
        return None

    def varying(self, values: Mapping[int, np.ndarray[Any, Any]]) -> list[int]:
        """The positions on which values of ranks depend."""
        import numpy as np  # most programs are proved without

        at = {coordinates: rank for rank, coordinates in enumerate(self.coordinates)}
        found = []
        for p in range(len(self.sizes)):
            firsts = {rank: at[(*c[:p], 0, *c[p + 1 :])] for rank, c in enumerate(self.coordinates)}
            if any(not np.array_equal(values[rank], values[first]) for rank, first in firsts.items()):
                found.append(p)
        return found

    def number(self, at: Sequence[int], order: Iterable[int]) -> int:
        """Coordinates at these positions as one number."""
        found = 0
        for p in order:
            found = found * self.sizes[p] + at[p]
        return found

    def split(self, axes: Iterable[tuple[str, Sequence[Entry]]]) -> tuple[Entry, ...] | None:
        """Entries of axes, position by position; None where an entry is no whole number of positions."""
        given = dict(axes)
        found: list[Entry] = []
        for axis, size in self.mesh.axes:
            here = primes(size)
            for entry in given.get(axis) or [Repl(size)]:
                left, stride = entry.size, entry.stride * entry.size if isinstance(entry, Digit) else 0
                while left > 1:
                    if not here or left % here[0]:
                        return None
                    prime = here.pop(0)
                    left //= prime
                    stride //= prime
                    if isinstance(entry, Digit):
                        found.append(Digit(entry.dim, stride, prime))
                    else:
                        found.append(Pending(entry.reducer, prime) if isinstance(entry, Pending) else Repl(prime))
            found += map(Repl, here)
        return tuple(found)

    def joined(self, entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
        """Entries of positions by axis."""
        found: dict[str, list[Entry]] = {axis: [] for axis, _ in self.mesh.axes}
        for (axis, _), entry in zip(self.positions, entries, strict=True):
            found[axis].append(entry)
        return list(found.items())

    def axes_of(self, positions: Iterable[int]) -> list[str]:
        """The axes that positions belong to."""
        return list(dict.fromkeys(self.positions[p][0] for p in positions))
