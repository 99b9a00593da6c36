"""Choices by the sign of a number that is never below zero, or by whether it is finite: jax.nn.logsumexp's gradient."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.oracle import find_counterexample, load_program


def chosen(test: str, of: str = "exponential", *, arm: int = 1) -> Pair:
    """The baseline chooses by a test of a value, and takes away what the same test leaves; the ranks do neither."""
    pair = Pair({"tp": 2})
    x, _ = pair.input((4, 6), {1: "tp"})
    y, dy = pair.input((4, 6), {1: "tp"})
    b = pair.base
    tested, zeros = b.emit(of, [x]), b.splat(0.0, "f32", x.shape)
    mask = b.emit(test, [tested]) if test == "is-finite" else b.emit("compare", [tested, zeros], direction=test)
    kept, lost = (b.emit("select", [mask, *arms]) for arms in ((y, zeros), (zeros, y))[:: arm * 2 - 1])
    pair.outputs(b.emit("add", [kept, b.emit("negate", [lost])]), dy)
    return pair


@pytest.mark.parametrize(("test", "of"), [("GE", "exponential"), ("GE", "abs"), ("is-finite", "exponential"),
                                          ("is-finite", "sine")])  # fmt: skip
def test_a_choice_that_is_always_the_same_is_left_out(test: str, of: str) -> None:
    tables = chosen(test, of).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize(("test", "of"), [("GE", "sine"), ("GT", "sine"), ("LT", "exponential"), ("LE", "abs")])
def test_another_choice_stays(test: str, of: str) -> None:
    tables = chosen(test, of).tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None


def test_what_may_be_zero_is_not_above_it() -> None:
    assert derive(chosen("GT", "abs").tables()).unproved
    assert derive(chosen("is-finite", "log").tables()).unproved


def test_the_other_value_is_not_taken() -> None:
    tables = chosen("GE", arm=0).tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None


def test_what_is_tested_is_listed_as_finite() -> None:
    assert "base/x0" in derive(chosen("is-finite", "sine").tables()).finite
