"""Elements read of rows, and written into rows of zeros: by index on one side, as one-hot products on the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program

from .test_hand_written_loss import picked

ROWS, CLASSES = 6, 8
SHAPE = (ROWS, CLASSES)


def written(
    g: Graph, ids: Tensor, updates: Tensor, reducer: str = "sum", dtype: str = "f32", places: int = 8
) -> Tensor:
    """One element into each row of zeros."""
    return g.emit(
        "scatter", [g.splat(0, dtype, (ROWS, places)), ids, updates], update_window_dims=[], inserted_window_dims=[1],
        scatter_dims_to_operand_dims=[1], input_batching_dims=[0], scatter_indices_batching_dims=[0],
        index_vector_dim=1, reducer=reducer,
    )  # fmt: skip


def near(d: Graph, ids: Tensor, stride: int) -> Tensor:
    """Ids counted from the rank's first place."""
    first = d.add("constant", [], [("s32", ())])
    first.rank_numbers["value", 0] = {0: 0, 1: stride}
    return d.emit("subtract", [ids, spread(d, first.result, (ROWS,), [])])


def one_hot(d: Graph, ids: Tensor, direction: str, by: str) -> Tensor:
    shape = (ROWS, CLASSES // 2)
    line = d.emit("iota", [], dtype="s32", shape=shape, dimension=1)
    if by == "compare":
        there = d.emit("compare", [spread(d, ids, shape, [0]), line], direction=direction)
        return d.emit("convert", [there], dtype="f32")
    zero, last = d.splat(0, "s32", (ROWS,)), d.splat(CLASSES // 2, "s32", (ROWS,))
    low = d.emit("compare", [ids, zero], direction="GE")
    mine = d.emit("and", [low, d.emit("compare", [ids, last], direction="LT")])
    at = d.emit("select", [mine, ids, zero])
    hot = d.emit("convert", [written(d, at, d.splat(1, "s32", (ROWS,)), "replace", "s32", 4)], dtype="f32")
    if by == "unmasked":
        return hot
    return d.emit("multiply", [hot, spread(d, d.emit("convert", [mine], dtype="f32"), shape, [0])])


def pair(
    *, stride: int = 4, direction: str = "EQ", told: bool = True, by: str = "compare", range: tuple[int, int] = (0, 8),
    shift: int = 0, infinite: bool = False, scale: float = 1.0, swapped: bool = False, reducer: str = "sum",
    forgotten: bool = False, kinds: str = "read write row",
) -> Pair:  # fmt: skip
    """What is read of x at labels; u written there; that, less softmax times its row's sum."""
    p = Pair({"tp": 2})
    labels, own = p.input((ROWS,), dtype="s32", range=range)
    p.dist.inputs[-1].range = range
    x, part = p.input(SHAPE, {1: "tp"})
    u, his = p.input((ROWS,), {})
    b, d, place = p.base, p.dist, str(p.layout(SHAPE, {1: "tp"}))
    if infinite:
        x, part = b.emit("log", [b.emit("abs", [x])]), d.emit("log", [d.emit("abs", [part])])
    at = b.emit("add", [labels, b.splat(shift, "s32", (ROWS,))]) if shift else labels
    hot = one_hot(d, near(d, own, stride), direction, by)
    if "read" in kinds:
        one = d.emit("multiply", [part, hot] if swapped else [hot, part])
        one = d.emit("reduce", [one], dimensions=[1], reducer="sum")
        p.outputs(picked(b, x, at), d.emit("all-reduce", [one], reducer="sum", groups=p.groups("tp")) if told else one)
    base = written(b, at, u, reducer)
    many = spread(d, d.emit("multiply", [his, d.splat(scale, "f32", (ROWS,))]) if scale != 1 else his, hot.shape, [0])
    found = d.emit("multiply", [many, hot] if swapped else [hot, many])
    if forgotten:
        found = hot
    if "write" in kinds:
        p.outputs(base, found, layout=place)
    if "row" in kinds:
        total = b.emit("reduce", [b.emit("negate", [base])], dimensions=[1], reducer="sum")
        p.outputs(total, d.emit("negate", [his]))
    return p


RIGHT: dict[str, Callable[[], Pair]] = {
    "ids compared with places": pair,
    "factors in the other order": lambda: pair(swapped=True),
    "ones written, and masked": lambda: pair(by="write"),
    "replaced in place of added": lambda: pair(reducer="replace"),
    "ids that may be out of range, written": lambda: pair(range=(0, 10), kinds="write"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_products_with_one_hot_rows_are_reads_and_writes(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


WRONG: dict[str, Callable[[], Pair]] = {
    "the next id": lambda: pair(shift=1, range=(0, 7)),
    "blocks of places that overlap": lambda: pair(stride=3),
    "all places from the id on": lambda: pair(direction="LE"),
    "a part of the sum": lambda: pair(told=False, kinds="read"),
    "ones that no mask takes away": lambda: pair(by="unmasked", kinds="read"),
    "what is written twice as large": lambda: pair(scale=2.0, kinds="write"),
    "numbers forgotten": lambda: pair(forgotten=True, kinds="write"),
    "ids out of range, read": lambda: pair(range=(0, 10), kinds="read"),
    "a row whose id is out of range": lambda: pair(range=(0, 9), kinds="row"),
    "rows with infinities": lambda: pair(infinite=True, kinds="read"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_products_are_not(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
    if "infinities" not in name:
        assert find_counterexample(load_program(tables)).best is not None
