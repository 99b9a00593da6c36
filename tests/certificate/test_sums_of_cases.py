"""Sums of many elements, each with cases of its own: the checker looks at them apart."""

from __future__ import annotations

import pytest

from scalify_dl.certificate.files import CertificateError
from scalify_dl.ir.graph import Graph, Tensor

from ..algebra.programs import alone, number, over, scaled, two
from .test_equal_formulas import claimed

ROWS = 12
"""More than signs that are supposed one inside another."""


def naive(g: Graph, x: Tensor, share: float = 1.0) -> Tensor:
    """Minus the logarithm of 1 less the logistic function, summed."""
    left = two(g, "subtract", number(g, 1, x), scaled(g, g.emit("logistic", [x]), share))
    return g.emit("negate", [over(g, g.emit("log", [left]), "sum")])


def stable(g: Graph, x: Tensor, sign: float = 1.0, last: float = 1.0) -> Tensor:
    """The same as max(x, 0) + log(1 + exp(-|x|)); of another sign, or another multiple of the last element, not."""
    most = g.emit("maximum", [scaled(g, x, sign), number(g, 0, x)])
    small = g.emit("exponential", [g.emit("negate", [g.emit("abs", [x])])])
    terms = two(g, "add", most, g.emit("log-plus-one", [small]))
    parts = [
        g.emit("slice", [terms], start=[lo], limit=[hi], stride=[1]) for lo, hi in ((0, ROWS - 1), (ROWS - 1, ROWS))
    ]
    return over(g, g.emit("concatenate", [parts[0], scaled(g, parts[1], last)], dimension=0), "sum")


def clipped(g: Graph, x: Tensor, more: float = 0.0) -> Tensor:
    """Σ max(x, 1), as Σ of what is above 1 and of 1s: numbers that are each element's share."""
    above = g.emit("maximum", [two(g, "subtract", x, number(g, 1 + more, x)), number(g, 0, x)])
    return two(g, "add", over(g, above, "sum"), g.splat(float(ROWS), "f32", ()))


def test_each_element_has_cases_of_its_own() -> None:
    claimed(alone(naive, stable, ROWS))
    claimed(alone(lambda g, x: over(g, g.emit("maximum", [x, number(g, 1, x)]), "sum"), clipped, ROWS))


@pytest.mark.parametrize("wrong", [{"sign": -1.0}, {"last": 2.0}])
def test_one_that_is_wrong_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(CertificateError, match="no law"):
        claimed(alone(naive, lambda g, x: stable(g, x, **wrong), ROWS))


def test_a_limit_that_is_another_is_refused() -> None:
    with pytest.raises(CertificateError, match="no law"):
        claimed(
            alone(
                lambda g, x: over(g, g.emit("maximum", [x, number(g, 1, x)]), "sum"),
                lambda g, x: clipped(g, x, 0.5),
                ROWS,
            )
        )


def test_what_may_be_below_zero_is_not_taken_for_above() -> None:
    """1 less the logistic function is above zero; 1 less twice that may not be."""
    claimed(alone(naive, naive, ROWS))
    with pytest.raises(CertificateError, match="positive"):
        claimed(alone(lambda g, x: naive(g, x, 2.0), lambda g, x: naive(g, x, 2.0), ROWS))
