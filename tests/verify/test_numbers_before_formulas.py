"""Formulas of outputs that a run refutes are compared briefly, and of others beside them: the verdict is known."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.prove import pipeline
from scalify_dl.prove.normal_forms import BESIDE, BRIEFLY, different_in_numbers
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

from .test_mending_steps import facts_of


def two_outputs(length: int) -> Pair:
    """Squares as products, and as powers times a sine that is a cosine on the other side; both behind many ops."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 6))
    found = []
    for side, value, function in ((pair.base, x, "sine"), (pair.dist, dx, "cosine")):
        one = other = value
        for _ in range(length):
            one = side.emit("tanh", [one])
            other = side.emit("tanh", [other if other is not value else side.emit(function, [value])])
        whole = side.emit("multiply", [one, side.emit("add", [one, value])])
        if side is pair.dist:
            whole = side.emit("add", [side.emit("multiply", [one, one]), side.emit("multiply", [one, value])])
        found.append((whole, other))
    for wanted, made in zip(*found, strict=True):
        pair.outputs(wanted, made)
    return pair


def test_a_run_says_which_outputs_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = facts_of(two_outputs(30))
    (right, _, _), (wrong, base, _) = sorted(facts["expect"], key=lambda row: "tanh" in row[0])
    asked = []
    before = pipeline.equalities

    def noting(facts, rows, seconds, found, outputs, **how):  # type: ignore[no-untyped-def]
        asked.append((seconds, outputs))
        return before(facts, rows, seconds, found, outputs, **how)

    monkeypatch.setattr(pipeline, "equalities", noting)
    analysis = analyse(facts, Options())
    assert {row[0]: row[2] for row in analysis.rows("output_verdict")}[right] == "PROVED"
    assert asked[0][0] == BESIDE
    assert wrong not in {dist for dist, _ in asked[0][1]}
    assert asked[-1] == (BRIEFLY, {(wrong, base)})
    assert different_in_numbers(facts, analysis.rows, None) == {(wrong, base)}


def test_a_short_program_is_not_run_first() -> None:
    facts = facts_of(two_outputs(2))
    assert different_in_numbers(facts, analyse(facts, Options()).rows, None) == set()
