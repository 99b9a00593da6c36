"""Truths that ranks reduce as integers: a step that is left out on all ranks if any of them met an infinity."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread


def step(*, reducer: str = "min", direction: str = "EQ", bound: int = 1, every: str = "and", told: bool = True,
         cast: bool = False, times: int = 1) -> Pair:  # fmt: skip
    """log(x) where every element of it is finite (or any is), else x; x in blocks over two ranks."""
    p = Pair({"tp": 2})
    x, part = p.input((6,), {0: "tp"})
    found = []
    for g, value in ((p.base, x), (p.dist, part)):
        y = g.emit("log", [value])
        ok = g.emit("reduce", [g.emit("is-finite", [y])], dimensions=[0], reducer=every)
        if g is p.dist:
            number = g.emit("convert", [ok], dtype="s32" if times == 1 else "f32")
            number = g.emit("all-reduce", [number], reducer=reducer, groups=p.groups("tp")) if told else number
            if times != 1:
                number = g.emit("multiply", [number, g.constant(times, "f32")])
            ok = (g.emit("convert", [number], dtype="pred") if cast
                  else g.emit("compare", [number, g.constant(bound, number.dtype)], direction=direction))  # fmt: skip
        found.append(g.emit("select", [spread(g, ok, value.shape, []), g.emit("add", [value, value]), value]))
    p.outputs(found[0], found[1], layout=str(p.layout((6,), {0: "tp"})))
    return p


@pytest.mark.parametrize(
    "pair",
    [step(), step(direction="GE"), step(direction="GT", bound=0), step(direction="NE", bound=0), step(cast=True),
     step(every="or", reducer="max")],
)  # fmt: skip
def test_the_least_of_the_ranks_truths_as_numbers_is_their_conjunction(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize(
    "pair",
    [step(reducer="max"), step(bound=0), step(direction="NE"), step(reducer="sum"), step(told=False),
     step(every="or"), step(direction="LE"), step(times=2)],
    ids=["the greatest", "equal to 0", "unequal to 1", "the sum is 1", "its own", "the least of any", "at most 1",
         "twice it is 1"],
)  # fmt: skip
def test_other_reductions_and_comparisons_are_not(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
