"""Values that are exchanged in one buffer which is seen as parts of one size: FSDP2 where weights are alike."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.audit.trials.piece import UNIT, cut_within_a_unit_of_a_buffer, scattered_in_parts
from scalify_dl.oracle import find_counterexample, load_program

SHAPES = ((4, 3), (12,), (24,))  # on two ranks: one unit, one, and two


def gathered(*, rows: int = 2, ends: tuple[int, ...] = (0, 1, 2, 4), axis: str = "dp") -> Pair:
    """Shards in one row, gathered, seen as rows of units; every value is some units of each row."""
    pair = Pair({"dp": 2, "tp": 2})
    d = pair.dist
    values = [pair.input(shape, {0: "dp"}) for shape in SHAPES]
    own = [d.emit("reshape", [x], shape=(prod(x.shape),)) for _, x in values]
    row = d.emit("concatenate", own, dimension=0)
    whole = d.emit("all-gather", [row], dimension=0, groups=pair.groups(axis))
    seen = d.emit("reshape", [whole], shape=(rows, whole.shape[0] // rows // UNIT, UNIT))
    for (x, _), (lo, hi) in zip(values, pairwise(ends), strict=True):
        if rows * (hi - lo) * UNIT == prod(x.shape):
            limit = [rows, hi, UNIT]
            part = d.emit("slice", [seen], start=[0, lo, 0], limit=limit, stride=[1, 1, 1])
            pair.outputs(x, d.emit("reshape", [part], shape=x.shape))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {"gathered": gathered, "scattered": scattered_in_parts}
WRONG: dict[str, Callable[[], Pair]] = {
    "the next part": lambda: gathered(ends=(1, 2, 3, 4)),
    "halves of the ranks' rows": lambda: gathered(rows=4, ends=(0, 0, 1, 2)),
    "gathered over other ranks": lambda: gathered(axis="tp"),
    "parts cut within a unit": cut_within_a_unit_of_a_buffer,
    "summed, not averaged": lambda: scattered_in_parts(by=1.0),
    "shards of the whole row": lambda: scattered_in_parts(rows=1),
}


@pytest.mark.parametrize("name", RIGHT)
def test_equal_parts_of_a_buffer_are_the_values(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


@pytest.mark.parametrize("name", WRONG)
def test_other_parts_of_a_buffer_are_not_the_values(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).best is not None
