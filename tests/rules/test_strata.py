"""Folders of rule files are strata: what is above is not read from below (docs/house.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.terms import RuleSet, atoms
from scalify_dl.pysouffle import rules_dir

STRATA = ("facts", "lib", "mesh", "ops", "graph", "correspond", "integers", "lemmas", "conclude")
"""Lowest first. A file reads relations declared in its own folder or a lower one."""
ALONE = ("lift", "plans", "schedule", "synthesis")
"""Folders that are programs of their own, `<folder>.dl`, with tables of their own."""
SHORTER = ("deadlock.dl",)
"""Programs of some files of such a folder."""
MAINS = ("mend.dl", "verify.dl", *(f"{name}.dl" for name in ALONE))
"""Programs: what a run derives, what would mend a wrong program (both read the facts), and those that stand alone."""
DEMANDS = ("want_", "use_")
"""Relations that ask for a function's value: asked for from wherever the function is used."""


def files() -> list[Path]:
    return sorted(rules_dir().rglob("*.dl"))


@cache
def shipped(main: str) -> RuleSet:
    return read_rules([rules_dir() / main])


@cache
def stratum(file: str | Path) -> int:
    return STRATA.index(Path(file).resolve().relative_to(rules_dir().resolve()).parts[0])


def open_relations() -> set[str]:
    """Relations that higher folders add to, as their declarations say."""
    found = re.compile(r"^\.decl (\w+)\b[^\n]*//\s*open\b", re.M)
    return {name for file in files() for name in found.findall(file.read_text(encoding="utf-8"))}


def trespasses(rules: RuleSet, openly: set[str]) -> Iterator[str]:
    for clause in rules.clauses:
        here, place = stratum(clause.file), f"{clause.file}:{clause.line}"
        for atom in atoms(clause.body):
            if stratum(rules.declared[atom.relation]) > here:
                yield f"{place} reads {atom.relation}, of a higher folder"
        head = clause.head.relation
        home = stratum(rules.declared[head])
        if home > here or (home < here and head not in openly and not head.startswith(DEMANDS)):
            yield f"{place} has a rule for {head}, which another folder declares and does not call open"


def test_a_file_reads_its_own_folder_and_lower_ones_and_adds_to_what_is_open() -> None:
    rules = shipped("verify.dl")
    assert list(trespasses(rules, open_relations())) == []


def test_a_trespass_is_seen() -> None:
    rules = shipped("verify.dl")
    assert any("has a rule for holds" in text for text in trespasses(rules, set()))


def included(file: Path) -> list[str]:
    return re.findall(r'#include "([^"]+)"', file.read_text(encoding="utf-8"))


def test_programs_and_lists_of_strata_alone_include_and_in_the_order_of_the_strata() -> None:
    """`verify.dl` includes the list of each stratum, which includes the files of that folder."""
    lists = [f"{name}.dl" for name in STRATA]
    assert included(rules_dir() / "verify.dl") == lists
    mending = included(rules_dir() / "mend.dl")
    levels = [STRATA.index(Path(name).parts[0]) for name in mending]
    assert levels == sorted(levels)
    alone = [name for folder in ALONE for name in included(rules_dir() / f"{folder}.dl")]
    assert all(Path(name).parts[0] in ALONE for name in alone)
    including = {str(file.relative_to(rules_dir())) for file in files() if included(file)}
    assert all(set(included(rules_dir() / name)) < set(alone) for name in SHORTER)
    assert including == {*MAINS, *SHORTER, *lists}
    listed = [(Path(name).parts[0], stratum) for stratum in STRATA for name in included(rules_dir() / f"{stratum}.dl")]
    assert all(folder == stratum for folder, stratum in listed)
    rules = {str(f.relative_to(rules_dir())) for f in files()} - including
    found = [name for file in [*lists, *MAINS[:1], *MAINS[2:]] for name in included(rules_dir() / file)]
    assert sorted(found) == sorted([*rules, "facts/schema.dl"])


def test_rule_files_fit_on_a_screen() -> None:
    for file in files():
        lines = file.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 200, file
        assert max(map(len, lines)) <= 120, file


def test_every_relation_is_filled_and_read() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in files())
    results = {name for line in re.findall(r"^\.output ([^\n(]+)", text, re.M) for name in re.findall(r"\w+", line)}
    idle: set[str] = set()
    for main in MAINS:
        rules = shipped(main)
        filled = {clause.head.relation for clause in rules.clauses} | rules.inputs.keys()
        read = {atom.relation for clause in rules.clauses for atom in atoms(clause.body)} | results
        assert set(rules.relations) - filled <= FILLED_BY_USERS, main
        idle |= set(rules.relations) - read - rules.inputs.keys() - {"reserved"}
    assert idle == READ_BY_PYTHON


READ_BY_PYTHON = {"failing_value", "open_to_users", "rewrite"}
FILLED_BY_USERS = {"rewrite"}
