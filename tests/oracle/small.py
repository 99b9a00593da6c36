"""Fact tables of small pairs of graphs, for tests: the front ends' graph model, written out with explicit layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalify_dl.frontends.graph import Graph, Tensor
from scalify_dl.frontends.mesh import Mesh
from scalify_dl.frontends.tables import TableWriter
from scalify_dl.oracle.program import Program, load_program


class Pair:
    """A baseline and a distributed graph over a mesh; `shard` relates inputs, `program()` makes it executable."""

    def __init__(self, mesh: Mapping[str, int]) -> None:
        self.mesh = dict(mesh)
        self.base, self.dist = Graph("base"), Graph("dist")
        self.rows: list[tuple[Tensor, Tensor, str]] = []
        self.expect: list[tuple[Tensor, Tensor, str]] = []

    def input(
        self, dtype: str, shape: Sequence[int], local: Sequence[int], layout: str, range: tuple[int, int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """One input on both sides."""
        b = self.base.input(f"b{len(self.base.inputs)}", dtype, shape, range=range)
        d = self.dist.input(f"d{len(self.dist.inputs)}", dtype, local)
        self.rows.append((d, b, layout))
        return b, d

    def outputs(self, base: Tensor, dist: Tensor, layout: str = "") -> None:
        """A pair of outputs."""
        self.base.output(base)
        self.dist.output(dist)
        self.expect.append((dist, base, layout))

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """The tables."""
        writer = TableWriter(Mesh(list(self.mesh.items())))
        writer.graph(self.base, "base", "base", "base/")
        writer.graph(self.dist, "dist", "dist", "")
        facts, ids = writer.facts, writer.ids
        for graph in (self.base, self.dist):
            for port in graph.inputs:
                if port.range:
                    facts.add("range", ids[port.tensor], *port.range, "given")
        for d, b, layout in self.rows:
            facts.add("shard", ids[d], "", ids[b], "", layout, "given")
        for d, b, layout in self.expect:
            facts.add("expect", ids[d], ids[b], layout)
        return facts.tables

    def program(self) -> Program:
        """The pair as the oracle runs it."""
        return load_program(self.tables())


def row_parallel(
    mesh: int = 2, reduce: bool = True, reducer: str = "sum", groups: list[list[int]] | None = None
) -> Pair:
    """y = x w, contracted over tp, all-reduced (or not)."""
    pair = Pair({"tp": mesh})
    n = 32
    bx, dx = pair.input("f32", (8, n), (8, n // mesh), f"[0:1x8][1:1x{n // mesh}]|tp=1:{n // mesh}x{mesh}")
    bw, dw = pair.input("f32", (n, 16), (n // mesh, 16), f"[0:1x{n // mesh}][1:1x16]|tp=0:{n // mesh}x{mesh}")
    y = pair.base.emit("dot", [bx, bw], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    z = pair.dist.emit("dot", [dx, dw], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    if reduce:
        z = pair.dist.emit("all-reduce", [z], reducer=reducer, groups=groups or [list(range(mesh))])
    pair.outputs(y, z)
    return pair
