"""`rules check`: sound rules pass, an unsound one is found with a minimal graph, coverage is counted."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from scalify_dl.audit.fuzz import check_rules, random_pair
from scalify_dl.oracle import load_program, run_trial
from scalify_dl.pysouffle import rules_dir


def edited(tmp_path: Path, file: str, old: str, new: str) -> Path:
    """A copy of the rules with one text replaced; its `verify.dl`."""
    copy = tmp_path / "datalog"
    shutil.copytree(rules_dir(), copy)
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    return copy / "verify.dl"


def test_random_pairs_run() -> None:
    ran = sum(
        bool(run_trial(load_program(random_pair(random.Random(i)).tables()), i, "reals").distributed) for i in range(40)
    )
    assert ran >= 38


def test_the_shipped_rules_derive_nothing_false_of_random_pairs() -> None:
    report = check_rules(pairs=120, seconds=120, seed=70_000)
    assert report.unsound == []
    assert report.tuples > 500
    assert len(report.exercised) > 10


UNSOUND = [
    ("factors/elementwise.dl", 'linear_operand("negate", 0, 1, "sum").', 'linear_operand("abs", 0, 1, "sum").'),
    ("factors/elementwise.dl", 'commutative("add").', 'commutative("add"). commutative("subtract").'),
]


@pytest.mark.parametrize(("file", "old", "new"), UNSOUND)
def test_an_unsound_lemma_is_found_with_a_small_graph(tmp_path: Path, file: str, old: str, new: str) -> None:
    report = check_rules(main=edited(tmp_path, file, old, new), pairs=1500, seconds=90, seed=70_000, stop=1)
    (found,) = report.unsound
    assert len(found.tables["op"]) <= 8
    assert "derived, but false" in found.listing()
    assert found.rules


def test_a_pair_is_the_same_for_the_same_seed() -> None:
    assert random_pair(random.Random(7)).tables() == random_pair(random.Random(7)).tables()
