"""Bits of real numbers, and comparisons that tell zeros apart: proofs take equal numbers for equal bits, and say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

Make = Callable[[Graph, Tensor], Tensor]


def bits(g: Graph, x: Tensor) -> Tensor:
    return g.emit("bitcast-convert", [x], dtype="s32", **{"from": x.dtype})


def below_zero(g: Graph, x: Tensor) -> Tensor:
    return g.emit("compare", [x, x], dtype="pred", direction="LT", order="total")


def counts(g: Graph, x: Tensor) -> Tensor:
    integers = g.emit("convert", [x], dtype="s32")
    return g.emit("convert", [integers], dtype="f32")


def plus_zero(g: Graph, x: Tensor) -> Tensor:
    return g.emit("add", [x, g.splat(0.0, "f32", x.shape)])


def listed(base: Make, dist: Make, dtype: str = "f32", options: Options | None = None) -> list[str]:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8,), {0: "tp"}, dtype=dtype)
    pair.outputs(base(pair.base, x), dist(pair.dist, dx))
    report = conclude(analyse(Facts({name: list(rows) for name, rows in pair.tables().items()}), options or Options()))
    assert report.verdict is Verdict.PROVED
    return [row.text for row in report.assumptions if row.why == "precision"]


def written(g: Graph, x: Tensor, number: float = 0.0) -> Tensor:
    return g.splat(number, x.dtype, x.shape)


def over(g: Graph, divisor: Tensor) -> Tensor:
    return g.emit("divide", [written(g, divisor, 1.0), divisor])


def positive(g: Graph, x: Tensor) -> Tensor:
    return g.emit("exponential", [x])


def masked(g: Graph, x: Tensor) -> Tensor:
    """exp(x) where it is above 1, else 0 (or -0, which is read as 0)."""
    mask = g.emit("compare", [x, written(g, x)], dtype="pred", direction="GT")
    return g.emit("select", [mask, positive(g, x), written(g, x)])


@pytest.mark.parametrize("seen", [bits, below_zero])
def test_bits_of_computed_numbers_are_an_assumption(seen: Make) -> None:
    """-0.0 + 0.0 is 0.0, whose bits and place are others."""
    texts = listed(lambda g, x: seen(g, plus_zero(g, x)), seen)
    assert texts
    assert all("no zero of the other sign" in text for text in texts)


def test_bits_of_an_input_are_its_own() -> None:
    assert not listed(bits, bits)


def test_bits_of_integers_are_exact() -> None:
    def reals(g: Graph, x: Tensor) -> Tensor:
        return g.emit("bitcast-convert", [g.emit("negate", [x])], dtype="f32", **{"from": "s32"})

    assert not listed(reals, reals, "s32")


SIGNS: dict[str, Make] = {
    "1/0": lambda g, x: g.emit("add", [over(g, written(g, x)), x]),
    "1/(0 rounded)": lambda g, x: g.emit("add", [over(g, g.emit("floor", [written(g, x)])), x]),
    "1/-x": lambda g, x: over(g, g.emit("negate", [x])),
    "1/where": lambda g, x: over(g, masked(g, x)),
    "1/sqrt": lambda g, x: g.emit("rsqrt", [g.emit("cbrt", [masked(g, x)])]),
    "power": lambda g, x: g.emit("power", [plus_zero(g, x), written(g, x, -1.0)]),
    "1/(-x·x / -6)": lambda g, x: over(
        g, g.emit("divide", [g.emit("negate", [g.emit("multiply", [x, x])]), written(g, x, -6.0)])
    ),
    "angle": lambda g, x: g.emit("atan2", [written(g, x), x]),
}


@pytest.mark.parametrize("seen", SIGNS.values(), ids=SIGNS)
def test_the_sign_of_a_zero_that_is_seen_is_an_assumption(seen: Make) -> None:
    """The constant -0 is 0 to every rule, and 0 - x is -x; what divides by them is another infinity."""
    texts = listed(seen, seen)
    assert texts
    assert all("zero of the baseline's sign" in text for text in texts)


NO_SIGNS: dict[str, Make] = {
    "x + 0": plus_zero,
    "max(x, 0)": lambda g, x: g.emit("maximum", [x, written(g, x)]),
    "masked": masked,
    "over x": over,
    "over a positive number": lambda g, x: over(g, positive(g, plus_zero(g, x))),
    "over a square": lambda g, x: over(g, g.emit("multiply", [positive(g, x), positive(g, x)])),
    "over a sum": lambda g, x: over(g, g.emit("add", [positive(g, x), masked(g, x)])),
    "over a count": lambda g, x: over(g, counts(g, x)),
    "over a number": lambda g, x: g.emit("divide", [x, written(g, x, 3.0)]),
}


@pytest.mark.parametrize("made", NO_SIGNS.values(), ids=NO_SIGNS)
def test_a_zero_whose_sign_nothing_sees_is_none(made: Make) -> None:
    assert not listed(made, made)


def test_a_zero_that_an_opaque_call_is_given_is_an_assumption(tmp_path: Path) -> None:
    rules = tmp_path / "f.dl"
    rules.write_text('opaque("custom:f", "x * c"). elementwise("custom:f").\n', encoding="utf-8")

    def called(number: float) -> Make:
        return lambda g, x: g.emit("custom:f", [x, written(g, x, number)], dtype="f32", shape=x.shape)

    assert any("sign" in text for text in listed(called(0.0), called(0.0), options=Options(rules=(rules,))))
    assert not listed(called(2.0), called(2.0), options=Options(rules=(rules,)))
