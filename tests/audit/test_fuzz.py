"""`rules check`: sound rules pass, an unsound one is found with a minimal graph, coverage is counted."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.audit.check import Finding
from scalify_dl.audit.fuzz import Report, check_rules, random_pair
from scalify_dl.audit.fuzz.smallest import BY_OP, BY_TENSOR, Unsound, smallest
from scalify_dl.audit.trials import TRIALS
from scalify_dl.commands.rules_check import _by_fault
from scalify_dl.oracle import load_program, run_trial
from scalify_dl.oracle.meaning import Unsupported
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
    ran = 0
    for i in range(40):
        with suppress(Unsupported):  # a loop that never ends on the values drawn, an extreme of nothing
            ran += bool(run_trial(load_program(random_pair(random.Random(i)).tables()), i, "reals").distributed)
    assert ran >= 37


def test_the_shipped_rules_derive_nothing_false_of_random_pairs() -> None:
    report = check_rules(pairs=40, seconds=120, seed=70_000)
    assert report.unsound == []
    assert report.tuples > 500
    assert sum(count > 0 for count in report.coverage.rich.values()) > 15
    assert not any(report.coverage.rich[x] for x in report.coverage.lemmas if x.whole)


UNSOUND = [
    ("ops/factors/elementwise.dl", 'linear_operand("negate", 0, 1, "sum").', 'linear_operand("abs", 0, 1, "sum").'),
    ("ops/factors/elementwise.dl", 'commutative("add").', 'commutative("add"). commutative("subtract").'),
]


@pytest.mark.parametrize(("file", "old", "new"), UNSOUND)
def test_an_unsound_lemma_is_found_with_a_small_graph(tmp_path: Path, file: str, old: str, new: str) -> None:
    main = edited(tmp_path, file, old, new)
    report = check_rules(main=main, pairs=1500, seconds=90, seed=5, stop=4, prefer=("unary", "binary"))
    found = min(report.unsound, key=lambda unsound: len(unsound.tables["op"]))  # the first may need many ops
    assert len(found.tables["op"]) <= 8
    assert "derived, but false" in found.listing()
    assert found.rules


def test_values_of_which_nothing_is_derived_become_inputs() -> None:
    """A false result of a chain of calls, about none of which anything is derived."""
    x, w = ("x", "dist", "f32", 0), ("w", "dist", "f32", 0)
    chain = [f"c{n}" for n in range(9)]
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in (*BY_OP, *BY_TENSOR, "shard", "input", "output")}
    tables["tensor"] = [x, w, ("t", "base", "f32", 0), *((c, "dist", "f32", 0) for c in chain)]
    tables["input"] = [("dist", 0, "x"), ("base", 0, "t")]
    tables["op"] = [(f"op{c}", "dist", "custom:any") for c in chain]
    tables["result"] = [(f"op{c}", 0, c) for c in chain]
    tables["operand"] = [(f"op{c}", 0, before) for before, c in pairwise(["x", *chain])]
    false = Finding(("c8", "", "t", "", ""), "false", "")
    seen = ([false], lambda: ("own",))
    small = smallest("one", tables, seen, lambda tables: seen)
    assert [op for op, *_ in small.tables["op"]] == ["opc8"]
    assert ("dist", 0, "c7") in small.tables["input"]


def test_findings_of_the_same_lemmas_are_counted_under_the_smallest() -> None:
    def unsound(name: str, ops: int, *rules: str) -> Unsound:
        return Unsound(Finding(("d",), "false", ""), name, {"op": [("o", "dist", "add")] * ops}, rules)

    found = [unsound("big", 9, "a", "b"), unsound("small", 2, "b"), unsound("other", 5, "c")]
    found.append(unsound("more", 7, "b", "c"))
    assert [[u.name for u in group] for group in _by_fault(found)] == [["small", "more", "big"], ["other"]]


def test_a_pair_is_the_same_for_the_same_seed() -> None:
    assert random_pair(random.Random(7)).tables() == random_pair(random.Random(7)).tables()


def test_a_lemma_that_grants_something_trivial_is_not_well_exercised(tmp_path: Path) -> None:
    own = tmp_path / "own.dl"
    own.write_text('holds(d, t, l) :- holds(d, t, l), op(o, _, "sine"), result(o, 0, d).\n')
    report = check_rules([own], pairs=10, seed=70_000)
    assert "own.dl:1" in [x.name for x in report.coverage.missing()]


def test_a_run_that_is_interrupted_reports_what_was_done() -> None:
    def stop(report: Report) -> None:
        if report.pairs == 3:
            raise KeyboardInterrupt

    report = check_rules(pairs=10, progress=stop)
    assert (report.interrupted, report.pairs) == (True, 3)
    assert report.tuples > 0


def test_a_wrong_program_that_is_proved_is_shown(tmp_path: Path) -> None:
    main = edited(tmp_path, "correspond/constants.dl", ", !literal_hash(value, _)", "")
    trials = {name: build for name, build in TRIALS.items() if "constant" in name}
    report = check_rules(main=main, pairs=0, trials=trials)
    assert [found.finding.text for found in report.unsound] == ["all outputs of a wrong program are proved"]
