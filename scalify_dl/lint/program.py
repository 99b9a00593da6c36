"""A distributed program written by hand, alone: its inputs say how they are placed.

    program = Alone("tp=2")
    x = program.place("x", (8, 16))                         # whole on every rank
    w = program.place("w", (16, 32), {0: "tp"})             # rows in blocks over tp: 8 of them on every rank
    program.output(program.all_reduce(program.matmul(program.shard_of(x, 1, "tp"), w), "tp"))
    result = lint_graph(program.graph, program.mesh)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.ir.programs import Axes, Program


class Alone(Program):
    """A distributed program whose inputs and outputs say where they are."""

    def __init__(self, mesh: str | Mesh, name: str = "dist") -> None:
        super().__init__(name, mesh if isinstance(mesh, Mesh) else Mesh.parse(mesh))

    def place(
        self, name: str, shape: Sequence[int], dims: Mapping[int, Axes] | None = None, dtype: str = "f32", *,
        pending: Mapping[str, str] | None = None, range: tuple[int, int] | None = None,
    ) -> Tensor:  # fmt: skip
        """An input: `shape` is that on one device, `dims` the axes that split its dims, `pending` reductions that are
        still to be done over axes."""
        placement = placed(dims, pending)
        local = placement.layout(shape, self.mesh).local_shape
        return self.graph.input(name, dtype, local, path=name, placement=placement, range=range)

    def result(
        self, value: Tensor, dims: Mapping[int, Axes] | None = None, pending: Mapping[str, str] | None = None
    ) -> None:
        """An output that is expected in a placement."""
        self.graph.output(value, placement=placed(dims, pending))

    def shard_of(self, x: Tensor, dim: int, axis: str) -> Tensor:
        """The rank's own block of a dim."""
        size = self.mesh.axis_size(axis)
        if x.shape[dim] % size:
            raise InputError(f"dim {dim} of {x.type} does not divide by {axis}={size}")
        block = x.shape[dim] // size
        at = [name for name, _ in self.mesh.axes].index(axis)
        starts = {rank: place[at] * block for rank, place in enumerate(self.mesh.coordinates)}
        return self.slice(x, dim, starts, {rank: start + block for rank, start in starts.items()})


def placed(dims: Mapping[int, Axes] | None, pending: Mapping[str, str] | None) -> Placement:
    """A placement of texts."""
    parts = {}
    for d, axes in (dims or {}).items():
        parts[d] = [AxisPart.parse(axis) for axis in ([axes] if isinstance(axes, str) else axes)]
    return Placement(parts, pending or {})
