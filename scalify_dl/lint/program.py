"""A distributed program written by hand, alone: its inputs say how they are placed.

    program = Alone("tp=2")
    x = program.place("x", (8, 16))                         # whole on every rank
    w = program.place("w", (16, 32), {0: "tp"})             # rows in blocks over tp: 8 of them on every rank
    program.output(program.all_reduce(program.matmul(program.shard_of(x, 1, "tp"), w), "tp"))
    result = lint_graph(program.graph, program.mesh)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from scalify_dl.errors import InputError
from scalify_dl.ir.callers import BUILDERS
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.ir.programs import Program
from scalify_dl.ir.recorder import Axes
from scalify_dl.ir.transitions import own_block, transition

BUILDERS.add(os.path.abspath(__file__))


class Alone(Program):
    """A distributed program whose inputs and outputs say where they are."""

    def __init__(self, mesh: str | Mesh, name: str = "dist") -> None:
        super().__init__(name, mesh if isinstance(mesh, Mesh) else Mesh.parse(mesh))

    def place(
        self, name: str, shape: Sequence[int], dims: Mapping[int, Axes] | None = None, dtype: str = "f32", *,
        pending: Mapping[str, str] | None = None, range: tuple[int, int] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> Tensor:  # fmt: skip
        """An input: `shape` is that on one device, `dims` the axes that split its dims, `pending` reductions that are
        still to be done over axes; `types` are its SPMD types by axis (`R`, `I`), where its gradient is to be known."""
        placement = placed(dims, pending)
        local = placement.layout(shape, self.mesh).local_shape
        made = self.graph.input(name, dtype, local, path=name, placement=placement, range=range)
        return self.expect(made, types or {})

    def own(self, name: str, shape: Sequence[int], types: Mapping[str, str], dtype: str = "f32") -> Tensor:
        """An input of that shape on every rank, of which no more is known than its SPMD types (`V`: each its own)."""
        return self.expect(self.graph.input(name, dtype, shape, path=name), types)

    def expect(self, value: Tensor, types: Mapping[str, str]) -> Tensor:
        """Says the SPMD types of a value, which are checked."""
        for axis, word in types.items():
            self.mesh.axis_size(axis)
            if word not in ("R", "I", "P", "V") and not (word[:1] == "S" and word[1:].isdigit()):
                raise InputError(f"no SPMD type `{word}`", expected="R, I, P, V or S0, S1, …")
            self.graph.types.setdefault(value, {})[axis] = word
        return value

    def reinterpret(self, x: Tensor, axis: str, src: str, dst: str) -> Tensor:
        """Nothing is done; what the value stands for is another (`R` → `P`: n times it)."""
        return transition(self, "reinterpret", x, axis, src, dst)

    def convert_type(self, x: Tensor, axis: str, src: str, dst: str) -> Tensor:
        """`convert` of SPMD types: the value stays, nothing is sent (`I` → `R`, `R` → `S0`, `R` → `P`)."""
        return transition(self, "convert", x, axis, src, dst)

    def typed(self, verb: str, x: Tensor, axis: str, src: str, dst: str) -> Tensor:
        """A collective with its types: `all_reduce` (`P` → `R`, `I`), `all_gather`, `reduce_scatter`, `all_to_all`."""
        return transition(self, verb, x, axis, src, dst)

    def result(
        self, value: Tensor, dims: Mapping[int, Axes] | None = None, pending: Mapping[str, str] | None = None
    ) -> None:
        """An output that is expected in a placement."""
        self.graph.output(value, placement=placed(dims, pending))

    def shard_of(self, x: Tensor, dim: int, axis: str) -> Tensor:
        """The rank's own block of a dim."""
        return own_block(self, x, dim, axis)


def placed(dims: Mapping[int, Axes] | None, pending: Mapping[str, str] | None) -> Placement:
    """A placement of texts."""
    parts = {}
    for d, axes in (dims or {}).items():
        parts[d] = [AxisPart.parse(axis) for axis in ([axes] if isinstance(axes, str) else axes)]
    return Placement(parts, pending or {})
