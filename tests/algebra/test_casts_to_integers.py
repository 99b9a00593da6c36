"""Real numbers that are cast to integers: beyond the type they end at its end, where integers wrap round."""

from __future__ import annotations

import pytest

from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse


def verdict(dtype: str, real: str, wide: str, times: int) -> str:
    """A multiple of integers in a wider or the same type, and by real numbers."""
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    x, dx = b.input("x", (4,), dtype), d.shard("x", {0: "dp"})
    b.output(b.multiply(b.convert(x, dtype=wide) if wide != dtype else x, b.constant(times, wide, (4,))))
    made = d.multiply(d.convert(dx, dtype=real), d.constant(float(times), real, (2,)))
    d.output(d.convert(made, dtype=wide))
    (found,) = analyse(pair.facts(), Options(refute=False)).rows("output_verdict")
    return str(found[2])


@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u8", "s16"])
def test_what_a_cast_ends_at_is_not_what_wraps_round(dtype: str) -> None:
    assert verdict(dtype, "f32", dtype, 3) == "UNKNOWN"


def test_what_the_real_type_rounds_is_not_the_integer() -> None:
    assert verdict("s8", "bf16", "s32", 3) == "UNKNOWN"


@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u8"])
def test_what_both_types_hold_is_the_integer(dtype: str) -> None:
    assert verdict(dtype, "f32", "s32", 3) == "PROVED"
