"""What libraries leave out beyond a threshold is nothing that rounding would keep, or the sides differ."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .programs import compared, number, report, scaled, two


def soft(g: Graph, x: Tensor) -> Tensor:
    return g.emit("softplus", [x])


def cut(g: Graph, x: Tensor, threshold: float, *, turned: bool = False, scale: float = 1.0) -> Tensor:
    """softplus(scale · x) / scale, which is x beyond a threshold."""
    y = scaled(g, x, scale)
    short, whole = x, scaled(g, soft(g, y), 1 / scale)
    if turned:
        return g.emit("select", [compared(g, y, number(g, threshold, x), "LE"), whole, short])
    return g.emit("select", [compared(g, y, number(g, threshold, x), "GT"), short, whole])


def slope(g: Graph, x: Tensor, threshold: float, beyond: float = 1.0) -> Tensor:
    above = compared(g, x, number(g, threshold, x), "GT")
    return g.emit("select", [above, number(g, beyond, x), g.emit("logistic", [x])])


def found(base: object, dist: object, dtype: str = "f32") -> tuple[str, set[str]]:
    pair = Pair({"tp": 1})
    x, dx = pair.input((3,), dtype=dtype)
    pair.outputs(base(pair.base, x), dist(pair.dist, dx))  # type: ignore[operator]
    result = report(pair)
    return str(result.verdict.value), {a.text for a in result.assumptions}


RIGHT = {
    "softplus": (soft, lambda g, x: cut(g, x, 20)),
    "softplus, turned": (soft, lambda g, x: cut(g, x, 20, turned=True)),
    "softplus of twice": (lambda g, x: scaled(g, soft(g, scaled(g, x, 2)), 0.5), lambda g, x: cut(g, x, 20, scale=2)),
    "its slope": (lambda g, x: g.emit("logistic", [x]), lambda g, x: slope(g, x, 20)),
    "of minus": (lambda g, x: soft(g, scaled(g, x, -1)), lambda g, x: cut(g, scaled(g, x, -1), 20)),
}
WRONG = {
    "a threshold that is near": (soft, lambda g, x: cut(g, x, 10)),
    "one below zero": (soft, lambda g, x: cut(g, x, -20)),
    "of another scale": (soft, lambda g, x: cut(g, x, 20, scale=4)),
    "the other side of it": (
        soft,
        lambda g, x: g.emit("select", [compared(g, x, number(g, 20, x), "LT"), x, soft(g, x)]),
    ),
    "more than is left": (soft, lambda g, x: two(g, "add", cut(g, x, 20), number(g, 1e-3, x))),
    "another slope": (lambda g, x: g.emit("logistic", [x]), lambda g, x: slope(g, x, 20, 0.5)),
    "small numbers that are left out": (
        lambda g, x: soft(g, scaled(g, x, -1)),
        lambda g, x: g.emit(
            "select", [compared(g, x, number(g, 20, x), "GT"), number(g, 0, x), soft(g, scaled(g, x, -1))]
        ),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_rounding_would_leave_out_is_listed_as_precision(name: str) -> None:
    verdict, listed = found(*RIGHT[name])
    assert verdict == "PROVED"
    assert any("beyond a threshold" in text for text in listed)


@pytest.mark.parametrize("name", WRONG)
def test_what_rounding_would_keep_is_not_left_out(name: str) -> None:
    assert found(*WRONG[name])[0] != "PROVED"


def test_doubles_keep_more() -> None:
    assert found(soft, lambda g, x: cut(g, x, 20), "f64")[0] != "PROVED"
    assert found(soft, lambda g, x: cut(g, x, 40), "f64")[0] == "PROVED"


def test_the_same_threshold_on_both_sides_needs_no_rounding() -> None:
    verdict, listed = found(lambda g, x: cut(g, x, 20), lambda g, x: cut(g, x, 20, turned=True))
    assert verdict == "PROVED"
    assert not any("beyond a threshold" in text for text in listed)
