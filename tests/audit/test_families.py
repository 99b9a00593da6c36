"""Random families: a difference counts on inputs at which all that the proof lists is so."""

from __future__ import annotations

import pytest

from scalify_dl.audit.assumed import differs_where_assumed
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.verdict import Assumption


@pytest.mark.parametrize(
    ("tensor", "why", "differs"),
    [
        ("base/x", "positive", False),
        ("base/x", "nonnegative", False),
        ("x", "positive", False),
        ("base/x", "nonzero", True),
        ("base/x", "finite", True),
        ("base/x", "precision", True),
        ("base/relu", "positive", False),
        ("no such value", "positive", True),
    ],
)
def test_a_difference_counts_where_what_is_listed_is_so(tensor: str, why: str, differs: bool) -> None:
    pair = Pair("tp=2")
    b = pair.base
    b.output(b.relu(b.input("x", (4, 2))))
    d = pair.dist
    d.output(d.shard("x", {0: "tp"}))
    program = load_program(pair.facts().tables)
    found = find_counterexample(program)
    assert found.status == "refuted"
    assert differs_where_assumed(program, found, [Assumption(tensor, "", why)]) is differs


def test_what_is_never_so_of_any_draw_decides_nothing() -> None:
    pair = Pair("tp=2")
    b = pair.base
    b.output(b.negate(b.relu(b.input("x", (4, 2)))))
    d = pair.dist
    d.output(d.shard("x", {0: "tp"}))
    program = load_program(pair.facts().tables)
    found = find_counterexample(program)
    assert differs_where_assumed(program, found, [Assumption("base/negate", "", "positive")]) is None
