"""Axes of the mesh that may become short: what runs on 512 copies of the data runs on two.

The ranks that are left are those at few coordinates, under their own numbers (tables by rank stay as they are). An axis
may become short where every collective runs along whole axes and nothing counts the ranks: no pairs of ranks, no mean
over a group, no draws.
"""

from __future__ import annotations

from itertools import pairwise

from scalify_dl.facts.coordinates import Ranks
from scalify_dl.ir.vocabulary import COLLECTIVES, RANDOM

from ..program import Op, Program
from .extents import Sizes

REDUCERS = frozenset({"sum", "max", "min", "and", "or"})


class Grid:
    """The mesh of a program, and along which of its axes collectives run."""

    def __init__(self, program: Program) -> None:
        self.sizes = dict(program.mesh)
        rows = [(rank, axis, at) for rank, place in program.coords.items() for axis, at in place.items()]
        self._ranks = Ranks(rows, list(program.mesh))
        self._along: dict[tuple[tuple[int, ...], ...], tuple[str, ...] | None] = {}

    def along(self, op: Op) -> tuple[str, ...] | None:
        """The axes, major first, that the groups of a collective run along; None where they run along no whole ones."""
        if not op.groups:
            return tuple(axis for axis, size in self.sizes.items() if size > 1)
        groups = tuple(map(tuple, op.groups))
        if groups not in self._along:
            self._along[groups] = self._ranks.axes_of(groups)
        return self._along[groups]

    def free(self, program: Program) -> frozenset[str]:
        """The axes that may become short: all, or none."""
        ranks = set(program.ranks)
        for graph in program.graphs.values():
            if graph.role != "dist":
                continue
            if set(graph.ranks) != ranks or any(not self._allows(op) for op in graph.ops):
                return frozenset()
        return frozenset(self.sizes)

    def _allows(self, op: Op) -> bool:
        if op.kind in RANDOM or op.kind.startswith("rng") or op.pairs:
            return False
        if op.kind not in COLLECTIVES:
            return True
        along = self.along(op)
        return bool(along) and op.symbol("reducer", "sum") in REDUCERS


def short(places: dict[int, dict[str, int]], axes: dict[str, int], sizes: Sizes) -> dict[int, dict[str, int]]:
    """The ranks that are left, where they are on the short mesh. `axes`: extents of those that became short."""
    moved: dict[str, dict[int, int]] = {}
    for axis, extent in axes.items():
        root = sizes.extents.root(extent)
        chain, _ = sizes.extents.structure(root)
        moved[axis] = {}
        for at in range(sizes.extents.size(extent)):
            digits = [(lo, at % hi // lo) for lo, hi in pairwise(chain)]
            if all(digit < sizes.atoms[root, lo] for lo, digit in digits):
                moved[axis][at] = sum(digit * sizes.offset(extent, lo) for lo, digit in digits)
    return {
        rank: {axis: moved[axis][at] if axis in moved else at for axis, at in place.items()}
        for rank, place in places.items()
        if all(at in moved[axis] for axis, at in place.items() if axis in moved)
    }
