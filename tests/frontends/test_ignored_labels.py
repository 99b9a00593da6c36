"""Labels of which one value is ignored, by a captured run that had such labels: they are that value or a class."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.ir.graph import Tensor
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Pair, Program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude

ROWS, CLASSES, DIM = 6, 16, 3
Told = Callable[[Program, Tensor], Tensor]


def not_ignored(p: Program, labels: Tensor) -> Tensor:
    return p.compare(labels, -100, direction="NE")


def mean(p: Program, picked: Tensor, valid: Tensor) -> None:
    """The mean of what is not ignored."""
    kept = p.select(p.broadcast(valid, (ROWS, DIM), [0]), picked, p.full(0.0, (ROWS, DIM)))
    p.output(p.divide(p.reduce(p.reduce(kept, 1), 0), p.reduce(p.convert(valid, "f32"), 0)))


def looked_up(told: Told, seen: tuple[int, int] | None = (-100, CLASSES)) -> Pair:
    """Rows of a table at labels, averaged where these are not ignored; each rank has half of the table. `told` says
    which are not ignored on the ranks."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    table, labels = b.input("table", (CLASSES, DIM)), b.input("labels", (ROWS,), "s64")
    b.graph.inputs[-1].seen = seen
    valid = not_ignored(b, labels)
    mean(b, b.embedding(table, b.select(valid, labels, b.full(0, (ROWS,), "s64"))), valid)
    table, labels = d.shard("table", {0: "tp"}), d.shard("labels")
    valid = told(d, labels)
    safe = d.select(valid, labels, d.full(0, (ROWS,), "s64"))
    half = CLASSES // 2
    own = d.subtract(safe, d.broadcast(d.rank_constant({0: 0, 1: half}, "s64"), (ROWS,), []))
    here = getattr(d, "and")(d.compare(own, 0, direction="GE"), d.compare(own, half, direction="LT"))
    read = d.embedding(table, d.select(here, own, d.full(0, (ROWS,), "s64")))
    read = d.select(d.broadcast(here, (ROWS, DIM), [0]), read, d.full(0.0, (ROWS, DIM)))
    mean(d, d.all_reduce(read, "tp"), valid)
    return pair


def padded(number: int) -> Told:
    """Compared with something else behind them."""

    def told(p: Program, labels: Tensor) -> Tensor:
        longer = p.concatenate([labels, p.full(number, (2,), "s64")], 0)
        return p.slice(p.compare(longer, -100, direction="NE"), 0, 0, ROWS)

    return told


RIGHT: dict[str, Told] = {
    "the same number": not_ignored,
    "below zero": lambda p, x: p.compare(x, 0, direction="GE"),
    "equal, and not": lambda p, x: getattr(p, "not")(p.compare(x, -100, direction="EQ")),
    "beside padding": padded(-100),
}
WRONG: dict[str, Told] = {
    "another number": lambda p, x: p.compare(x, -1, direction="NE"),
    "nothing is ignored": lambda p, x: p.compare(x, -101, direction="NE"),
    "the first class, too": lambda p, x: p.compare(x, 0, direction="GT"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_ignored_label_and_classes_are_a_range(name: str) -> None:
    facts = looked_up(RIGHT[name]).facts()
    assert {row[1:] for row in facts["range"]} == {(-100, CLASSES, "ignored")}
    found = conclude(analyse(facts, Options()))
    assert found.verdict == "PROVED"
    texts = [str(a) for a in found.assumptions if a.why == "ignored"]
    assert texts
    assert all(f"values are -100, or at least 0 and below {CLASSES}" in text for text in texts)
    tables = facts.tables
    assert audit(tables, derive(tables).claims, trials=3).false == []


@pytest.mark.parametrize("name", WRONG)
def test_what_ignores_others_is_refuted_at_labels_that_there_are(name: str) -> None:
    facts = looked_up(WRONG[name]).facts()
    assert conclude(analyse(facts, Options())).verdict == "REFUTED"
    assert find_counterexample(load_program(facts.tables)).best is not None


def test_comparisons_of_other_values_stay() -> None:
    """What is beside the labels, or made of them, may be negative otherwise."""
    for told in (padded(-7), lambda p, x: p.compare(p.add(x, 0), -100, direction="NE")):
        facts = looked_up(told).facts()
        asked = [row for row in facts["attr_symbol"] if row[1] == "direction" and row[3] == "NE"]
        assert len(asked) == 1


@pytest.mark.parametrize("seen", [None, (-100, CLASSES + 1), (-7, CLASSES)])
def test_there_is_none_without_a_run_that_had_such_labels(seen: tuple[int, int] | None) -> None:
    assert looked_up(not_ignored, seen).facts()["range"] == []
