"""A lemma of somebody's own that is true of numbers alone: what is said of it, and how it asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.fuzz import check_rules
from scalify_dl.oracle.meaning.load import load_meanings

KIND = "custom:turned.about"
MEANING = f"""
import numpy as np
from scalify_dl.oracle.meaning import meaning

@meaning("{KIND}")
def turned(call, operands):
    n = operands[0].shape[-1]
    v = np.ones(n)
    return [operands[0] @ (np.eye(n) - 2 * np.outer(v, v) / n)]
"""
DECLARED = f"""
opaque("{KIND}", "reflects its last dim").
.decl turn(o:symbol)
turn(o) :- op(o, _, "{KIND}").
linear_operand("{KIND}", 0, 0, "sum").
factor(o, 0, d, d) :- turn(o), operand(o, 0, t), dim(t, d, _), tensor(t, _, _, r), d < r - 1.
factor(o, 0, d, 200) :- turn(o), operand(o, 0, t), tensor(t, _, _, r), d = r - 1.
result_factor(o, 0, d, d) :- turn(o), operand(o, 0, t), dim(t, d, _), tensor(t, _, _, r), d < r - 1.
result_factor(o, 0, d, 300) :- turn(o), operand(o, 0, t), tensor(t, _, _, r), d = r - 1.
.decl twice(e:symbol, d:symbol)
twice(e, d) :- node(u, "dist", "{KIND}"), out(u, 0, e), arg(u, 0, m),
               node(p, "dist", "{KIND}"), out(p, 0, m), arg(p, 0, d).
"""
CARELESS = "holds(e, t, l) :- twice(e, d), holds(d, t, l).\n"
ASKING = """
holds(e, t, l) :- twice(e, d), holds(d, t, l), a_number(d).
leaned_on(d) :- twice(e, d), holds(e, _, _), a_number(d).
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "meaning.py").write_text(MEANING)
    load_meanings([tmp_path / "meaning.py"])
    return tmp_path / "own.dl"


@pytest.mark.parametrize("seed", [7, 20])
def test_infinite_inputs_are_named_where_a_lemma_fails_on_them(rules: Path, seed: int) -> None:
    """And remain so when graphs are cut down, in which constants and values of loops are what they were."""
    rules.write_text(DECLARED + CARELESS)
    found = check_rules([rules], pairs=2, seed=seed).unsound
    assert found
    for unsound in found:
        assert unsound.finding.draw == "infinite"
        assert "on inputs of which some elements are infinite" in unsound.listing()
        assert "a_number" in unsound.listing()


def test_a_lemma_that_asks_for_numbers_is_sound(rules: Path) -> None:
    rules.write_text(DECLARED + ASKING)
    report = check_rules([rules], pairs=20)
    assert report.unsound == []
    assert report.kinds[KIND].derived > 0
