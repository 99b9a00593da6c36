"""Integers that a rank holds at a scale: modulo 2ⁿ; those of a known range have no formula, and no traceback."""

from __future__ import annotations

import numpy as np
import pytest

from scalify_dl.algebra.extended import multiply
from scalify_dl.algebra.finite import Leaf, Table
from scalify_dl.algebra.form import Field, Undecided
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse


def test_a_table_at_a_scale_is_undecided() -> None:
    field = Field()
    table = Table((Leaf("ids", 0, 3),), np.arange(3))
    for pair in ((table, field.constant(2)), (field.constant(2), table)):
        with pytest.raises(Undecided):
            multiply(*pair)


@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u8", "s16", "s32"])
@pytest.mark.parametrize("wide", ["f32", "s64"])
def test_a_sum_of_equal_integers_that_wraps_round_is_not_twice_the_number(dtype: str, wide: str) -> None:
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    x, dx = b.input("x", (4,), dtype), d.shard("x", {})
    two = b.constant(2, wide, (4,)) if wide == "s64" else None
    whole = b.convert(x, dtype=wide)
    b.output(whole if two is None else b.multiply(whole, two))
    summed = d.convert(d.all_reduce(dx, "dp"), dtype=wide)
    d.output(summed if two is not None else d.multiply(summed, d.constant(0.5, wide, (4,))))
    analysis = analyse(pair.facts(), Options(refute=False))
    assert [row[2] for row in analysis.rows("output_verdict")] == ["UNKNOWN"]
