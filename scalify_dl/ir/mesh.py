"""The device mesh: named axes and where every rank sits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from scalify_dl.errors import InputError

RANKS_LIMIT = 2**16


@dataclass(frozen=True)
class Mesh:
    """Axes (name, size), the first one major. Rank r has the r-th coordinate tuple in row-major order.

    Ranks that differ along `still` axes alone do the same with the same numbers: one of them is written, at coordinate
    0, and stands for all (docs/facts.md).
    """

    axes: tuple[tuple[str, int], ...]
    still: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """Reads `dp=2,tp=4`; InputError on anything else."""
        axes = []
        for word in text.split(","):
            match = re.fullmatch(r"\s*([A-Za-z_][\w.-]*)\s*=\s*([0-9]{1,6})\s*", word)
            if not match or int(match[2]) < 1:
                raise InputError(f"--mesh: `{word}` is not an axis", expected="axis=size,…, such as dp=2,tp=4")
            axes.append((match[1], int(match[2])))
        names = [axis for axis, _ in axes]
        if len(set(names)) != len(names):
            raise InputError(f"--mesh: axis named twice in `{text}`")
        mesh = cls(tuple(axes))
        if mesh.size > RANKS_LIMIT:
            raise InputError(f"--mesh: {mesh.size} ranks", expected=f"at most {RANKS_LIMIT}")
        return mesh

    @cached_property
    def size(self) -> int:
        """Number of ranks that are written."""
        return prod(size for axis, size in self.axes if axis not in self.still)

    @cached_property
    def coordinates(self) -> list[tuple[int, ...]]:
        """Coordinates of every rank that is written, in axis order."""
        return list(product(*(range(1 if axis in self.still else size) for axis, size in self.axes)))

    def axis_size(self, axis: str) -> int:
        """Size of an axis; InputError where there is none of that name."""
        for name, size in self.axes:
            if name == axis:
                return size
        raise InputError(f"no mesh axis `{axis}`", expected=f"one of {', '.join(name for name, _ in self.axes)}")

    def rank(self, coordinates: Sequence[int]) -> int:
        """The rank at the given coordinates."""
        rank = 0
        for (_, size), coordinate in zip(self.axes, coordinates, strict=True):
            rank = rank * size + coordinate
        return rank

    def groups(self, axes: Sequence[str]) -> list[list[int]]:
        """Groups of the ranks that are written and differ in these axes only, in row-major order of these as listed."""
        for axis in axes:
            self.axis_size(axis)
        order = [axis for axis, _ in self.axes]
        found: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
        for rank, place in enumerate(self.coordinates):
            at = dict(zip(order, place, strict=True))
            rest = tuple(at[axis] for axis in order if axis not in axes)
            found.setdefault(rest, []).append((tuple(at[axis] for axis in axes), rank))
        return [[rank for _, rank in sorted(members)] for members in found.values()]

    def __str__(self) -> str:
        return ",".join(f"{axis}={size}" for axis, size in self.axes)


def primes(number: int) -> list[int]:
    """Its prime factors, ascending."""
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found
