"""Fact tables of small pairs of graphs, for tests: the front ends' graph model, written out with explicit layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from scalify_dl.frontends.graph import Graph, Tensor
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

    def tables(self) -> dict[str, list[tuple[object, ...]]]:
        """The tables."""
        t: dict[str, list[tuple[object, ...]]] = {}

        def add(table: str, *row: object) -> None:
            t.setdefault(table, []).append(row)

        for pos, (axis, size) in enumerate(self.mesh.items()):
            add("mesh_axis", axis, pos, size)
        for rank, coords in enumerate(product(*(range(n) for n in self.mesh.values()))):
            for axis, coord in zip(self.mesh, coords, strict=True):
                add("rank_coord", rank, axis, coord)
        ids: dict[int, str] = {}
        regions = 0

        def tensor(graph: str, x: Tensor) -> None:
            ids[id(x)] = f"{graph}.t{len(ids)}"
            add("tensor", ids[id(x)], graph, x.dtype, len(x.shape))
            for pos, n in enumerate(x.shape):
                add("dim", ids[id(x)], pos, n)
            if x.literal is not None:
                add("literal", ids[id(x)], x.literal.text)

        def write(graph: Graph, name: str, role: str) -> None:
            nonlocal regions
            add("graph", name, role)
            for pos, port in enumerate(graph.inputs):
                tensor(name, port.tensor)
                add("input", name, pos, ids[id(port.tensor)])
                if port.range:
                    add("range", ids[id(port.tensor)], *port.range, "given")
            for number, op in enumerate(graph.ops):
                key = f"{name}.{number}"
                add("op", key, name, op.kind)
                for pos, x in enumerate(op.operands):
                    add("operand", key, pos, ids[id(x)])
                for pos, x in enumerate(op.results):
                    tensor(name, x)
                    add("result", key, pos, ids[id(x)])
                for attribute, values in op.numbers.items():
                    for pos, value in enumerate(values):
                        add("attr_number", key, attribute, pos, value)
                for attribute, texts in op.symbols.items():
                    for pos, text in enumerate(texts):
                        add("attr_symbol", key, attribute, pos, text)
                for (attribute, pos), by_rank in op.rank_numbers.items():
                    for rank, value in by_rank.items():
                        add("rank_number", key, attribute, pos, rank, value)
                for g, group in enumerate(op.groups or ()):
                    for pos, rank in enumerate(group):
                        add("group", key, g, pos, rank)
                for pair in op.pairs or ():
                    add("permute_pair", key, *pair)
                for pos, region in enumerate(op.regions):
                    regions += 1
                    add("region", key, pos, f"region{regions}")
                    write(region, f"region{regions}", role)
            for pos, port in enumerate(graph.outputs):
                add("output", name, pos, ids[id(port.tensor)])

        write(self.base, "base", "base")
        write(self.dist, "dist", "dist")
        for d, b, layout in self.rows:
            add("shard", ids[id(d)], "", ids[id(b)], "", layout, "given")
        for d, b, layout in self.expect:
            add("expect", ids[id(d)], ids[id(b)], layout)
        return t

    def program(self) -> Program:
        """The pair as the oracle runs it."""
        return load_program(self.tables())


def row_parallel(mesh: int = 2, reduce: bool = True, reducer: str = "sum", groups: list[list[int]] | None = None) -> Pair:
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
