"""Conditions that would leave out what the baseline was written for, and casts that would leave out large numbers: no
proof rests on either."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .programs import Make, alone, number, two, verdict


def compared(g: Graph, x: Tensor, direction: str, value: float = 0) -> Tensor:
    return g.emit("compare", [x, number(g, value, x)], direction=direction)


def guarded(g: Graph, condition: Tensor, otherwise: float, x: Tensor) -> Tensor:
    return g.emit("select", [condition, number(g, otherwise, x), x])


def reciprocal(g: Graph, x: Tensor) -> Tensor:
    return two(g, "divide", number(g, 1, x), x)


def ratio(g: Graph, x: Tensor) -> Tensor:
    return two(g, "divide", x, x)


def entropy(g: Graph, x: Tensor) -> Tensor:
    return two(g, "multiply", x, g.emit("log", [g.emit("abs", [x])]))


def is_not_a_number(g: Graph, x: Tensor) -> Tensor:
    return g.emit("compare", [x, x], direction="NE")


WRONG: dict[str, tuple[Make, Make]] = {
    "a division that was guarded": (
        lambda g, x: guarded(g, compared(g, x, "EQ"), 0, reciprocal(g, x)),
        reciprocal,
    ),
    "x over x for a flag": (lambda g, x: guarded(g, compared(g, x, "EQ"), 0, number(g, 1, x)), ratio),
    "x log x, of which a value on the way is equal": (
        lambda g, x: guarded(g, compared(g, x, "EQ"), 0, entropy(g, x)),
        entropy,
    ),
    "a logarithm that was guarded": (
        lambda g, x: guarded(g, compared(g, x, "LE"), 0, g.emit("log", [x])),
        lambda g, x: g.emit("log", [x]),
    ),
    "whether a ratio is no number": (
        lambda g, x: is_not_a_number(g, ratio(g, x)),
        lambda g, x: compared(g, g.emit("abs", [x]), "LT"),
    ),
}
RIGHT: dict[str, tuple[Make, Make]] = {
    "both divide": (
        lambda g, x: two(g, "add", reciprocal(g, x), number(g, 1, x)),
        lambda g, x: two(g, "divide", two(g, "add", x, number(g, 1, x)), x),
    ),
    "only the baseline divides": (ratio, lambda g, x: number(g, 1, x)),
    "the divisor is guarded": (
        lambda g, x: guarded(g, compared(g, x, "EQ"), 1, ratio(g, guarded(g, compared(g, x, "EQ"), 1, x))),
        lambda g, x: number(g, 1, x),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_no_condition_leaves_out_what_the_baseline_provides_for(name: str) -> None:
    assert verdict(alone(*WRONG[name], 4)) != "PROVED"


@pytest.mark.parametrize("name", RIGHT)
def test_conditions_that_the_baseline_has_too_are_listed(name: str) -> None:
    assert verdict(alone(*RIGHT[name], 4)) == "PROVED"


def test_so_it_is_of_large_programs() -> None:
    assert verdict(alone(*WRONG["a division that was guarded"], 300_000)) != "PROVED"


def there_and_back(dtype: str, between: str) -> Pair:
    """Integers as reals of a type and back, against the integers."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((4,), dtype=dtype)
    reals = pair.base.emit("convert", [x], dtype=between)
    pair.outputs(pair.base.emit("convert", [reals], dtype=dtype), dx)
    return pair


@pytest.mark.parametrize(("dtype", "between"), [("s32", "f32"), ("s32", "bf16"), ("u16", "f16"), ("s64", "f64")])
def test_integers_that_a_real_type_rounds_do_not_come_back(dtype: str, between: str) -> None:
    assert verdict(there_and_back(dtype, between)) != "PROVED"


@pytest.mark.parametrize(("dtype", "between"), [("s8", "bf16"), ("u16", "f32"), ("s32", "f64")])
def test_integers_that_a_real_type_holds_come_back(dtype: str, between: str) -> None:
    assert verdict(there_and_back(dtype, between)) == "PROVED"
