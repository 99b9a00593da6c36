"""Labels that the baseline ignores, and writes as id 0: its update is zero there; ranks drop it by their own mask."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program


def added(g: Graph, rows: int, ids: Tensor, updates: Tensor) -> Tensor:
    return g.emit(
        "scatter", [g.splat(0.0, "f32", (rows, 3)), ids, updates], update_window_dims=[1], inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer="sum",
    )  # fmt: skip


def masked(g: Graph, mask: Tensor, x: Tensor, *, flag: bool = False) -> Tensor:
    if flag:
        return g.emit("multiply", [x, spread(g, g.emit("convert", [mask], dtype="f32"), x.shape, [0])])
    return g.emit("select", [spread(g, mask, x.shape, [0]), x, g.splat(0.0, "f32", x.shape)])


def ignoring(*, base: bool = True, flag: bool = False, least: int = 0, by: int = 0) -> Pair:
    """Rows of zeros[8,3] in blocks over two ranks; labels are -1 or a row. `base` says whether the baseline masks its
    updates (by a product: `flag`), and the ranks theirs, those of labels from `least` on; ranks have
    `by` labels more than their block."""
    pair = Pair({"tp": 2})
    labels, own = pair.input((5,), {}, dtype="s32", range=(-1, 8))
    x, part = pair.input((5, 3), {})
    b, d = pair.base, pair.dist
    mask = b.emit("compare", [labels, b.splat(least, "s32", (5,))], direction="GE")
    ids = b.emit("maximum", [labels, b.splat(0, "s32", (5,))])
    expected = added(b, 8, ids, b.emit("negate", [masked(b, mask, x, flag=flag) if base else x]))
    rank = d.emit("convert", [d.emit("partition-id", [], shape=(), dtype="u32")], dtype="s32")
    first = d.emit("multiply", [rank, d.constant(4, "s32")])
    near = d.emit("subtract", [own, spread(d, first, (5,), [])])
    low = d.emit("compare", [near, d.splat(0, "s32", (5,))], direction="GE")
    high = d.emit("compare", [near, d.splat(4 + by, "s32", (5,))], direction="LT")
    near = d.emit("clamp", [d.splat(0, "s32", (5,)), near, d.splat(3, "s32", (5,))])
    mine = d.emit("and", [low, high])
    seen = d.emit("compare", [own, d.splat(least, "s32", (5,))], direction="GE")
    part = d.emit("negate", [masked(d, seen, part, flag=flag) if base else part])
    pair.outputs(expected, added(d, 4, near, masked(d, mine, part)))
    return pair


@pytest.mark.parametrize("flag", [False, True])
def test_updates_at_ignored_labels_are_zero_on_both_sides(*, flag: bool) -> None:
    tables = ignoring(flag=flag).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert ("base/x1" in derived.finite) is flag  # zero times infinity is no number


@pytest.mark.parametrize(
    "pair", [ignoring(base=False), ignoring(least=-1), ignoring(by=1)],
    ids=["the baseline adds them at row 0", "no label is ignored", "a row of the next block"],
)  # fmt: skip
def test_updates_that_one_side_alone_ignores_are_not_proved(pair: Pair) -> None:
    tables = pair.tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None


def scaled(*, factor: float = 2.0) -> Pair:
    """Updates that are twice the baseline's on every rank, added to blocks of rows; half of what they make."""
    pair = Pair({"tp": 2})
    labels, own = pair.input((5,), {}, dtype="s32", range=(0, 8))
    x, part = pair.input((5, 3), {})
    b, d = pair.base, pair.dist
    first = d.add("constant", [], [("s32", ())])
    first.rank_numbers["value", 0] = {0: 0, 1: 4}
    near = d.emit("subtract", [own, spread(d, first.result, (5,), [])])
    part = d.emit("multiply", [part, d.splat(factor, "f32", part.shape)])
    mine = d.emit("and", [d.emit("compare", [near, d.splat(0, "s32", (5,))], direction="GE"),
                          d.emit("compare", [near, d.splat(4, "s32", (5,))], direction="LT")])  # fmt: skip
    at = d.emit("select", [mine, near, d.splat(0, "s32", (5,))])
    found = added(d, 4, at, masked(d, mine, part))
    found = d.emit("multiply", [found, d.splat(0.5, "f32", found.shape)])
    pair.outputs(added(b, 8, labels, x), found, layout=str(pair.layout((8, 3), {0: "tp"})))
    return pair


def test_a_factor_of_the_updates_is_one_of_the_rows() -> None:
    tables = scaled().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


def test_another_factor_is_not_taken_back() -> None:
    tables = scaled(factor=4.0).tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
