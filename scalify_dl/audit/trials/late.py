"""Wrong programs by hand about factors that come before a linear computation on one side and behind it on the other."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .registry import trial

Body = Callable[[Graph, Tensor], Tensor]


def early_and_late(linear: Body, number: Body, how: str = "divide", *, together: bool = True) -> Pair:
    """The baseline computes of rows of which each is divided by a number, the other side divides what is computed."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((4, 2), {0: "dp"})
    m, dm = pair.input((4,), {0: "dp"})
    s = number(pair.base, m)
    early = pair.base.emit(how, [x, spread(pair.base, s, x.shape, [])])
    made = pair.base.emit("reduce", [linear(pair.base, early)], dimensions=[0], reducer="sum")
    groups = pair.groups("dp")
    total = pair.dist.emit("reduce", [linear(pair.dist, dx)], dimensions=[0], reducer="sum")
    total = pair.dist.emit("all-reduce", [total], reducer="sum", groups=groups)
    ds = number(pair.dist, dm)
    if together:
        ds = pair.dist.emit("all-reduce", [ds], reducer="sum", groups=groups)
    pair.outputs(made, pair.dist.emit(how, [total, spread(pair.dist, ds, total.shape, [])]))
    return pair


def count(g: Graph, m: Tensor) -> Tensor:
    return g.emit("reduce", [m], dimensions=[0], reducer="sum")


def twice(g: Graph, x: Tensor) -> Tensor:
    return g.emit("multiply", [x, g.splat(2.0, "f32", x.shape)])


@trial
def a_tanh_of_what_is_divided() -> Pair:
    return early_and_late(lambda g, x: g.emit("tanh", [x]), count)


@trial
def a_bias_that_is_not_divided() -> Pair:
    return early_and_late(lambda g, x: g.emit("add", [x, g.splat(1.0, "f32", x.shape)]), count)


@trial
def integers_in_between() -> Pair:
    """What is divided is cut off before it is added up."""
    return early_and_late(lambda g, x: g.emit("convert", [g.emit("convert", [x], dtype="s32")], dtype="f32"), count)


@trial
def a_division_that_is_forgotten() -> Pair:
    """The rows are divided by their count on one side alone."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((4, 2), {0: "dp"})
    m, _ = pair.input((4,), {0: "dp"})
    early = pair.base.emit("divide", [x, spread(pair.base, count(pair.base, m), x.shape, [])])
    made = pair.base.emit("reduce", [twice(pair.base, early)], dimensions=[0], reducer="sum")
    total = pair.dist.emit("reduce", [twice(pair.dist, dx)], dimensions=[0], reducer="sum")
    pair.outputs(made, pair.dist.emit("all-reduce", [total], reducer="sum", groups=pair.groups("dp")))
    return pair


@trial
def the_product_of_two_that_are_divided() -> Pair:
    return early_and_late(lambda g, x: g.emit("multiply", [x, x]), count)


@trial
def a_divisor_of_one_rank_alone() -> Pair:
    return early_and_late(twice, count, together=False)


@trial
def a_greatest_that_is_multiplied() -> Pair:
    """By a sum that may be negative."""
    return early_and_late(lambda g, x: g.emit("maximum", [x, g.splat(0.0, "f32", x.shape)]), count, "multiply")


def difference(g: Graph, m: Tensor) -> Tensor:
    """Of the sum of squares and of that of their absolute values: zero."""
    squares = g.emit("multiply", [m, m])
    return g.emit("subtract", [count(g, squares), count(g, g.emit("abs", [squares]))])


@trial
def a_divisor_that_is_zero() -> Pair:
    """(x + 1 - x) / 0 is infinite at the end, and no number where each is divided."""
    return early_and_late(twice, difference)


def minus_infinity(g: Graph, m: Tensor) -> Tensor:
    """The logarithm of zero."""
    return g.emit("log", [g.emit("abs", [difference(g, m)])])


@trial
def a_factor_that_is_infinite() -> Pair:
    """The parts of what it multiplies are infinities of either sign; the sum is one of them."""
    return early_and_late(twice, minus_infinity, "multiply")
