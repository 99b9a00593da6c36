"""A baseline and a distributed graph built side by side, for fuzzing rules and for tests.

pair = Pair({"tp": 2})
x, dx = pair.input((8, 16), {1: "tp"})
w, dw = pair.input((16, 32), {0: "tp"})
y, dy = matmul(pair.base, x, w), matmul(pair.dist, dx, dw)
pair.outputs(y, pair.dist.emit("all-reduce", [dy], reducer="sum", groups=pair.groups("tp")))
tables = pair.tables()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl
from scalify_dl.ir.mesh import Mesh

Split = Mapping[int, str | Sequence[str]]
"""Baseline dim → the mesh axes that split it, major to minor."""


class Pair:
    """Both graphs, and how their inputs and outputs are related. `mesh` maps axes to sizes, the first one major; along
    `still` ones no rank is told apart."""

    def __init__(self, mesh: Mapping[str, int], still: Iterable[str] = ()) -> None:
        self.mesh = Mesh(tuple(mesh.items()), frozenset(still))
        self.base, self.dist = Graph("base"), Graph("dist")
        self._shards: list[tuple[Tensor, Tensor, str, str]] = []
        self._expects: list[tuple[Tensor, Tensor, str]] = []

    def layout(self, shape: Sequence[int], split: Split, *, pending: Mapping[str, str] | None = None) -> Layout:
        """Dims in order, split in contiguous blocks; axes in `pending` hold that reduction, all others replicate.

        Raises InputError where the axes do not divide a dim."""
        local = list(shape)
        entries: dict[str, Any] = {}
        for dim, axes in split.items():
            names = [axes] if isinstance(axes, str) else list(axes)
            ways = prod(self.mesh.axis_size(a) for a in names)
            if local[dim] % ways:
                raise InputError(f"dim {dim} of {list(shape)} over {' and '.join(names)}, {ways} ranks")
            local[dim] //= ways
            stride = local[dim]
            for axis in reversed(names):
                entries[axis] = Digit(dim, stride, self.mesh.axis_size(axis))
                stride *= self.mesh.axis_size(axis)
        for axis, reducer in (pending or {}).items():
            entries[axis] = Pending(reducer, self.mesh.axis_size(axis))
        return Layout.of(
            [[Digit(d, 1, n)] for d, n in enumerate(local)], [(a, [entries.get(a, Repl(n))]) for a, n in self.mesh.axes]
        )

    def input(
        self,
        shape: Sequence[int],
        split: Split | None = None,
        *,
        dtype: str = "f32",
        range: tuple[int, int] | None = None,
        layout: Layout | None = None,
        pending: Mapping[str, str] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """An input of both graphs (baseline, distributed), placed by `split` and `pending`, or by `layout`."""
        placed = layout or self.layout(shape, split or {}, pending=pending)
        base = self.base.input(f"x{len(self.base.inputs)}", dtype, shape, range=range)
        dist = self.dist.input(f"x{len(self.dist.inputs)}", dtype, placed.local_shape)
        self._shards.append((dist, base, "", str(placed)))
        return base, dist

    def part(self, base: Tensor, dim: int, lo: int, hi: int, layout: Layout) -> Tensor:
        """A distributed input that is elements `lo … hi-1` along one dim of a baseline input, as `layout` says."""
        dist = self.dist.input(f"x{len(self.dist.inputs)}", base.dtype, layout.local_shape)
        self._shards.append((dist, base, f"{dim}:{lo}:{hi}", str(layout)))
        return dist

    def outputs(self, base: Tensor, dist: Tensor, *, layout: str = "") -> None:
        """A pair of outputs to compare; `layout` empty: any placement that is accepted unasked."""
        self.base.output(base)
        self.dist.output(dist)
        self._expects.append((dist, base, layout))

    def groups(self, *axes: str) -> list[list[int]]:
        """The rank groups of a collective over some axes, ranks in mesh order."""
        names = [name for name, _ in self.mesh.axes]
        found: dict[tuple[int, ...], list[int]] = {}
        for rank, at in enumerate(self.mesh.coordinates):
            found.setdefault(tuple(c for a, c in zip(names, at, strict=True) if a not in axes), []).append(rank)
        return list(found.values())

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """The fact tables."""
        writer = TableWriter(self.mesh)
        writer.graph(self.base, "base", "base", "base/")
        writer.graph(self.dist, "dist", "dist", "")
        facts, ids = writer.facts, writer.ids
        facts.add("meta", "schema", "1")
        for graph in (self.base, self.dist):
            for port in graph.inputs:
                if port.range:
                    facts.add("range", ids[port.tensor], *port.range, "given")
        for dist, base, piece, layout in self._shards:
            facts.add("shard", ids[dist], "", ids[base], piece, layout, "given")
        for dist, base, layout in self._expects:
            facts.add("expect", ids[dist], ids[base], layout)
        return facts.tables


def matmul(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    """Contracts the last dim of x with the first of w."""
    return g.emit("dot", [x, w], lhs_contracting_dims=[len(x.shape) - 1], rhs_contracting_dims=[0])


def spread(g: Graph, x: Tensor, shape: Sequence[int], dims: Sequence[int]) -> Tensor:
    """Broadcast: x's dim i becomes dim `dims[i]`."""
    return g.emit("broadcast", [x], shape=tuple(shape), dimensions=list(dims))
