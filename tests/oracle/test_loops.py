"""Loops that values keep going."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph
from scalify_dl.oracle import run_trial
from scalify_dl.oracle.meaning import Unsupported

from .small import program


def counted(pair: Pair, step: float) -> None:
    """x is added to, from the largest of its elements on, until that is 10,000."""
    condition, body = Graph("condition"), Graph("body")
    x, y = condition.input("x", "f32", (3,)), body.input("x", "f32", (3,))
    largest = condition.emit("reduce", [x], reducer="max", dimensions=[0])
    condition.output(condition.emit("compare", [largest, condition.constant(10_000, "f32")], direction="LT"))
    body.output(body.emit("add", [y, body.splat(step, "f32", (3,))]))
    x, dx = pair.input((3,))
    pair.outputs(pair.base.add("while", [x], [("f32", (3,))], regions=[condition, body]).result, dx)


def test_a_loop_in_which_a_step_changes_nothing_never_ends() -> None:
    pair = Pair({"tp": 1})
    counted(pair, 1e-30)
    with pytest.raises(Unsupported, match="never ends on the values drawn"):
        run_trial(program(pair), 0, "reals")


def test_one_that_changes_something_does() -> None:
    pair = Pair({"tp": 1})
    counted(pair, 10.0)
    assert max(value.max() for value in run_trial(program(pair), 0, "reals").baseline.values()) >= 10_000
