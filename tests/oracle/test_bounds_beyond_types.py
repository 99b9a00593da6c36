"""Bounds that reach beyond a type say nothing of numbers that it does not have."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.oracle import find_counterexample, load_program


def test_inputs_are_drawn_within_their_type() -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((8,), dtype="s8", range=(1, 300))
    zero = pair.base.emit("broadcast", [pair.base.constant(0, "s8")], dtype="s8", shape=(8,), dimensions=[])
    pair.outputs(pair.base.emit("maximum", [x, zero]), dx)
    program = load_program(pair.tables())
    assert program.ranges["base/x0"] == (1, 128)
    assert find_counterexample(program).status == "agrees"


@pytest.mark.parametrize(("ours", "theirs"), [("s64", "s32"), ("u8", "s8"), ("s8", "u8"), ("u64", "s32")])
def test_the_same_integers_are_drawn_where_both_types_have_them(ours: str, theirs: str) -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((64,), dtype=ours)
    dx.dtype = theirs
    zero, none = pair.base.splat(0, ours, (64,)), pair.dist.splat(0, theirs, (64,))
    whole = pair.base.emit("convert", [pair.base.emit("maximum", [x, zero])], dtype="f32")
    pair.outputs(whole, pair.dist.emit("convert", [pair.dist.emit("maximum", [dx, none])], dtype="f32"))
    assert find_counterexample(load_program(pair.tables())).status == "agrees"


@pytest.mark.parametrize(("ours", "theirs"), [("s32", "u64"), ("u64", "s32"), ("s64", "u8")])
def test_parts_of_a_sum_are_drawn_in_the_type_of_the_parts(ours: str, theirs: str) -> None:
    pair = Pair({"tp": 2})
    x, parts = pair.input((8,), dtype=ours, pending={"tp": "sum"})
    parts.dtype = theirs
    pair.outputs(x, pair.dist.emit("all-reduce", [parts], reducer="sum", groups=pair.groups("tp")))
    assert find_counterexample(load_program(pair.tables())).status == "agrees"
