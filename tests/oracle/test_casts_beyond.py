"""Real numbers beyond the integer type that they are cast to: XLA ends at its end, torch on a CPU wraps round, and no
specification says; what differs there alone refutes nothing."""

from __future__ import annotations

import pytest

from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude


def verdict(way: str, factor: float, dtype: str = "u8") -> str:
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    x, dx = b.input("x", (4,), "f32"), d.shard("x", {0: "dp"})
    made = b.multiply(x, b.constant(factor, "f32", (4,)))
    if way == "within":
        made = b.minimum(b.maximum(made, b.constant(0.0, "f32", (4,))), b.constant(100.0, "f32", (4,)))
    b.output(b.convert(made, dtype=dtype))
    other = d.multiply(dx, d.constant(factor, "f32", (2,)))
    if way == "within":
        other = d.minimum(d.maximum(other, d.constant(0.0, "f32", (2,))), d.constant(90.0, "f32", (2,)))
    wide = d.convert(other if way != "floor" else d.floor(other), dtype="s32")
    d.output(d.convert(wide, dtype=dtype))
    return conclude(analyse(pair.facts(), Options())).verdict.name


@pytest.mark.parametrize("dtype", ["u8", "s8", "u16"])
def test_a_way_through_a_wider_type_is_not_refuted(dtype: str) -> None:
    assert verdict("wide", 70000.0, dtype) == "UNKNOWN"


def test_what_differs_within_the_type_is() -> None:
    assert verdict("within", 300.0) == "REFUTED"
    assert verdict("floor", 30.0, "s8") == "REFUTED"
