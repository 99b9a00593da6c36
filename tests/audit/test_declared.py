"""Opaque calls whose structure is declared: what rules derive of it is true of a random function that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair

RULES = """
opaque("custom:mix", "scales rows by weights and weighs their columns").
factor(o, 0, 0, 0) :- op(o, _, "custom:mix").
factor(o, 0, 1, 1) :- op(o, _, "custom:mix").
factor(o, 0, 2, 200) :- op(o, _, "custom:mix").
factor(o, 1, 0, 100) :- op(o, _, "custom:mix").
factor(o, 1, 1, 1) :- op(o, _, "custom:mix").
result_factor(o, 0, 0, 1) :- op(o, _, "custom:mix").
result_factor(o, 0, 1, 0) :- op(o, _, "custom:mix").
result_factor(o, 0, 2, 300) :- op(o, _, "custom:mix").
reduction(o, "sum") :- op(o, _, "custom:mix").
"""


def mixed(split: dict[int, str], weights: dict[int, str]) -> Pair:
    pair = Pair({"dp": 2, "tp": 2})
    (x, dx), (w, dw) = pair.input((4, 6, 3), split), pair.input((8, 6), weights)
    for g, v, u in ((pair.base, x, w), (pair.dist, dx, dw)):
        g.output(g.add("custom:mix", [v, u], [("f32", (v.shape[1], v.shape[0], 5))], name="mix").result)
    return pair


@pytest.mark.parametrize(
    ("split", "weights"),
    [({}, {}), ({0: "dp"}, {}), ({1: "tp"}, {1: "tp"}), ({0: "dp"}, {0: "tp"}), ({0: "dp", 1: "tp"}, {1: "tp"})],
)
def test_what_follows_from_the_structure_is_true(
    tmp_path: Path, split: dict[int, str], weights: dict[int, str]
) -> None:
    rules = tmp_path / "mix.dl"
    rules.write_text(RULES)
    tables = mixed(split, weights).tables()
    derived = derive(tables, [rules])
    mine = [row for row in derived.corr if row[0] == "mix"]
    assert mine
    assert audit(tables, mine, declared=derived.declared()).counts == {"true": len(mine)}
    assert audit(tables, mine).counts.keys() <= {"true", "undecided"}


def test_what_does_not_follow_is_false_and_no_longer_undecided(tmp_path: Path) -> None:
    rules = tmp_path / "mix.dl"
    rules.write_text(RULES)
    tables = mixed({0: "dp"}, {0: "tp"}).tables()
    derived = derive(tables, [rules])
    wrong = ("mix", "", "base/mix", "", "[0:1x6][1:1x2][2:1x5]|dp=1:2x2|tp=r2")
    assert audit(tables, [wrong], declared=derived.declared()).counts == {"false": 1}
    assert audit(tables, [wrong]).counts == {"undecided": 1}


def test_a_structure_that_a_function_cannot_have_stays_invented(tmp_path: Path) -> None:
    rules = tmp_path / "mix.dl"
    rules.write_text(RULES + 'linear_operand("custom:mix", 0, 1, "max").\n')
    assert derive(mixed({}, {}).tables(), [rules]).declared() == {}
