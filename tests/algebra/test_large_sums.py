"""Pairs of large dims that need sums to be looked at together, counted, or judged by their own size; wrong twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.algebra.form import Field
from scalify_dl.algebra.laws import exponential, power
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .programs import alone, compared, iota, matmul, number, over, part, scaled, square, two, verdict, where, wide

ROWS, COLUMNS = 512, 1024


def everywhere(g: Graph, x: Tensor) -> Tensor:
    """The mean of all elements."""
    return scaled(g, g.emit("reduce", [x], dimensions=[0, 1], reducer="sum"), 1 / (ROWS * COLUMNS))


def standard(g: Graph, x: Tensor, *, early: bool, forgotten: bool = False) -> Tensor:
    """What is left of the mean, over the deviation: of what is left, or of squares less the square of the mean."""
    mean = everywhere(g, x)
    left = two(g, "subtract", x, wide(g, mean, x))
    if not early:
        return two(g, "divide", left, wide(g, g.emit("sqrt", [everywhere(g, square(g, left))]), x))
    squares = everywhere(g, square(g, x))
    variance = squares if forgotten else two(g, "subtract", squares, square(g, mean))
    return two(g, "multiply", left, wide(g, g.emit("rsqrt", [variance]), x))


def gated(x: Callable[[Graph, Tensor], Tensor]) -> Callable[[], Pair]:
    """Σ_k of an activation times weights, in two spellings."""

    def make() -> Pair:
        pair = Pair({"tp": 1})
        (x0, dx), (w, dw) = pair.input((ROWS, COLUMNS)), pair.input((COLUMNS, 64))
        swish = two(pair.base, "multiply", x0, pair.base.emit("logistic", [x0]))
        pair.outputs(matmul(pair.base, swish, w), matmul(pair.dist, x(pair.dist, dx), dw))
        return pair

    return make


def less_the_rest(g: Graph, x: Tensor, sign: str = "negate") -> Tensor:
    """x − x/(1 + eˣ)."""
    other = g.emit("logistic", [g.emit(sign, [x])])
    return two(g, "subtract", x, two(g, "multiply", x, other))


def shares(*, counted: bool, off: bool = False) -> Callable[[Graph, Tensor], Tensor]:
    """Rows over how many of their elements are above zero, counted as integers or added up as reals."""

    def make(g: Graph, x: Tensor) -> Tensor:
        above = compared(g, x, number(g, 0, x), "GE" if off else "GT")
        if counted:
            numbers = over(g, g.emit("convert", [above], dtype="s32"), "sum", 1)
            count = g.emit("convert", [numbers], dtype="f32")
        else:
            count = over(g, where(g, above, number(g, 1, x), 0), "sum", 1)
        return two(g, "divide", x, wide(g, count, x, 0))

    return make


def masked(blocks: int, *, low: float = -1e30, direction: str = "LE") -> Callable[[Graph, Tensor], Tensor]:
    """Causal attention, in blocks of rows that see only the columns before them."""

    def make(g: Graph, x: Tensor) -> Tensor:
        step = ROWS // blocks
        found = []
        for n in range(blocks):
            seen = (n + 1) * step
            rows = part(g, part(g, x, n * step, seen), 0, seen, dim=1)
            at = two(g, "add", iota(g, rows, 0), number(g, n * step, iota(g, rows, 0)))
            scores = where(g, compared(g, iota(g, rows, 1), at, direction), rows, low)
            top = wide(g, over(g, scores, "max", 1), rows, 0)
            weights = g.emit("exponential", [two(g, "subtract", scores, top)])
            shares = two(g, "divide", weights, wide(g, over(g, weights, "sum", 1), rows, 0))
            found.append(matmul(g, shares, part(g, x, 0, seen)))
        return found[0] if blocks == 1 else g.emit("concatenate", found, dimension=0)

    return make


RIGHT: dict[str, Callable[[], Pair]] = {
    "deviations from two sums": lambda: alone(
        lambda g, x: standard(g, x, early=False), lambda g, x: standard(g, x, early=True), ROWS, COLUMNS
    ),
    "a product of an activation in two spellings": gated(less_the_rest),
    "counts as integers": lambda: alone(shares(counted=False), shares(counted=True), ROWS, COLUMNS),
    "rows in blocks, masked by a large number": lambda: alone(masked(1), masked(4), ROWS, ROWS),
}
WRONG: dict[str, Callable[[], Pair]] = {
    "deviations of squares alone": lambda: alone(
        lambda g, x: standard(g, x, early=False),
        lambda g, x: standard(g, x, early=True, forgotten=True),
        ROWS,
        COLUMNS,
    ),
    "an activation of another sign": gated(lambda g, x: less_the_rest(g, x, "abs")),
    "counts of what is zero, too": lambda: alone(shares(counted=False), shares(counted=True, off=True), ROWS, COLUMNS),
    "rows that do not see themselves": lambda: alone(masked(1), masked(4, direction="LT"), ROWS, ROWS),
}


@pytest.mark.parametrize("name", RIGHT)
def test_equal_pairs_of_large_sums_are_proved(name: str) -> None:
    assert verdict(RIGHT[name]()) == "PROVED"


@pytest.mark.parametrize("name", WRONG)
def test_their_wrong_twins_are_not(name: str) -> None:
    assert verdict(WRONG[name]()) != "PROVED"


def test_integers_that_may_wrap_are_not_counted() -> None:
    def counts(g: Graph, x: Tensor, dtype: str) -> Tensor:
        above = g.emit("convert", [compared(g, x, number(g, 0, x), "GT")], dtype=dtype)
        return g.emit("convert", [over(g, above, "sum", 1)], dtype="f32")

    pair = alone(lambda g, x: counts(g, x, "s32"), lambda g, x: counts(g, x, "s8"), ROWS, COLUMNS)
    assert verdict(pair) != "PROVED"


def test_a_high_power_of_an_exponential_is_one_exponential() -> None:
    field = Field()
    x = field.of(field.element("input", ("x", 0)))
    assert power(exponential(x), 125_000) == exponential(x.scaled(125_000))
