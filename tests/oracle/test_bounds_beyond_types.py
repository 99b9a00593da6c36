"""Bounds that reach beyond a type say nothing of numbers that it does not have."""

from __future__ import annotations

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
