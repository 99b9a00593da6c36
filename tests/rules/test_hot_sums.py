"""Sums of one-hot rows times differences, or numbers, of rows that ranks have whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.oracle import find_counterexample, load_program

from .test_hand_written_loss import picked

ROWS, CLASSES = 6, 6
SHAPE = (ROWS, CLASSES)


def difference(
    *, range: tuple[int, int] = (0, CLASSES), how: str = "subtract", along: int = 0, infinite: bool = False,
    direction: str = "EQ", constant: float | None = None,
) -> Pair:  # fmt: skip
    """x at the labels, less a number for each row, over it; and the number. Rows over two ranks."""
    p = Pair({"dp": 2})
    labels, own = p.input((ROWS,), {0: "dp"}, dtype="s32", range=range)
    p.dist.inputs[-1].range = range
    x, part = p.input(SHAPE, {0: "dp"})
    number, his = p.input((ROWS,), {0: "dp"})
    other, their = p.input((CLASSES,), {})
    b, d, place = p.base, p.dist, str(p.layout((ROWS,), {0: "dp"}))
    if infinite:
        x, part = b.emit("log", [b.emit("abs", [x])]), d.emit("log", [d.emit("abs", [part])])
    line = d.emit("iota", [], dtype="s32", shape=part.shape, dimension=1)
    there = d.emit("compare", [spread(d, own, part.shape, [0]), line], direction=direction)
    hot = d.emit("convert", [there], dtype="f32")
    wide = spread(d, their, part.shape, [1]) if along else spread(d, his, part.shape, [0])
    less = d.emit(how, [part, wide])
    found = d.emit("reduce", [d.emit("multiply", [hot, less])], dimensions=[1], reducer="sum")
    p.outputs(b.emit("subtract", [picked(b, x, labels), number]), found, layout=place)
    if constant is not None:
        wide = d.splat(constant, "f32", part.shape)
        number, his = b.emit("exponential", [number]), d.emit("exponential", [his])
    total = d.emit("reduce", [d.emit("multiply", [hot, wide])], dimensions=[1], reducer="sum")
    if constant is not None:  # over a number, as the gradient of a mean over a shard
        total = d.emit("multiply", [d.emit("divide", [total, his]), d.splat(0.5, "f32", his.shape)])
        number = b.emit("divide", [b.splat(0.25, "f32", (ROWS,)), number])
    p.outputs(number, total, layout=place)
    b.emit("add", [other, other])
    return p


RIGHT: dict[str, Callable[[], Pair]] = {
    "a number of the row": difference,
    "one number": lambda: difference(constant=0.5),
}


@pytest.mark.parametrize("name", RIGHT)
def test_one_hot_rows_times_a_difference_add_up_to_one(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


WRONG: dict[str, Callable[[], Pair]] = {
    "labels out of range": lambda: difference(range=(0, CLASSES + 1)),
    "the number added": lambda: difference(how="add"),
    "numbers of the places": lambda: difference(along=1),
    "all places from the label on": lambda: difference(direction="LE"),
    "another number": lambda: difference(constant=0.25),
    "infinities": lambda: difference(infinite=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_sums_do_not(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
