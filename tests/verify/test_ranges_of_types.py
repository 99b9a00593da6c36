"""Numbers that leave the range of their type on one side alone: proofs are of real numbers, and say so."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude


def listed(factor: float, dtype: str, *, both: bool = False) -> list[str]:
    """Of -x against -(x · factor / factor)."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8,), {0: "tp"}, dtype=dtype)

    def scaled(g: Graph, value: Tensor) -> Tensor:
        large = g.emit("multiply", [value, g.splat(factor, dtype, value.shape)])
        return g.emit("multiply", [large, g.splat(1 / factor, dtype, value.shape)])

    base = scaled(pair.base, x) if both else x
    pair.outputs(pair.base.emit("negate", [base]), pair.dist.emit("negate", [scaled(pair.dist, dx)]))
    report = conclude(analyse(Facts({name: list(rows) for name, rows in pair.tables().items()}), Options()))
    assert report.verdict is Verdict.PROVED
    return [row.text for row in report.assumptions if row.why == "precision"]


@pytest.mark.parametrize(("factor", "dtype"), [(32768.0, "f16"), (1 / 1024, "f16"), (64.0, "f8e4m3fn"), (1e38, "f32")])
def test_what_a_factor_takes_out_of_its_range_is_listed(factor: float, dtype: str) -> None:
    (text,) = listed(factor, dtype)
    assert "the range of" in text


@pytest.mark.parametrize(("factor", "dtype"), [(8.0, "f16"), (32768.0, "bf16"), (1024.0, "f32")])
def test_factors_that_leave_room_are_not(factor: float, dtype: str) -> None:
    assert listed(factor, dtype) == []


def test_nor_are_those_that_the_baseline_has_too() -> None:
    assert listed(32768.0, "f16", both=True) == []
