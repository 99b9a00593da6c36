"""Pipelines in which every rank runs a stage, turn by turn, and hands values on: right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.pairing import export as exporting

ROWS, DIM = 2, 3


def counted(
    g: Graph, carried: Sequence[Tensor], turns: int, body: Callable[[Graph, list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """`carried` after so many turns; the body has the turn's number first."""
    counter = g.constant(0, "s32")
    cond, inside = Graph("cond"), Graph("body")
    types = [(x.dtype, x.shape) for x in (counter, *carried)]
    tests = [cond.input("x", *of) for of in types]
    cond.output(cond.emit("compare", [tests[0], cond.constant(turns, "s32")], direction="LT"))
    given = [inside.input("x", *of) for of in types]
    back = body(inside, given)
    for x in (inside.emit("add", [given[0], inside.constant(1, "s32")]), *back):
        inside.output(x)
    loop = g.add("while", [counter, *carried], types, numbers={"trip_count": [turns]}, regions=[cond, inside])
    return loop.results[1:]


def spread(g: Graph, x: Tensor, shape: Sequence[int]) -> Tensor:
    return g.emit("broadcast", [x], shape=tuple(shape), dimensions=[])


def row(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    """x[at] of a value of three dims."""
    zero = g.constant(0, "s32")
    found = g.emit("dynamic-slice", [x, at, zero, zero], sizes=[1, *x.shape[1:]])
    return g.emit("reshape", [found], shape=x.shape[1:])


def put(g: Graph, x: Tensor, at: Tensor, value: Tensor) -> Tensor:
    zero = g.constant(0, "s32")
    block = g.emit("reshape", [value], shape=(1, *value.shape))
    return g.emit("dynamic-update-slice", [x, block, at, zero, zero])


def put_window(g: Graph, x: Tensor, at: Tensor, value: Tensor, reducer: str = "replace") -> Tensor:
    """`x.at[at].set(value)` as JAX writes it; a row that is not there is not written."""
    index = g.emit("reshape", [at], shape=(1,))
    return g.emit(
        "scatter", [x, index, value], update_window_dims=list(range(len(value.shape))), inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0], index_vector_dim=0, reducer=reducer,
    )  # fmt: skip


def row_window(g: Graph, x: Tensor, at: Tensor) -> Tensor:
    """`x.at[at].get()`, of the first or last row where there is no such row."""
    index = g.emit("reshape", [at], shape=(1,))
    return g.emit(
        "gather", [x, index], offset_dims=list(range(len(x.shape) - 1)), collapsed_slice_dims=[0], start_index_map=[0],
        index_vector_dim=0, slice_sizes=[1, *x.shape[1:]],
    )  # fmt: skip


def layer(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    """x + tanh(x w + w[0])."""
    product = g.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    first = g.emit("slice", [w], start=[0, 0], limit=[1, w.shape[1]], stride=[1, 1])
    bias = g.emit("broadcast", [g.emit("reshape", [first], shape=w.shape[1:])], shape=x.shape, dimensions=[1])
    return g.emit("add", [x, g.emit("tanh", [g.emit("add", [product, bias])])])


@dataclass(frozen=True)
class Pipeline:
    """A pipeline over `pp`; anything but the defaults is wrong, unless it says so."""

    stages: int = 3
    batches: int = 4
    data: int = 1
    """Ranks that share a stage (right)."""
    step: int = 1
    """How far values are passed on."""
    late: int = 0
    """How many turns too late results are collected."""
    first: int = 0
    """The rank that takes fresh micro-batches."""
    turns: int = 0
    """More turns than are needed (right), or less."""
    sharded: bool = False
    """Every rank is given its own stage only (right)."""
    layers: int = 1
    """Layers of a stage, of which a rank takes one after the other of what it is given (right, with `sharded`)."""
    turned: bool = False
    """Ranks begin with the last of them."""
    gathered: bool = False
    """Results are gathered, and those of the last rank taken (right)."""
    branches: bool = False
    """A branch, not a choice (right)."""
    unrolled: bool = False
    """Turns one after the other, no loop (right)."""
    repeated: bool = False
    """Whether a rank takes fresh ones is repeated for every element, before the loop (right)."""
    dropped: bool = False
    """Results of the first turns are written to rows before the first one, by a scatter: nowhere (right)."""
    windows: str = ""
    """Results are written by a scatter with that reducer, and micro-batches read by a gather (right: into zeros)."""

    @property
    def mesh(self) -> Mesh:
        return Mesh.parse(f"dp={self.data},pp={self.stages}" if self.data > 1 else f"pp={self.stages}")

    def base(self) -> Graph:
        g = Graph("base")
        n = self.stages * self.layers
        w = g.input("w", "f32", (n, DIM, DIM), path="w")
        x = g.input("x", "f32", (self.batches * ROWS * self.data, DIM), path="x")
        g.output(counted(g, [x, w], n, lambda b, c: [layer(b, c[1], row(b, c[2], c[0])), c[2]])[0], path="y")
        return g

    def dist(self) -> Graph:
        g, n = Graph("dist"), self.stages
        w = g.input("w", "f32", (self.layers if self.sharded else n, DIM, DIM), path="w")
        if self.sharded:
            g.inputs[-1].placement = Placement({0: (AxisPart("pp"),)})
        x = g.input("x", "f32", (self.batches * ROWS, DIM), path="x")
        if self.data > 1:
            g.inputs[-1].placement = Placement({0: (AxisPart("dp"),)})
        rank = g.emit("remainder", [g.emit("partition-id", [], shape=(), dtype="u32"), g.constant(n, "u32")])
        rank = g.emit("convert", [rank], dtype="s32")
        mine = w if self.layers > 1 else row(g, w, g.constant(0, "s32") if self.sharded else rank)
        first = g.emit("compare", [rank, g.constant(self.first, "s32")], direction="EQ")
        first = spread(g, first, (ROWS, DIM)) if self.repeated else first
        last = g.emit("compare", [rank, g.constant(n - 1, "s32")], direction="EQ")
        fresh = g.emit("reshape", [x], shape=(self.batches, ROWS, DIM))
        start = g.splat(0.0, "f32", (ROWS, DIM)), g.splat(0.0, "f32", (self.batches, ROWS, DIM))
        carried = [*start, fresh, mine, first, last]
        turns = self.batches + n - 1 + self.turns + max(0, self.late)
        for t in range(turns if self.unrolled else 0):
            carried = self.turn(g, [g.constant(t, "s32"), *carried])
        outputs = carried[1] if self.unrolled else counted(g, carried, turns, self.turn)[1]
        groups = [[i * n + j for j in range(n)] for i in range(self.data)]
        if self.gathered:
            whole = g.emit("all-gather", [outputs], shape=(self.batches * n, ROWS, DIM), dimension=0, groups=groups)
            bounds = {"start": [self.batches * (n - 1), 0, 0], "limit": [self.batches * n, ROWS, DIM]}
            total = g.emit("slice", [whole], stride=[1, 1, 1], **bounds)
        else:
            total = g.emit("all-reduce", [outputs], reducer="sum", groups=groups)
        g.output(g.emit("reshape", [total], shape=x.shape), path="y")
        return g

    def turn(self, g: Graph, carried: list[Tensor]) -> list[Tensor]:
        t, received, outputs, fresh, mine, first, last = carried
        given = outputs
        at = g.emit("minimum", [t, g.constant(self.batches - 1, "s32")])
        new, shape = row_window(g, fresh, at) if self.windows else row(g, fresh, at), (ROWS, DIM)
        if self.branches:
            yes, no = Graph("yes"), Graph("no")
            for branch, n in ((yes, 0), (no, 1)):
                both = [branch.input("x", "f32", shape) for _ in range(2)]
                branch.output(both[n])
            op = g.add("conditional", [first, new, received, new, received], [("f32", shape)], regions=[yes, no])
            taken = op.result
        else:
            taken = g.emit("select", [first if self.repeated else spread(g, first, shape), new, received])
        x = taken
        for i in range(self.layers)[:: -1 if self.turned else 1]:
            x = layer(g, x, row(g, mine, g.constant(i, "s32")) if self.layers > 1 else mine)
        done = g.emit("subtract", [t, g.constant(self.stages - 1 + self.late, "s32")])
        zero = g.constant(0, "s32")
        at = g.emit("maximum", [done, zero])
        written = put_window(g, outputs, at, x, self.windows) if self.windows else put(g, outputs, at, x)
        there = g.emit("and", [last, g.emit("compare", [done, zero], direction="GE")])
        outputs = g.emit("select", [spread(g, there, outputs.shape), written, outputs])
        if self.dropped:
            kept = g.emit("select", [spread(g, last, x.shape), x, g.splat(0.0, "f32", x.shape)])
            outputs = put_window(g, given, done, kept)
        n = self.stages
        pairs = [(i * n + j, i * n + (j + self.step) % n) for i in range(self.data) for j in range(n)]
        return [g.emit("collective-permute", [x], pairs=pairs), outputs, fresh, mine, first, last]

    def facts(self) -> Facts:
        return exporting.tables(self.base(), [self.dist()], self.mesh, joined=True)


RIGHT = {
    "a stage for each rank": Pipeline(),
    "two stages": Pipeline(stages=2, batches=3),
    "as many micro-batches as stages": Pipeline(stages=2, batches=2),
    "one turn more": Pipeline(turns=1),
    "stages of several ranks": Pipeline(stages=2, data=2),
    "stages that are given to their ranks": Pipeline(stages=2, sharded=True),
    "stages of two layers": Pipeline(stages=2, batches=3, sharded=True, layers=2),
    "results that are gathered": Pipeline(stages=2, batches=3, gathered=True),
    "branches": Pipeline(stages=2, batches=3, branches=True),
    "turns without a loop": Pipeline(stages=2, batches=3, unrolled=True),
    "rows that are set": Pipeline(stages=2, batches=3, windows="replace"),
    "rows that are added to": Pipeline(stages=2, batches=3, windows="sum"),
    "a choice that is repeated before the loop": Pipeline(repeated=True),
    "rows that are not there": Pipeline(stages=2, batches=3, dropped=True),
}
WRONG = {
    "passed on backwards": Pipeline(step=-1),
    "collected one turn late": Pipeline(late=1),
    "collected one turn early": Pipeline(late=-1),
    "fresh ones taken by another rank": Pipeline(first=1),
    "two layers in another order": Pipeline(stages=2, batches=3, sharded=True, layers=2, turned=True),
    "one turn less": Pipeline(turns=-1),
    "kept by each rank": Pipeline(step=0),
    "passed on backwards, without a loop": Pipeline(step=-1, unrolled=True),
    "rows that are set one turn early": Pipeline(late=-1, windows="replace"),
    "rows that are added to one turn late": Pipeline(late=1, windows="sum"),
    "rows that are not there, one turn early": Pipeline(stages=2, batches=3, late=-1, dropped=True),
}
