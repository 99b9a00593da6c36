"""`rules check` on rules files of somebody's own, about kinds of ops that the shipped rules do not know."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from scalify_dl.audit.fuzz import check_rules, random_pair
from scalify_dl.audit.fuzz.kinds import named_kinds, read_kinds
from scalify_dl.audit.trials import TRIALS
from scalify_dl.commands.rules_check import rules_check
from scalify_dl.errors import InputError
from scalify_dl.oracle.meaning import MEANINGS
from scalify_dl.oracle.meaning.load import load_meanings

NORM = """
// every row along the last dim by itself
opaque("custom:norm", "normalises every row along its last dim by itself").
.decl row_norm(o:symbol)
row_norm(o) :- op(o, _, "custom:norm").
factor(o, 0, 0, 0) :- row_norm(o).
factor(o, 0, 1, {0}) :- row_norm(o).
factor(o, 1, 0, 0) :- row_norm(o).
result_factor(o, 0, 0, 0) :- row_norm(o).
result_factor(o, 0, 1, {1}) :- row_norm(o).
"""
RIGHT, WRONG = NORM.format(200, 300), NORM.format(1, 1)
MEANING = """
from scalify_dl.oracle.meaning import meaning

@meaning("custom:norm")
def norm(call, operands):
    x, w = operands
    return [(x - x.mean(1, keepdims=True)) * w[:, None]]
"""
COPY = """
opaque("custom:copy", "its operand").
holds(e, t, l) :- holds(d, t, l), node(o, "dist", "custom:copy"), arg(o, 0, d), out(o, 0, e).
"""


@pytest.fixture(autouse=True)
def own_meanings() -> Iterator[None]:
    before = dict(MEANINGS)
    yield
    MEANINGS.clear()
    MEANINGS.update(before)


def written(tmp_path: Path, rules: str, meaning: str = "") -> Path:
    """The rules in a file; the meaning is registered."""
    file = tmp_path / "own.dl"
    file.write_text(rules)
    if meaning:
        python = tmp_path / "own.py"
        python.write_text(meaning)
        load_meanings([python])
    return file


def test_kinds_are_read_from_the_text_without_comments() -> None:
    text = 'elementwise("my-op"). f(o) :- op(o, _, "custom:a"), attr_symbol(o, "mode", 0, "fast"), g("erf").'
    assert set(named_kinds(text)) == {"my-op", "custom:a", "erf"}


def test_calls_of_a_kind_have_the_operands_that_its_factors_say(tmp_path: Path) -> None:
    kinds = read_kinds([written(tmp_path, RIGHT)])
    assert kinds.named == ["custom:norm"]
    assert {tuple(map(len, s.operands)) for s in kinds.signatures["custom:norm"]} == {(2, 1)}
    assert kinds.cut("custom:norm")


@pytest.mark.parametrize("meaning", ["", MEANING])
def test_a_right_declaration_passes_and_is_exercised(tmp_path: Path, meaning: str) -> None:
    report = check_rules([written(tmp_path, RIGHT, meaning)], pairs=25)
    assert report.unsound == []
    assert report.kinds["custom:norm"].rich > 10
    assert report.kinds["custom:norm"].missing == ""


def test_a_declaration_that_the_meaning_has_not_is_unsound(tmp_path: Path) -> None:
    report = check_rules([written(tmp_path, WRONG, MEANING)], pairs=300, seconds=300, stop=1)
    (found,) = report.unsound
    assert "custom:norm" in found.listing()
    assert len(found.tables["op"]) <= 16


def test_a_lemma_that_does_not_follow_from_the_declaration_is_unsound(tmp_path: Path) -> None:
    claim = 'linear_operand("custom:norm", 0, 1, "sum").\n'  # but it says nothing about the second operand
    lemma = (
        'holds(e, u, l) :- holds(d, t, l), node(o, "dist", "custom:norm"), arg(o, 1, d), out(o, 0, e),'
        ' node(b, "base", "custom:norm"), arg(b, 1, t), out(b, 0, u).\n'
    )
    assert check_rules([written(tmp_path, RIGHT + claim)], pairs=25).unsound == []
    (found,) = check_rules([written(tmp_path, RIGHT + lemma)], pairs=300, seconds=300, stop=1).unsound
    assert any("own.dl" in place for place in found.rules)


def test_a_wrong_lemma_about_collectives_is_shown_by_the_collective_alone(tmp_path: Path) -> None:
    lemma = 'holds(e, t, l) :- holds(d, t, l), node(o, "dist", "all-reduce"), arg(o, 0, d), out(o, 0, e).\n'
    names = ("a partial sum over a sum of differences", "half on each of two ranks is no pending half")
    trials = {name: TRIALS[name] for name in names}
    report = check_rules([written(tmp_path, lemma)], trials=trials, pairs=0)
    assert [[kind for *_, kind in found.tables["op"]] for found in report.unsound] == [["all-reduce"]] * 2


@pytest.mark.parametrize(
    ("declaration", "right"),
    [
        ('elementwise("custom:f"). linear_operand("custom:f", 0, 1, "order").', True),
        ('elementwise("custom:f"). commutative("custom:f").', True),
        ('renaming("custom:f").', True),
        ('linear_operand("abs", 0, 1, "sum").', False),
        ('linear_operand("erf", 0, 1, "sum").', False),  # which no random step draws otherwise
    ],
)
def test_declarations_about_elementwise_kinds(tmp_path: Path, declaration: str, right: bool) -> None:
    report = check_rules([written(tmp_path, declaration)], pairs=12 if right else 300, seconds=300, stop=1)
    assert (not report.unsound) == right
    assert not right or all(use.missing == "" for use in report.kinds.values())


def test_a_lemma_about_a_call_with_a_meaning_alone_is_tried(tmp_path: Path) -> None:
    body = "from scalify_dl.oracle.meaning import meaning\nmeaning('custom:copy')(lambda call, xs: [{}])\n"
    report = check_rules([written(tmp_path, COPY, body.format("xs[0]"))], pairs=10)
    assert report.unsound == []
    assert report.kinds["custom:copy"].derived > 0
    report = check_rules([written(tmp_path, COPY, body.format("xs[0] * 2"))], pairs=20, stop=1)
    assert len(report.unsound) == 1


@pytest.mark.parametrize(
    ("rules", "reason"),
    [('opaque("custom:who", "knows").', "no call could be made up"), ('.decl f(x:symbol)\nf("a").', "")],
)
def test_what_cannot_be_tried_is_said_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: str, reason: str
) -> None:
    out = tmp_path / "report.json"
    assert rules_check([written(tmp_path, rules)], meanings=[], seconds=0.5, seed=0, out=out, as_json=False) == 3
    assert "NOT EXERCISED" in capsys.readouterr().out
    said = json.loads(out.read_text())
    assert [use["missing"] for use in said["kinds"].values()] == [reason] * bool(reason)
    assert bool(said["pairs"]) == bool(reason)  # where there is nothing to try, no time is spent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "registers no meaning"),
        ("import\n", "own.py:1"),
        ("\nraise KeyError('a')\n", "own.py:2"),
        ("from scalify_dl.oracle.meaning import meaning\nmeaning('add')(lambda c, x: x)\n", "of the vocabulary"),
    ],
)
def test_a_file_of_meanings_that_does_not_do_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        load_meanings([file])
    assert MEANINGS["add"].__module__.startswith("scalify_dl")


def test_own_kinds_are_drawn_however_many_trials_there_are(tmp_path: Path) -> None:
    trials = {f"trial {n}": partial(random_pair, random.Random(n)) for n in range(200)}
    report = check_rules([written(tmp_path, 'elementwise("custom:f").')], seconds=4, trials=trials)
    assert report.kinds["custom:f"].calls > 0


CHAIN = """
// Lemma there-and-back
// Statement: what was turned round twice is what it was.
opaque("custom:turn", "turns the order of its first dim").
holds(d, t, l) :-
    op(second, "dist", "custom:turn"), arg(second, 0, p), out(first, 0, p), op(first, "dist", "custom:turn"),
    arg(first, 0, x), out(second, 0, d), holds(x, t, l).
"""
TURN = """
from scalify_dl.oracle.meaning import meaning

@meaning("custom:turn")
def turn(call, operands):
    return [operands[0][::-1]]
"""


def test_a_lemma_about_calls_in_a_row_meets_them(tmp_path: Path) -> None:
    report = check_rules([written(tmp_path, CHAIN, TURN)], pairs=25)
    assert report.unsound == []
    assert report.kinds["custom:turn"].derived > 0


LINES = """
.decl my_sines(d:symbol, t:symbol, l:Layout)
my_sines(e, u, l) :-
    op(o, "dist", "sine"), operand(o, 0, d), holds(d, t, l), op(b, "base", "sine"), operand(b, 0, t),
    result(o, 0, e), result(b, 0, u).
my_sines(e, u, l) :-
    op(o, "dist", "cosine"), operand(o, 0, d), dim(d, 0, 1024), holds(d, t, l), op(b, "base", "sine"),
    operand(b, 0, t), result(o, 0, e), result(b, 0, u).
holds(d, t, l) :- my_sines(d, t, l), calm(l).
"""


@pytest.mark.parametrize("included", [False, True])
def test_a_line_that_no_pair_reaches_is_not_exercised_beside_one_that_is(
    tmp_path: Path, included: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cosine that is taken for a sine is false, of extents that are not drawn."""
    file = written(tmp_path, LINES)
    if included:
        file = file.rename(tmp_path / "more.dl")
        file = written(tmp_path, '#include "more.dl"\n')
    assert rules_check([file], meanings=[], seconds=3, seed=0, out=None, as_json=False) == 3
    said = capsys.readouterr().out
    assert said.count("derived nothing: my_sines(e, u, l) :- op(o, \"dist\", \"cosine\")") == 1
