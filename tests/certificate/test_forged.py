"""What a forger may try: each of these was accepted once, or made the checker stumble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.audit.forge import forge
from scalify_dl.audit.forge.small import Small, Tables
from scalify_dl.certificate.check import Checker, _Replay
from scalify_dl.certificate.files import CertificateError, table_hash
from scalify_dl.certificate.functors import FUNCTORS
from scalify_dl.certificate.plans import Functions, Rows, instance
from scalify_dl.certificate.terms import RuleError
from scalify_dl.facts.files import load
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import rule_files
from scalify_dl.pysouffle import rules_dir

from .test_certificate import FACTS, certified, lines_of, rewritten


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    rules = Small()
    yield rules
    rules.close()


LEAST: Tables = {
    "op": [("d1", "dist", "least"), ("t1", "base", "least"), ("d2", "dist", "add"), ("t2", "base", "add")],
    "arg": [("d1", 0, "d0"), ("t1", 0, "t0"), ("d2", 0, "d1"), ("d2", 1, "d1"), ("t2", 0, "t1"), ("t2", 1, "t1")],
    "given": [("d0", "t0", 7)],
    "weight": [("d1", 2), ("t1", 2), ("t1", 3)],
    "bound": [],
    "rank_coord": [(0, "tp", 0)],
    "expect": [("d2", "t2", "")],
}


def proof(small: Small, tables: Tables) -> tuple[dict[str, Any], list[Any]]:
    header, *lines = deepcopy(small.case(tables).lines)
    return header, lines


def stated(small: Small, tables: Tables) -> dict[str, str]:
    return {name: table_hash(tables.get(r, ())) for r, name in small.checker.structure.deciding.items()}


def test_a_step_may_not_bind_what_an_aggregate_has_for_itself(small: Small) -> None:
    """`n = min w : { weight(p, w) }` with w bound to 2 is 2, whatever else weighs less."""
    header, lines = proof(small, LEAST)
    false = LEAST | {"weight": [("d1", 2), ("t1", 2), ("t1", 1)]}
    assert not small.case(false).outputs
    (number,) = [n for n, clause in enumerate(header["clauses"]) if "lightest" in clause[3]]
    header["clauses"][number][4].append("w'")
    two = [v for line in lines if isinstance(line, dict) for v in line["values"]].index(2)
    for line in lines:
        if isinstance(line, list) and len(line) == 3 and line[0] == number:
            line[2].append(two)
    header["facts"] = stated(small, false)
    with pytest.raises(CertificateError, match="no row of holds follows"):
        small.checker.accept([header, *lines], false)


def test_only_variables_of_the_clause_itself_are_bound(small: Small) -> None:
    from scalify_dl.certificate.closed import Closed

    (clause,) = [c for c in small.rules.clauses if "lightest ( o , n ) , n = min" in c.text]
    functions = Functions(Closed(small.rules, small.checker.structure, {}, {}, {}))
    assert not instance(functions, clause, ["o", "p", "l", "n", "w'"], ())
    assert instance(functions, clause, ["o", "p", "l", "n"], ())


@pytest.mark.parametrize("why", ["given", "precision"])
def test_an_assumption_cannot_be_hidden(small: Small, why: str) -> None:
    """By leaving out what leads to it, and it from the list."""
    header, lines = proof(small, LEAST)
    kept = [row for row in header["assumptions"] if row[2] != why]
    assert kept != header["assumptions"]
    assert "loud" not in {clause[0] for clause in header["clauses"]}  # the rules' list needs no step to be shown
    assert small.checker.accept([header, *lines], LEAST).assumptions
    with pytest.raises(CertificateError, match="assumptions are not those"):
        small.checker.accept([{**header, "assumptions": kept}, *lines], LEAST)


ASIDE: Tables = LEAST | {
    "op": [
        *LEAST["op"],
        ("d3", "dist", "draw"),
        ("t3", "base", "draw"),
        ("d4", "dist", "read"),
        ("t4", "base", "read"),
    ],
    "arg": [*LEAST["arg"], ("d3", 0, "d0"), ("t3", 0, "t0"), ("d4", 0, "d0"), ("t4", 0, "t0")],
    "weight": [*LEAST["weight"], ("d4", 1), ("t4", 1)],
    "bound": [("d4", 3), ("t4", 9)],
}
"""A draw and a claim of arithmetic on which no output rests."""


@pytest.mark.parametrize(
    ("why", "message"), [("random", "a choice of pair is left out"), ("claim", "a claim of arith")]
)
def test_an_assumption_cannot_be_hidden_with_what_it_is_about(small: Small, why: str, message: str) -> None:
    """A proof without the choice, or the claim, is a smaller proof, with fewer assumptions than the rules list."""
    header, lines = proof(small, ASIDE)
    assert {"random", "claim"} <= {row[2] for row in header["assumptions"]}
    assert small.checker.accept([header, *lines], ASIDE).assumptions
    header["assumptions"] = [row for row in header["assumptions"] if row[2] != why]
    kept = [line for line in lines if why != "claim" or not (isinstance(line, dict) and "decide" in line)]
    if why == "random":
        header["choices"] = {"pair": []}
        drawn = {n for n, clause in enumerate(header["clauses"]) if clause[0] == "pair"}
        kept = [line for line in lines if not (isinstance(line, list) and len(line) == 3 and line[0] in drawn)]
    with pytest.raises(CertificateError, match=message):
        small.checker.accept([header, *_renumbered(lines, kept)], ASIDE)


def _renumbered(lines: list[Any], kept: list[Any]) -> list[Any]:
    """Lines of which some are gone, with premises that are where they are now."""
    place: dict[int, int] = {}
    steps = [line for line in lines if not (isinstance(line, dict) and "values" in line)]
    for n, line in enumerate(steps):
        if any(line is other for other in kept):
            place[n] = len(place)
    return [
        [line[0], [place[p] for p in line[1]], line[2]] if isinstance(line, list) and len(line) == 3 else line
        for line in kept
    ]


def test_a_row_is_shown_only_if_it_follows(small: Small) -> None:
    """However it was shown: what is concluded from is what the checker computes itself."""
    header, lines = proof(small, LEAST)
    other = LEAST | {"given": [("d0", "t0", 2)]}
    header["facts"] = stated(small, other)
    with pytest.raises(CertificateError):
        small.checker.accept([header, *lines], other)


MALFORMED: list[dict[str, Any]] = [
    {"clauses": [["holds", "small.dl", 1, "x", [[]]]]},
    {"clauses": [["holds", "small.dl", 1, "x", [{}]]]},
    {"clauses": [["holds", "small.dl", 1, "x", [None]]]},
    {"choices": {"pair": [["d0"]]}},
    {"choices": {"pair": [[]]}},
    {"choices": {"pair": [["d0", "t0", "x"]]}},
    {"choices": {"pair": [[["d0"], "t0"]]}},
    {"choices": {"pair": "xy"}},
    {"order": {"a": True}},
    {"order": []},
    {"outputs": [[[], [], []]]},
    {"outputs": {}},
    {"assumptions": {"a": 1}},
    {"facts": []},
    {"rules": None},
]


@pytest.mark.parametrize("edit", MALFORMED)
def test_a_malformed_header_is_rejected_in_words(small: Small, edit: dict[str, Any]) -> None:
    header, lines = proof(small, LEAST)
    with pytest.raises(CertificateError):
        small.checker.accept([header | edit, *lines], LEAST)


def test_steps_of_clauses_whose_names_do_not_do_are_rejected(small: Small) -> None:
    header, lines = proof(small, LEAST)
    for names in ([], ["d", "d"], ["zz"], ["d'"]):
        for at in range(len(header["clauses"])):
            edited = deepcopy(header)
            if edited["clauses"][at][4] == names:
                continue
            edited["clauses"][at][4] = names
            with pytest.raises(CertificateError):
                small.checker.accept([edited, *lines], LEAST)


# ---- rules of somebody's own


def test_a_rules_file_named_like_a_shipped_one_has_a_name_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "verify.dl"
    own.write_text('commutative("my-op").\n')
    again = tmp_path / "more" / "verify.dl"
    again.parent.mkdir()
    again.write_text('commutative("another-op").\n')
    one = Checker(rule_files([own, again]), rules_dir())
    assert len(one.hashes) == len(one.rules.files)
    own.write_text('elementwise("my-op").\n')
    assert Checker(rule_files([own, again]), rules_dir()).hashes != one.hashes


def test_rules_of_somebodys_own_are_an_assumption_of_the_certificate(tmp_path: Path) -> None:
    own = tmp_path / "own.dl"
    own.write_text('commutative("my-op").\n')
    facts = load(FACTS)
    path = certified(facts, tmp_path / "c.gz", Options(rules=(own,), refute=False))
    found = Checker(rule_files([own]), rules_dir()).replay(path, facts)
    assert [(name, why) for name, _, why in found.assumptions if why == "rules"] == [("own.dl", "rules")]
    header, *lines = lines_of(path)
    header["assumptions"] = [row for row in header["assumptions"] if row[2] != "rules"]
    with pytest.raises(CertificateError, match="assumptions"):
        Checker(rule_files([own]), rules_dir()).replay(rewritten(path, [header, *lines]), facts)


@pytest.mark.parametrize(
    "text",
    ["#define f(x) x\n", ".decl p(x:number", ".decl p(x:number)\np(", ".type", "p :- .", ".input p(", "$", "/*", '"'],
)
def test_rules_that_cannot_be_read_are_refused_in_words(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.dl"
    file.write_text(text)
    with pytest.raises(CertificateError):
        Checker([file], tmp_path)


# ---- facts


def test_what_is_hashed_is_what_was_read(tmp_path: Path) -> None:
    """The files may change, or say the same otherwise; the rows in memory are what the certificate is about."""
    folder = tmp_path / "facts"
    folder.mkdir()
    for file in FACTS.glob("*.facts"):
        (folder / file.name).write_text(file.read_text().removesuffix("\n"))
    facts = load(folder)
    path = certified(facts, tmp_path / "c.gz")
    shard = (folder / "shard.facts").read_text()
    (folder / "shard.facts").write_text(shard.replace("tp=1:8x2", "tp=r2"))
    assert Checker(rule_files(), rules_dir()).replay(path, facts).outputs
    with pytest.raises(CertificateError, match=r"other facts: shard\.facts"):
        Checker(rule_files(), rules_dir()).replay(path, load(folder, validate=False))


def test_functors_are_those_of_the_engine_on_every_text() -> None:
    assert FUNCTORS["strlen"]("ä") == 2
    assert FUNCTORS["substr"]("abc", -1, 2) == ""
    assert FUNCTORS["substr"]("abc", 1, -1) == "bc"
    assert FUNCTORS["substr"]("äb", 2, 1) == "b"
    for text in ("1_0", " 1", "１", "", "0x10", "+1"):
        with pytest.raises(RuleError):
            FUNCTORS["to_number"](text)


# ---- the forger


def test_no_forgery_is_accepted() -> None:
    """A short campaign; `benchmarks/forge.py` runs long ones."""
    campaign = forge(1500, seed=7)
    assert campaign.stumbles == []
    assert campaign.accepted == []
    assert campaign.harmless < campaign.made / 10
    assert len(campaign.refused) > 20


def test_the_forger_finds_a_checker_that_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes any list of assumptions."""
    concluded = _Replay.concluded

    def believing(replay: _Replay, relation: str) -> Rows:
        listed = replay.header.assumptions
        if relation == "assumption" and isinstance(listed, list):
            return dict.fromkeys(map(tuple, listed))
        return concluded(replay, relation)

    monkeypatch.setattr(_Replay, "concluded", believing)
    assert forge(1500, seed=7).accepted


def test_forgeries_are_json(small: Small) -> None:
    assert all(json.loads(json.dumps(line)) == line for line in small.case(LEAST).lines)
