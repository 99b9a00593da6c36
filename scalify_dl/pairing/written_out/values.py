"""What a value of a program is in the one that is written out.

The mesh is cut into *cells*: ranks at one place along the axes on which ranks do different things. Ranks at one place
along all others are *counterparts*, one in each cell.

- `Shared`: one value of the program that is written out, which on each rank is what that rank computes.
- `Own`: one value for each cell, which on each rank is what its counterpart in that cell computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.mesh import Mesh

__all__ = ["Cells", "NotWrittenOut", "Own", "Shared", "Value"]


class NotWrittenOut(Exception):
    """The program stays as it is."""


@dataclass(frozen=True, eq=False, slots=True)
class Shared:
    """On each rank what that rank computes. `uniform`: counterparts compute the same."""

    tensor: Tensor
    uniform: bool


@dataclass(frozen=True, eq=False, slots=True)
class Own:
    """By cell, what its ranks compute, on every rank."""

    tensors: tuple[Tensor, ...]


Value = Shared | Own


@dataclass(frozen=True)
class Cells:
    """The cells of a mesh along some axes."""

    mesh: Mesh
    axes: tuple[str, ...]

    @cached_property
    def count(self) -> int:
        """How many there are."""
        return len(set(self.of_rank))

    @cached_property
    def of_rank(self) -> list[int]:
        """The cell of every rank, numbered in the order of the mesh."""
        places = [tuple(c for (axis, _), c in zip(self.mesh.axes, at, strict=True) if axis in self.axes)
                  for at in self.mesh.coordinates]  # fmt: skip
        number = {place: n for n, place in enumerate(product(*(range(self.mesh.axis_size(a)) for a in self._ordered)))}
        return [number[place] for place in places]

    @cached_property
    def _ordered(self) -> list[str]:
        return [axis for axis, _ in self.mesh.axes if axis in self.axes]

    @cached_property
    def counterparts(self) -> list[list[int]]:
        """By cell, its ranks; the j-th ones are counterparts."""
        ranks: list[list[int]] = [[] for _ in range(self.count)]
        for rank, cell in enumerate(self.of_rank):
            ranks[cell].append(rank)
        return ranks

    @cached_property
    def column(self) -> list[int]:
        """The place of every rank in its cell."""
        at = {rank: j for ranks in self.counterparts for j, rank in enumerate(ranks)}
        return [at[rank] for rank in range(self.mesh.size)]

    @cached_property
    def lines(self) -> list[list[int]]:
        """All counterparts, in the order of the cells."""
        return [list(line) for line in zip(*self.counterparts, strict=True)]

    def counterpart(self, rank: int, cell: int) -> int:
        """The rank of that cell that is at the same place."""
        return self.counterparts[cell][self.column[rank]]

    def within(self, groups: Sequence[Sequence[int]], cell: int) -> list[list[int]] | None:
        """Groups of which those of the cell lie in it, for counterparts of all cells; None where others belong to
        them."""
        mine = [group for group in groups if any(self.of_rank[rank] == cell for rank in group)]
        if any(self.of_rank[rank] != cell for group in mine for rank in group):
            return None
        return [[self.counterpart(rank, other) for rank in group] for other in range(self.count) for group in mine]
