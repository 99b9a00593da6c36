"""Wrong programs by hand of which each rank runs its own: an op of one says nothing of what the others bring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalify_dl.audit.pair import Pair, Split, spread
from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Graph, Tensor

from .moved import ROWS
from .number import numbers
from .registry import trial


class TwoPrograms(Pair):
    """A pair whose second rank runs a program of its own, on the same inputs."""

    def __init__(self) -> None:
        super().__init__({"tp": 2})
        self.dist.ranks = [0]
        self.other = Graph("other", ranks=[1])

    def of_each(
        self, shape: Sequence[int], split: Split | None = None, *, pending: dict[str, str] | None = None, **said: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """An input of the baseline and of both programs."""
        x, dx = self.input(shape, split, pending=pending, **said)
        ox = self.other.input(f"x{len(self.other.inputs)}", x.dtype, dx.shape)
        self._shards.append((ox, x, "", str(self.layout(shape, split or {}, pending=pending))))
        return x, dx, ox

    def whole(self, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Shards along dim 0, gathered."""
        groups = self.groups("tp")
        gathered = (g.emit("all-gather", [v], dimension=0, groups=groups) for g, v in self.programs(x, other))
        return tuple(gathered)  # type: ignore[return-value]

    def programs(self, x: Tensor, other: Tensor) -> tuple[tuple[Graph, Tensor], tuple[Graph, Tensor]]:
        return (self.dist, x), (self.other, other)

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """The fact tables of three graphs."""
        writer = TableWriter(self.mesh)
        writer.graph(self.base, "base", "base", "base/")
        writer.graph(self.dist, "dist", "r0", "r0/")
        writer.graph(self.other, "dist", "r1", "r1/")
        writer.facts.add("meta", "schema", "1")
        for port in self.base.inputs:
            if port.range:
                writer.facts.add("range", writer.ids[port.tensor], *port.range, "given")
        for dist, base, piece, layout in self._shards:
            writer.facts.add("shard", writer.ids[dist], "", writer.ids[base], piece, layout, "given")
        for dist, base, layout in self._expects:
            writer.facts.add("expect", writer.ids[dist], writer.ids[base], layout)
        return writer.facts.tables


@trial
def another_program_that_negates_its_part() -> Pair:
    """The second rank negates its part of a pending sum."""
    pair = TwoPrograms()
    x, dx, other = pair.of_each((4,), pending={"tp": "sum"})
    parts = pair.programs(dx, pair.other.emit("negate", [other]))
    sums = [g.emit("all-reduce", [v], reducer="sum", groups=pair.groups("tp")) for g, v in parts]
    pair.outputs(x, sums[0])
    pair.other.output(sums[1])
    return pair


@trial
def another_program_that_moves_its_ids() -> Pair:
    """The second rank adds 1 to its ids, some of which are then too large."""
    pair = TwoPrograms()
    ids, di, oi = pair.of_each((8,), {0: "tp"}, dtype="s32", range=(0, 40))
    table, dt, ot = pair.of_each((40, 2))
    y, dy, oy = pair.of_each((8,))
    gathered = pair.whole(di, numbers(pair.other, "add", oi, 1))
    for g, i, t, v in (
        (pair.base, ids, table, y), (pair.dist, gathered[0], dt, dy), (pair.other, gathered[1], ot, oy)
    ):  # fmt: skip
        inside = g.emit("compare", [i, g.splat(40, "s32", (8,))], direction="LT")
        g.output(g.emit("select", [inside, v, g.splat(7.0, "f32", (8,))]))
        g.output(g.emit("gather", [t, g.emit("reshape", [i], shape=(8, 1))], **ROWS))
    pair._expects += [(d.tensor, b.tensor, "") for d, b in zip(pair.dist.outputs, pair.base.outputs, strict=True)]
    return pair


@trial
def another_program_that_counts_less() -> Pair:
    """The second rank adds 1 to the count where the first adds 4."""
    pair = TwoPrograms()
    x, dx, ox = pair.of_each((4,))
    for (g, v), own in zip(pair.programs(dx, ox), (4.0, 1.0), strict=True):
        both = g.emit("all-reduce", [g.splat(own, "f32", (4,))], reducer="sum", groups=pair.groups("tp"))
        g.output(g.emit("divide", [v, both]))
    pair.base.output(numbers(pair.base, "divide", x, 8))
    pair._expects += [(pair.dist.outputs[0].tensor, pair.base.outputs[0].tensor, "")]
    return pair


def ring_of(g: Graph, x: Tensor, sent: Tensor) -> Tensor:
    """x and what comes from the other rank, which sends `sent`."""
    return g.emit("add", [x, g.emit("collective-permute", [sent], pairs=[(0, 1), (1, 0)])])


@trial
def another_program_in_a_ring() -> Pair:
    """Each rank adds what the other sends to its own; the second one sends its own negated."""
    pair = TwoPrograms()
    x, dx, other = pair.of_each((4,), pending={"tp": "sum"})
    pair.outputs(x, ring_of(pair.dist, dx, dx))
    pair.other.output(ring_of(pair.other, other, pair.other.emit("negate", [other])))
    return pair


@trial
def another_program_in_a_ring_in_a_loop() -> Pair:
    """The same in a loop, of halves of what both have: bodies say of no ranks that they run there."""
    pair = TwoPrograms()
    x, dx, other = pair.of_each((4,))
    results = []
    for g, v, way in ((pair.base, x, 0), (pair.dist, dx, 1), (pair.other, other, -1)):
        condition, body = Graph("condition"), Graph("body")
        i = condition.input("i", "s32", ())
        condition.input("x", "f32", (4,))
        condition.output(condition.emit("compare", [i, condition.constant(1, "s32")], direction="LT"))
        i, u = body.input("i", "s32", ()), body.input("x", "f32", (4,))
        body.output(body.emit("add", [i, body.constant(1, "s32")]))
        half = numbers(body, "multiply", u, 0.5)
        moved = ring_of(body, half, body.emit("negate", [half]) if way < 0 else half) if way else u
        body.output(body.emit("tanh", [moved]))
        loop = g.add("while", [g.constant(0, "s32"), v], [("s32", ()), ("f32", (4,))], regions=[condition, body])
        results.append(loop.results[1])
    pair.outputs(results[0], results[1])
    pair.other.output(results[2])
    return pair


def counted_by_two(*, sent: bool) -> Pair:
    """Labels from 0 on, and the second rank's, all of which are ignored: gathered, or sent to the first rank, and
    counted."""
    pair = TwoPrograms()
    x, dx, ox = pair.of_each((4,))
    labels = pair.dist.emit("iota", [], shape=(4,), dtype="s32", dimension=0)
    brought = pair.whole(labels, pair.other.splat(-100, "s32", (4,)))
    if sent:
        own = pair.programs(labels, pair.other.splat(-100, "s32", (4,)))
        brought = tuple(g.emit("collective-permute", [v], pairs=[(0, 1), (1, 0)]) for g, v in own)  # type: ignore
    for (g, v), found in zip(pair.programs(dx, ox), brought, strict=True):
        mask = g.emit("compare", [found, g.splat(-100, "s32", found.shape)], direction="NE")
        count = g.emit("reduce", [g.emit("convert", [mask], dtype="f32")], dimensions=[0], reducer="sum")
        g.output(g.emit("divide", [v, spread(g, count, (4,), [])]))
    pair.base.output(numbers(pair.base, "divide", x, 4 if sent else 8))
    pair._expects += [(pair.dist.outputs[0].tensor, pair.base.outputs[0].tensor, "")]
    return pair


@trial
def another_program_that_gathers_ignored_labels() -> Pair:
    return counted_by_two(sent=False)


@trial
def another_program_that_sends_ignored_labels() -> Pair:
    return counted_by_two(sent=True)


@trial
def another_program_that_has_another_number() -> Pair:
    """1 of the first rank and 2 of the second one, gathered, are no two ones."""
    pair = TwoPrograms()
    x, dx, ox = pair.of_each((4,))
    for (g, v), own in zip(pair.programs(dx, ox), (1.0, 2.0), strict=True):
        both = g.emit("all-gather", [g.splat(own, "f32", (2,))], dimension=0, groups=pair.groups("tp"))
        g.output(g.emit("multiply", [v, both]))
    pair.base.output(numbers(pair.base, "multiply", x, 1))
    pair._expects += [(pair.dist.outputs[0].tensor, pair.base.outputs[0].tensor, "")]
    return pair
