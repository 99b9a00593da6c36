"""Integers wrap round: what is wrong only then is not proved, and what cannot wrap round is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.audit.trials.integer import (
    INTEGERS,
    alike,
    as_type,
    numbers_compared,
    one_sum,
    pending_operand,
    product,
    to,
    total,
)  # fmt: skip
from scalify_dl.audit.trials.number import numbers
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program


def one_hot_counts() -> Pair:
    """How many of the ids of a batch are each of four numbers, as shares of 16."""
    pair = Pair({"tp": 2})
    i, di = pair.input((16,), {0: "tp"}, dtype="s64", range=(0, 4))

    def make(g: Graph, ids: Tensor) -> Tensor:
        n = ids.shape[0]
        classes = spread(g, g.emit("iota", [], shape=(4,), dtype="s64", dimension=0), (n, 4), [1])
        hot = as_type(g, g.emit("compare", [spread(g, ids, (n, 4), [0]), classes], direction="EQ"), "s64")
        return numbers(g, "multiply", as_type(g, total(g, hot), "f32"), 1 / 16)

    return alike(pair, i, di, make)


def counted_after_the_sum() -> Pair:
    """Truth values are counted, the counts added up over the ranks, and then cast."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), {0: "tp"}, dtype="pred")
    counts = [total(g, as_type(g, v, "s32")) for g, v in ((pair.base, x), (pair.dist, dx))]
    whole = pair.dist.emit("all-reduce", [counts[1]], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(as_type(pair.base, counts[0], "f32"), as_type(pair.dist, whole, "f32"))
    return pair


def counts_of_shares() -> Pair:
    """Counts of blocks that are bounded through all kinds of ops."""

    def first(g: Graph, x: Tensor) -> Tensor:
        some = g.emit("select", [numbers_compared(g, x, "GE", 3), numbers(g, "and", x, 7), g.splat(2, "s32", x.shape)])
        some = g.emit("add", [some, g.emit("maximum", [numbers(g, "divide", x, 2), g.splat(1, "s32", x.shape)])])
        low, high = (g.splat(v, "s32", x.shape) for v in (-4, 100))
        return g.emit("multiply", [some, g.emit("clamp", [low, x, high])])

    return one_sum("s32", to("f32"), (0, 1000), first=first)


RIGHT: dict[str, Callable[[], Pair]] = {
    "truth values as s32": lambda: one_sum("pred", to("f32"), first=to("s32")),
    "truth values as s64": lambda: one_sum("pred", to("s64"), first=to("s32")),
    "bytes as s32": lambda: one_sum("u8", to("f32"), first=to("s32")),
    "a range": lambda: one_sum("s32", to("f32"), (0, 1000)),
    "a range of both signs": lambda: one_sum("s64", to("f32"), (-1000, 1000)),
    "to fewer bits": lambda: one_sum("s32", to("s8")),
    "to another sign": lambda: one_sum("u32", to("s32")),
    "doubled": lambda: one_sum("s32", lambda g, x: numbers(g, "multiply", x, 2)),
    "one-hot counts": one_hot_counts,
    "cast after the sum": counted_after_the_sum,
    "bounded on the way": counts_of_shares,
    "dot of the same type": lambda: pending_operand("s32", "s32", lambda g, x, w: product(g, x, w, "s32")),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_what_wraps_round_is_not_proved(name: str) -> None:
    tables = INTEGERS[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("name", INTEGERS)
def test_what_wraps_round_is_refuted(name: str) -> None:
    best = find_counterexample(load_program(INTEGERS[name]().tables())).best
    assert best is not None
    assert best.kind == "refutation"


@pytest.mark.parametrize("name", RIGHT)
def test_what_cannot_wrap_round_is_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
