"""A baseline and a distributed program written by hand, side by side, in a few lines of Python.

    pair = Pair("tp=2", title="row-parallel linear layer")
    b = pair.base
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    d = pair.dist
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))     # local shapes follow from the placement
    d.output(d.all_reduce(y, "tp"))
    facts = pair.facts()

Every op of the vocabulary (docs/facts.md) is a method: elementwise kinds by their names with `_` for `-`
(`d.exponential(x)`), the others below; `op` takes any kind. Shapes are inferred;
scalars in elementwise ops are broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.ir.programs import Program
from scalify_dl.ir.recorder import Axes
from scalify_dl.readers.relations import InputRelation, OutputRelation, Parts, Relations
from scalify_dl.yaml_nodes import Place

from .export import Whole, tables

__all__ = ["Distributed", "Pair", "Program"]

Dims = Mapping[int, Axes]


class Distributed(Program):
    """A distributed program: inputs are placed baseline inputs."""

    def __init__(self, name: str, pair: Pair, ranks: Sequence[int] | None) -> None:
        super().__init__(name, pair.mesh)
        self.graph.ranks = ranks
        self.pair = pair

    def shard(
        self,
        name: str,
        dims: Dims | Sequence[Dims] | None = None,
        *,
        parts: tuple[int, Sequence[int]] | None = None,
        like: Tensor | None = None,
    ) -> Tensor:
        """The baseline input of that name, placed: `dims` maps dims to the mesh axes that split them (replicated
        otherwise); `parts` is a dim and the sizes of its parts, each placed by `dims` (or by its own, given a list).
        """
        base = like or next((port.tensor for port in self.pair.base.graph.inputs if port.tensor.name == name), None)
        if base is None:
            raise InputError(f"the baseline has no input `{name}` yet")
        given = [dims] if dims is None or isinstance(dims, Mapping) else list(dims)
        axes = tuple({d: _axis_parts(spec) for d, spec in (entry or {}).items()} for entry in given)
        relation = InputRelation(
            name,
            _NOWHERE,
            None,
            axes if len(axes) > 1 else axes[0],
            Parts(parts[0], tuple(parts[1])) if parts else None,
        )
        shape = list(base.shape)
        if relation.parts is None:
            shape = list(Placement(axes[0]).layout(shape, self.mesh).local_shape)
        else:
            total = 0
            for n, size in enumerate(relation.parts.sizes):
                piece = list(base.shape)
                piece[relation.parts.dim] = size
                local = Placement(axes[n if len(axes) > 1 else 0]).layout(piece, self.mesh).local_shape
                shape = list(local)
                total += local[relation.parts.dim]
            shape[relation.parts.dim] = total
        self.pair.relations.append(relation)
        return self.graph.input(name, base.dtype, shape, path=name)


class Pair:
    """A baseline, one or more distributed programs, and what relates them."""

    def __init__(self, mesh: str | Mesh, *, title: str = "") -> None:
        self.mesh = mesh if isinstance(mesh, Mesh) else Mesh.parse(mesh)
        self.title = title
        self.base = Program("base", self.mesh)
        self.programs: list[Distributed] = []
        self.relations: list[InputRelation] = []
        self.expected: list[OutputRelation] = []

    @property
    def dist(self) -> Distributed:
        """The distributed program that all ranks run."""
        if not self.programs:
            self.program(None)
        return self.programs[0]

    def program(self, ranks: Sequence[int] | None) -> Distributed:
        """Another distributed program, run by some ranks."""
        self.programs.append(Distributed(f"dist{len(self.programs) or ''}", self, ranks))
        return self.programs[-1]

    def expect(self, output: int, dims: Dims | None = None, pending: Mapping[str, str] | None = None) -> None:
        """The placement of a distributed output, where it is not the default; other outputs are then not checked."""
        axes = {d: _axis_parts(spec) for d, spec in (dims or {}).items()}
        self.expected.append(OutputRelation(str(output), _NOWHERE, None, axes, pending or {}))

    def facts(self, whole: Whole | None = None) -> Facts:
        """The facts; InputError where the programs are malformed. `whole` as for `export`."""
        relations = Relations(
            inputs=tuple({relation.key: relation for relation in self.relations}.values()), outputs=tuple(self.expected)
        )
        dists = [program.graph for program in self.programs]
        facts = tables(self.base.graph, dists, self.mesh, relations, joined=whole is not None, whole=whole)
        if self.title:
            facts.add("meta", "title", self.title)
        return facts


_NOWHERE = Place(None, 0, 0)


def _axis_parts(spec: Axes) -> list[AxisPart]:
    try:
        return [AxisPart.parse(text) for text in ([spec] if isinstance(spec, str) else spec)]
    except ValueError as error:
        raise InputError(str(error)) from None
