"""The mesh in cells: ranks that run one program, at the same place along the axes on which programs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh

__all__ = ["Cells", "cells_of"]


@dataclass(frozen=True)
class Cells:
    """`ranks[k]` are those of cell k, in the order of the mesh; the j-th ones of all cells are counterparts, which
    differ along `axes` alone. `program[k]` is what the cell runs."""

    axes: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]
    program: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ranks)

    @property
    def columns(self) -> int:
        """Ranks in each."""
        return len(self.ranks[0])

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """The cell of a rank, and where in it."""
        return {rank: (k, j) for k, ranks in enumerate(self.ranks) for j, rank in enumerate(ranks)}

    @cached_property
    def lines(self) -> list[list[int]]:
        """Counterparts, in the order of cells."""
        return [[ranks[j] for ranks in self.ranks] for j in range(self.columns)]

    def of(self, program: int) -> list[int]:
        """The cells that run a program."""
        return [k for k, p in enumerate(self.program) if p == program]

    def everywhere(self, columns: Sequence[int]) -> list[list[int]]:
        """The same places in every cell."""
        return [[ranks[j] for j in columns] for ranks in self.ranks]


def cells_of(programs: Sequence[Graph], mesh: Mesh) -> Cells | None:
    """The fewest cells; None where some rank runs no program, or two."""
    runs: dict[int, int] = {}
    for number, program in enumerate(programs):
        for rank in program.ranks if program.ranks is not None else range(mesh.size):
            if runs.setdefault(rank, number) != number:
                return None
    if set(runs) != set(range(mesh.size)):
        return None
    names = [axis for axis, _ in mesh.axes]
    wide = [n for n, (_, size) in enumerate(mesh.axes) if size > 1]
    choices = [chosen for count in range(len(wide) + 1) for chosen in combinations(wide, count)]
    choices.sort(key=lambda chosen: prod(mesh.axes[n][1] for n in chosen))
    for chosen in choices:
        cells: dict[tuple[int, ...], list[int]] = {}
        for rank, coordinates in enumerate(mesh.coordinates):
            cells.setdefault(tuple(coordinates[n] for n in chosen), []).append(rank)
        if all(len({runs[rank] for rank in ranks}) == 1 for ranks in cells.values()):
            placed = [tuple(cells[at]) for at in sorted(cells)]
            return Cells(tuple(names[n] for n in chosen), tuple(placed), tuple(runs[ranks[0]] for ranks in placed))
    return None
