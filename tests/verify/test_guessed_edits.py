"""Bugs that no reading of the values names: a wrong comparison, neighbour, block or running sum is found by trying."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude


def a_mask_that_lets_in_one_row_too_many() -> Pair:
    """A table of eight rows over two ranks; what a rank does not hold is masked."""
    pair = Pair({"tp": 2})
    (table, dtable), (ids, dids) = pair.input((8, 3), {0: "tp"}), pair.input((6,), dtype="s32")
    taken = {
        "offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1,
        "slice_sizes": [1, 3],
    }  # fmt: skip
    g = pair.dist
    rank = g.emit("convert", [g.emit("partition-id", [], dtype="u32", shape=())], dtype="s32")

    def number(value: int) -> Tensor:
        return spread(g, g.constant(value, "s32"), (6,), [])

    start = g.emit("multiply", [rank, g.constant(4, "s32")])
    local = g.emit("subtract", [dids, spread(g, start, (6,), [])])
    above = g.emit("compare", [local, number(0)], dtype="pred", direction="GE")
    below = g.emit("compare", [local, number(4)], dtype="pred", direction="LE")
    own = g.emit("and", [above, below])
    inside = g.emit("minimum", [g.emit("maximum", [local, number(0)]), number(3)])
    rows = g.emit("gather", [dtable, g.emit("reshape", [inside], shape=(6, 1))], shape=(6, 3), **taken)
    zeros = spread(g, g.constant(0.0, "f32"), (6, 3), [])
    kept = g.emit("select", [spread(g, own, (6, 3), [0]), rows, zeros])
    pair.outputs(
        pair.base.emit("gather", [table, pair.base.emit("reshape", [ids], shape=(6, 1))], shape=(6, 3), **taken),
        g.emit("all-reduce", [kept], reducer="sum", groups=pair.groups("tp")),
    )
    return pair


def blocks_that_stay_where_they_are() -> Pair:
    """Each rank's block is to go to the next rank."""
    pair = Pair({"pp": 2})
    x, dx = pair.input((4, 3), {0: "pp"})
    parts = [pair.base.emit("slice", [x], start=[a, 0], limit=[a + 2, 3], stride=[1, 1]) for a in (2, 0)]
    moved = pair.dist.emit("collective-permute", [dx], pairs=[(0, 0), (1, 1)])
    pair.outputs(
        pair.base.emit("tanh", [pair.base.emit("concatenate", parts, dimension=0)]), pair.dist.emit("tanh", [moved])
    )
    return pair


def a_running_sum_that_is_not_rescaled() -> Pair:
    """A softmax over six keys, in two halves: the values are rescaled when the maximum changes, their weights not."""
    pair = Pair({"dp": 2})
    (s, ds), (v, dv) = pair.input((4, 6), {0: "dp"}), pair.input((6, 3))

    def over(g: Graph, kind: str, x: Tensor, by: Tensor) -> Tensor:
        return g.emit(kind, [x, spread(g, by, x.shape, [0])])

    def folded(g: Graph, x: Tensor, reducer: str) -> Tensor:
        return g.emit("reduce", [x], dimensions=[1], reducer=reducer)

    base, g = pair.base, pair.dist
    weights = base.emit("exponential", [over(base, "subtract", s, folded(base, s, "max"))])
    whole = over(base, "divide", matmul(base, weights, v), folded(base, weights, "sum"))
    most = values = total = None
    for lo, hi in ((0, 3), (3, 6)):
        part = g.emit("slice", [ds], start=[0, lo], limit=[2, hi], stride=[1, 1])
        rows = g.emit("slice", [dv], start=[lo, 0], limit=[hi, 3], stride=[1, 1])
        new = folded(g, part, "max") if most is None else g.emit("maximum", [most, folded(g, part, "max")])
        weights = g.emit("exponential", [over(g, "subtract", part, new)])
        if most is None or values is None or total is None:
            values, total = matmul(g, weights, rows), folded(g, weights, "sum")
        else:
            shrink = g.emit("exponential", [g.emit("subtract", [most, new])])
            values = g.emit("add", [over(g, "multiply", values, shrink), matmul(g, weights, rows)])
            total = g.emit("add", [total, folded(g, weights, "sum")])
        most = new
    assert values is not None
    assert total is not None
    pair.outputs(whole, over(g, "divide", values, total))
    return pair


def a_cut_and_its_gradient_of_the_first_block() -> Pair:
    """Every rank takes the first columns of what all hold, and puts their gradient back there."""
    pair = Pair({"ep": 2})
    (x, dx), (w, dw) = pair.input((3, 4)), pair.input((3, 4), {1: "ep"})
    base, g = pair.base, pair.dist
    mine = g.emit("slice", [dx], start=[0, 0], limit=[3, 2], stride=[1, 1])
    part = g.emit("reduce", [g.emit("multiply", [mine, dw])], dimensions=[1], reducer="sum")
    back = g.emit("pad", [dw, g.constant(0.0, "f32")], low=[0, 0], high=[0, 2], interior=[0, 0])
    summed = [g.emit("all-reduce", [t], reducer="sum", groups=pair.groups("ep")) for t in (part, back)]
    pair.outputs(base.emit("reduce", [base.emit("multiply", [x, w])], dimensions=[1], reducer="sum"), summed[0])
    pair.outputs(base.emit("sine", [w]), g.emit("sine", [summed[1]]))
    return pair


GUESSED = {
    a_mask_that_lets_in_one_row_too_many: ("compare", "another comparison", "compare with LT instead of LE"),
    blocks_that_stay_where_they_are: ("collective-permute", "send to the next", "send 1 on along pp"),
    a_running_sum_that_is_not_rescaled: ("add", "not rescaled here", "multiply operand"),
    a_cut_and_its_gradient_of_the_first_block: ("slice", "own part", "own index along ep"),
}


@pytest.mark.parametrize("wrong", GUESSED)
def test_an_edit_that_is_guessed_proves_a_wrong_program_and_leads(wrong: object) -> None:
    kind, sentence, advice = GUESSED[wrong]  # type: ignore[index]
    tables = wrong().tables()  # type: ignore[operator]
    given = {tensor for _, _, tensor in tables["input"]}
    tables["range"] = [(t, 0, 8, "given") for t, _, dtype, _ in tables["tensor"] if t in given and dtype == "s32"]
    found = conclude(analyse(Facts({t: [tuple(row) for row in rows] for t, rows in tables.items()}), Options()))
    assert found.verdict is Verdict.REFUTED
    first = found.frontier[0]
    assert first.kind == kind
    assert any(sentence in text for text in first.found), first.found
    if kind == "collective-permute":
        assert "rank 0 now holds rank 0's part of x0, expected rank 1's part" in first.found
    assert any(advice in text for text in first.suggestion), first.suggestion
    assert any("PROVED" in text and " of " not in text for text in first.tried), first.tried
