"""Ways to say that an input of a distributed program lies otherwise than it does: whole for blocks, blocks for whole,
along another dim, over another axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.layout import Digit
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart
from scalify_dl.lint.findings import live
from scalify_dl.lint.grid import Grid
from scalify_dl.lint.held import Held
from scalify_dl.lint.judge import Prepared
from scalify_dl.readers.relations import InputRelation, Relations
from scalify_dl.yaml_nodes import Place

Dims = dict[int, tuple[AxisPart, ...]]


class Said(NamedTuple):
    """A placement of an input that is not its own, in words."""

    input: Tensor
    text: str
    dims: Dims
    sort: str = "placement"

    def of(self, relations: Relations) -> Relations:
        """What is said of the program, with this in place of what was said of the input."""
        name = self.input.name
        rest = tuple(r for r in relations.inputs if r.key != name)
        return replace(relations, inputs=(*rest, InputRelation(name, Place(None, 0, 0), dims=self.dims)))


def said_wrongly(start: Prepared, mesh: Mesh) -> Iterator[Said]:
    """All of them, input by input."""
    grid, axes = Grid(mesh), [axis for axis, size in mesh.axes if size > 1]
    used = {t for op in live(start.dist, start.ends) for t in op.operands}
    for port in start.dist.inputs:
        held = start.start.held.get(port.tensor)
        if held is None or not port.tensor.shape or port.tensor not in used:
            continue
        dims = _dims(held, grid)
        for text, other in _others(dims, len(port.tensor.shape), axes):
            yield Said(port.tensor, f"{port.tensor.name} (input): {text}", other)


def _dims(held: Held, grid: Grid) -> Dims:
    """The dims that are cut, and the axes that cut them."""
    found: dict[int, list[str]] = {}
    cuts = [(p, entry.dim) for p, entry in enumerate(held.mesh) if isinstance(entry, Digit)]
    cuts += [(p, held.along) for part in held.parts for p in part.cut if held.along is not None]
    for p, dim in cuts:
        axis = grid.positions[p][0]
        found.setdefault(dim, [])
        if axis not in found[dim]:
            found[dim].append(axis)
    return {dim: tuple(map(AxisPart, mine)) for dim, mine in found.items()}


def _others(dims: Dims, rank: int, axes: list[str]) -> Iterator[tuple[str, Dims]]:
    used = {part.axis for parts in dims.values() for part in parts}
    for dim, parts in dims.items():
        rest = {d: mine for d, mine in dims.items() if d != dim}
        yield f"dim {dim} whole", rest
        for other in range(rank):
            if other not in dims:
                yield f"blocks of dim {other} for dim {dim}", {**rest, other: parts}
        for axis in axes:
            if axis not in used:
                yield f"blocks of dim {dim} over {axis}", {**rest, dim: (AxisPart(axis),)}
    for axis in axes:
        for dim in range(rank):
            if axis not in used and dim not in dims:
                yield f"blocks of dim {dim} over {axis}, too", {**dims, dim: (AxisPart(axis),)}
