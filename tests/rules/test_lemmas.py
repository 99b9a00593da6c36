"""Lemmas: stable ids, headers that say why, and the commands that print them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from scalify_dl.audit.fuzz.generate import STEPS
from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.terms import atoms
from scalify_dl.cli import app
from scalify_dl.errors import InputError
from scalify_dl.lemmas import (
    FIELDS,
    JUDGEMENT,
    conditions,
    find_lemma,
    lemma_at,
    lemmas,
    lemmas_of,
    random_steps,
    relations,
    rule_name,
    says_whole,
)
from scalify_dl.pysouffle import rules_dir

HEADER = """\
.decl helper(x:number)
// Lemma sum-of-two
// Statement: what two parts add up to,
// is the whole.
// Conditions: two parts, or it is another sum.
// Why sound: addition.
// Example: 1 + 2 = 3.
// Wrong twin: three parts.
// @whole
//? x != y: a part is none of itself
holds(x, y) :- helper(x), helper(y),
    x != y.
holds(x, x) :- helper(x).
"""


def test_every_shipped_rule_for_the_judgement_belongs_to_a_lemma_that_says_why() -> None:
    places = {
        (Path(c.file), c.line) for c in read_rules([rules_dir() / "verify.dl"]).clauses if c.head.relation == JUDGEMENT
    }
    assert len(places) > 60
    homeless = [f"{file}:{line}" for file, line in sorted(places) if lemma_at(file, line) is None]
    assert homeless == []
    found = lemmas(rules_dir())
    assert [name for name, n in Counter(x.id for x in found).items() if n > 1] == []
    assert [(x.id, field) for x in found for field in FIELDS if not x.fields.get(field)] == []
    assert [x.id for x in found if not x.rules] == []


def test_what_a_lemma_asks_is_said() -> None:
    """Beside or above the declaration of each relation in its rules: `dlverify rules show` prints it."""
    asked = {
        (x.name, str(x.file), x.line): x.says for lemma in lemmas(rules_dir()) for x in conditions(lemma, rules_dir())
    }
    assert len(asked) > 100
    unsaid = [p for p, says in asked.items() if len(says.split()) < 3 or says.startswith(("…", "(", "Example"))]
    assert unsaid == []


def test_what_many_files_read_is_said() -> None:
    rules, readers = read_rules([rules_dir() / "verify.dl"]), defaultdict(set)
    for clause in rules.clauses:
        for atom in atoms(clause.body):
            readers[atom.relation].add(clause.file)
    known = relations(rules_dir())
    often = [known[name] for name, files in readers.items() if len(files) >= 5]
    assert [(x.name, str(x.file), x.line) for x in often if len(x.says.split()) < 2] == []


def test_what_a_lemma_asks_is_what_its_program_declares() -> None:
    """Other programs have relations of the same names."""
    ours = {Path(file) for file in read_rules([rules_dir() / "verify.dl"]).declared.values()}
    asked = {x for lemma in lemmas(rules_dir()) for x in conditions(lemma, rules_dir())}
    assert [(x.name, str(x.file)) for x in asked if x.file not in ours] == []


def test_random_steps_of_a_file_exist_and_every_step_is_of_some_file() -> None:
    named = {file: random_steps(file) for file in rules_dir().rglob("*.dl")}
    assert [(file.name, x) for file, steps in named.items() for x in steps if x not in STEPS] == []
    assert [file.name for file, steps in named.items() if len({*steps}) < len(steps)] == []
    assert {*STEPS} - {x for steps in named.values() for x in steps} == set()


def test_a_header_is_read(tmp_path: Path) -> None:
    file = tmp_path / "own.dl"
    file.write_text(HEADER)
    (lemma,) = lemmas_of(file)
    assert (lemma.id, lemma.line, [line for line, _ in lemma.rules]) == ("sum-of-two", 2, [11, 13])
    assert lemma.statement == "what two parts add up to, is the whole."
    assert lemma.fields["Wrong twin"] == "three parts."
    assert lemma.rules[0][1].endswith("x != y.")
    assert (rule_name(str(file), 11), rule_name(str(file), 13)) == ("sum-of-two/1", "sum-of-two/2")
    assert says_whole(str(file), 13)


def test_a_rule_without_a_header_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "own.dl"
    file.write_text("// @whole\nholds(x, x) :- x = 1.\nholds(x, x) :- x = 2.\n")
    assert rule_name(str(file), 2) == "own.dl:2"
    assert says_whole(str(file), 2)
    assert not says_whole(str(file), 3)


def test_the_lemmas_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    app(["rules", "list", "--json"], standalone_mode=False)
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == len(lemmas(rules_dir()))
    app(["rules", "show", listed[0]["id"]], standalone_mode=False)
    out = capsys.readouterr().out
    assert listed[0]["id"] in out
    assert "Why sound" in out


def test_an_unknown_lemma_is_named_with_the_nearest_ones() -> None:
    name = lemmas(rules_dir())[0].id
    with pytest.raises(InputError, match="no lemma") as error:
        find_lemma(rules_dir(), name + "s")
    assert name in str(error.value.hint)
