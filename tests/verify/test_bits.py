"""Bits of real numbers, and comparisons that tell zeros apart: proofs take equal numbers for equal bits, and say so."""

from __future__ import annotations

from collections.abc import Callable

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


def plus_zero(g: Graph, x: Tensor) -> Tensor:
    return g.emit("add", [x, g.splat(0.0, "f32", x.shape)])


def listed(base: Make, dist: Make, dtype: str = "f32") -> list[str]:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8,), {0: "tp"}, dtype=dtype)
    pair.outputs(base(pair.base, x), dist(pair.dist, dx))
    report = conclude(analyse(Facts({name: list(rows) for name, rows in pair.tables().items()}), Options()))
    assert report.verdict is Verdict.PROVED
    return [row.text for row in report.assumptions if row.why == "precision"]


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
