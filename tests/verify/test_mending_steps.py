"""Bugs of training steps: each leads the causes where it is, with a sentence of its own and the edit that mends it."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.mend.draft import Edit
from scalify_dl.mend.verbs import apply
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import RootCause, Verdict
from scalify_dl.report.conclude import conclude


def facts_of(pair: Pair) -> Facts:
    return Facts({table: [tuple(row) for row in rows] for table, rows in pair.tables().items()})


def first_cause(facts: Facts) -> RootCause:
    found = conclude(analyse(facts, Options()))
    assert found.verdict is Verdict.REFUTED
    return found.frontier[0]


def a_loss_divided_again() -> Facts:
    """The gradient is halved on every rank, and averaged."""
    pair = Pair({"dp": 2})
    (x, dx), (w, dw) = pair.input((4, 6), {0: "dp"}), pair.input((6,))
    base, dist = pair.base, pair.dist
    half = spread(dist, dist.constant(0.5, "f32"), (2, 6), ())
    squares = dist.emit("multiply", [dist.emit("multiply", [dx, dx]), half])
    whole = base.emit("reduce", [base.emit("multiply", [x, x])], dimensions=[0], reducer="sum")
    part = dist.emit("reduce", [squares], dimensions=[0], reducer="sum")
    summed = dist.emit("all-reduce", [part], reducer="sum", groups=pair.groups("dp"))
    pair.outputs(base.emit("subtract", [w, whole]), dist.emit("subtract", [dw, summed]))
    return facts_of(pair)


def a_bucket_that_nobody_divides() -> Facts:
    """Two gradients of means in one buffer: all-reduced, taken apart."""
    pair = Pair({"dp": 2})
    (x, dx), (y, dy) = pair.input((4, 6), {0: "dp"}), pair.input((4, 3), {0: "dp"})
    base, dist = pair.base, pair.dist
    flat = []
    for g, (a, b) in ((base, (x, y)), (dist, (dx, dy))):
        rows = a.shape[0]
        for t in (a, b):
            share = spread(g, g.constant(1 / rows, "f32"), t.shape, ())
            flat.append(g.emit("reduce", [g.emit("multiply", [t, share])], dimensions=[0], reducer="sum"))
    bucket = dist.emit("concatenate", flat[2:], dimension=0)
    bucket = dist.emit("all-reduce", [bucket], reducer="sum", groups=pair.groups("dp"))
    for whole, lo, hi in ((flat[0], 0, 6), (flat[1], 6, 9)):
        part = dist.emit("slice", [bucket], start=[lo], limit=[hi], stride=[1])
        pair.outputs(base.emit("sine", [whole]), dist.emit("sine", [part]))
    return facts_of(pair)


def a_step_on_a_shard_that_nobody_divides() -> Facts:
    """Each rank makes a step, by its gradient over that one's size and an epsilon, on its part of all parameters."""
    pair = Pair({"dp": 2})
    base, dist = pair.base, pair.dist
    sides: list[list[Tensor]] = [[], [], [], []]
    for size in (6, 2):
        (x, dx), (p, dp) = pair.input((4, size), {0: "dp"}), pair.input((size,))
        for g, t, kept in ((base, x, sides[0]), (dist, dx, sides[1])):
            share = spread(g, g.constant(1 / t.shape[0], "f32"), t.shape, ())
            kept.append(g.emit("reduce", [g.emit("multiply", [t, share])], dimensions=[0], reducer="sum"))
        sides[2].append(p)
        sides[3].append(dp)

    def step(g: Graph, p: Tensor, gradient: Tensor) -> Tensor:
        size = g.emit("sqrt", [g.emit("multiply", [gradient, gradient])])
        size = g.emit("add", [size, spread(g, g.constant(1e-6, "f32"), p.shape, ())])
        return g.emit("subtract", [p, g.emit("divide", [gradient, size])])

    flat = dist.emit("concatenate", sides[1], dimension=0)
    shape, groups = (4,), pair.groups("dp")
    mine = dist.emit("reduce-scatter", [flat], dimension=0, reducer="sum", groups=groups, shape=shape)
    own = dist.emit("slice", [dist.emit("concatenate", sides[3], dimension=0)], start=[0], limit=[4], stride=[1])
    whole = dist.emit("all-gather", [step(dist, own, mine)], dimension=0, groups=groups, shape=(8,))
    for p, gradient, lo, hi in zip(sides[2], sides[0], (0, 6), (6, 8), strict=True):
        pair.outputs(step(base, p, gradient), dist.emit("slice", [whole], start=[lo], limit=[hi], stride=[1]))
    facts = facts_of(pair)
    cut = next(op for op, graph, kind in facts["op"] if kind == "slice" and graph == "dist")
    return taken(facts, cut, "dp")


def a_copy_without_its_backward() -> Facts:
    """The gradient of what all ranks read in parts goes on into three weights."""
    pair = Pair({"tp": 2})
    (g, dg), (w, dw) = pair.input((4, 8), {1: "tp"}), pair.input((8, 6), {0: "tp"})
    base, dist = pair.base, pair.dist
    whole, part = matmul(base, g, w), matmul(dist, dg, dw)
    for size in (3, 5, 7):
        u, du = pair.input((6, size))
        v, dv = pair.input((4, size))
        pair.outputs(
            base.emit("subtract", [v, matmul(base, whole, u)]), dist.emit("subtract", [dv, matmul(dist, part, du)])
        )
    return facts_of(pair)


def a_block_along_another_axis() -> Facts:
    """Rows by the index along tp, of a batch that is cut over dp; the weight is cut over tp."""
    pair = Pair({"dp": 2, "tp": 2})
    (x, dx), (w, dw) = pair.input((4, 6)), pair.input((6, 8), {1: "tp"})
    base, dist = pair.base, pair.dist
    mine = dist.emit("slice", [dx], start=[0, 0], limit=[2, 6], stride=[1, 1])
    pair.outputs(base.emit("sine", [matmul(base, x, w)]), dist.emit("sine", [matmul(dist, mine, dw)]))
    facts = facts_of(pair)
    ((op, _, _),) = [row for row in facts["op"] if row[2] == "slice"]
    assert conclude(analyse(taken(facts, op, "dp"), Options())).verdict is Verdict.PROVED
    return taken(facts, op, "tp")


def taken(facts: Facts, op: str, axis: str) -> Facts:
    return apply(facts, [Edit(op, "own block", op, axis, 0, 1, "")])


def positions_that_start_at_zero() -> Facts:
    """Tokens are cut over cp; every rank counts its positions from zero."""
    pair = Pair({"cp": 2})
    x, dx = pair.input((8, 4), {0: "cp"})
    for g, t in ((pair.base, x), (pair.dist, dx)):
        places = g.emit(
            "cosine",
            [g.emit("convert", [g.emit("iota", [], shape=(t.shape[0],), dtype="s64", dimension=0)], dtype="f32")],
        )
        g.output(g.emit("multiply", [t, spread(g, places, t.shape, (0,))]))
    pair._expects.append((pair.dist.outputs[0].tensor, pair.base.outputs[0].tensor, ""))
    return facts_of(pair)


FAULTS = {
    a_loss_divided_again: ("multiply", "it multiplies by 1/2", "leave out this multiply"),
    a_bucket_that_nobody_divides: ("all-reduce", "a factor 2 enters here", "by 1/2"),
    a_step_on_a_shard_that_nobody_divides: ("reduce-scatter", "a factor 2 enters here", "by 1/2"),
    a_copy_without_its_backward: ("dot", "a reduction is missing here", "all-reduce(sum) over tp after dot"),
    a_block_along_another_axis: ("slice", "the block of the rank's index along dp", "own index along dp"),
    positions_that_start_at_zero: ("iota", "a rank's own offset is wrong", "add 4 times the rank's index along cp"),
}


@pytest.mark.parametrize("wrong", FAULTS)
def test_the_first_cause_is_the_bug(wrong: object) -> None:
    kind, sentence, advice = FAULTS[wrong]  # type: ignore[index]
    first = first_cause(wrong())  # type: ignore[operator]
    assert first.kind == kind
    assert any(sentence in text for text in first.found), first.found
    assert sum("enters here" in text for text in first.found) <= 1
    if advice is not None:
        assert any(advice in text for text in first.suggestion), first.suggestion
        assert any("PROVED" in text for text in first.tried), first.tried


def test_rows_of_merged_dims_are_where_they_belong() -> None:
    """Batch and sequence become one dim, of which the sequence is cut: the fault is behind it."""
    pair = Pair({"cp": 2})
    (x, dx), (w, dw) = pair.input((3, 4, 6), {1: "cp"}), pair.input((6, 5))
    base, dist = pair.base, pair.dist
    rows = base.emit("reshape", [x], shape=(12, 6)), dist.emit("reshape", [dx], shape=(6, 6))
    part = dist.emit("reduce", [matmul(dist, rows[1], dw)], dimensions=[0], reducer="sum")
    whole = base.emit("reduce", [matmul(base, rows[0], w)], dimensions=[0], reducer="sum")
    pair.outputs(base.emit("sine", [whole]), dist.emit("sine", [part]))
    assert "is never summed" in " ".join(first_cause(facts_of(pair)).found)
