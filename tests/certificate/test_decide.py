"""Claims of arithmetic in certificates: the checker decides them by its own means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.certificate import decide as module
from scalify_dl.certificate.decide import Decider
from scalify_dl.certificate.files import CertificateError
from scalify_dl.certificate.terms import Value, cell
from scalify_dl.facts import files
from scalify_dl.obligations import Discharger
from scalify_dl.obligations.enumerate import refute
from scalify_dl.obligations.formula import Mesh, canonical
from scalify_dl.prove.certificate import write
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.pysouffle.values import Branch
from scalify_dl.report.conclude import conclude

from ..obligations.test_discharge import RELATIONS, X, const, dealt_in_turn, op, rank, relation
from .test_certificate import lines_of, replay, rewritten


class Tables:
    """The ranks of a 2 x 2 mesh."""

    def rows(self, relation: str) -> set[Any]:
        coordinates = {(r, "tp", r) for r in range(4)}
        return coordinates if relation == "rank_coord" else set(RELATIONS[relation])

    def index(self, relation: str, positions: tuple[int, ...]) -> dict[Any, list[Any]]:
        raise NotImplementedError

    def fitting(self, relation: str, known: list[int]) -> float:
        raise NotImplementedError

    def order(self, text: str) -> int:
        raise NotImplementedError


def own(value: Any, seen: dict[int, Value]) -> Value:
    """A value of the engine as the checker has it."""
    if not isinstance(value, tuple):
        return value  # type: ignore[no-any-return]
    if id(value) not in seen:
        seen[id(value)] = cell(tuple([own(item, seen) for item in value]))
    return seen[id(value)]


def decided(term: Any, lo: int, hi: int) -> bool:
    return Decider(Tables()).decide(own(term, {}), lo, hi)


arithmetic = st.sampled_from(
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "remainder",
        "floor-divide",
        "maximum",
        "minimum",
        "and",
        "or",
        "xor",
        "EQ",
    ]
)
comparisons = st.sampled_from(["NE", "LT", "LE", "GT", "GE"])
leaves = st.one_of(
    st.just(X),
    st.integers(-9, 9).map(const),
    st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(lambda w: rank(*w)),
    st.sampled_from(["f", "g"]).map(lambda f: Branch("Table", (f,))),
)
terms = st.recursive(
    leaves,
    lambda t: st.one_of(
        st.builds(op, arithmetic, t, t),
        st.builds(op, comparisons, t, t),
        st.builds(op, st.sampled_from(["negate", "not"]), t),
        st.builds(lambda c, a, b: Branch("Choice", (c, a, b)), t, t, t),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(terms, st.integers(-12, 4), st.integers(0, 12))
def test_the_checker_agrees_with_the_obligations(term: Any, lo: int, width: int) -> None:
    """Two readings of the terms, one of them with numpy; and Z3 on the checker's own translation."""
    formula, _ = canonical(term, lo, lo + width, Mesh.of(relation))
    expected = refute(formula) is None
    assert decided(term, lo, lo + width) == expected


@settings(max_examples=40, deadline=None)
@given(terms, st.integers(-12, 4), st.integers(0, 12))
def test_z3_agrees_with_trying(term: Any, lo: int, width: int) -> None:
    tried = decided(term, lo, lo + width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", 0)
        patch.setattr(module, "TIMEOUT_MS", 2000)
        solved = decided(term, lo, lo + width)
    assert solved == tried or (tried and not solved)  # what Z3 does not decide is not accepted


def test_without_bounds_a_claim_is_for_all_integers() -> None:
    no = module.UNBOUNDED
    whole = op(
        "EQ", op("add", op("multiply", op("floor-divide", X, const(4)), const(4)), op("remainder", X, const(4))), X
    )
    assert not decided(whole, -no, no)  # of negative numbers the remainder is negative
    assert decided(whole, 0, no)
    assert not decided(op("LT", X, const(no)), 0, no)
    assert decided(op("LT", X, const(no)), 0, no - 1)


def test_an_empty_range_proves_nothing() -> None:
    assert not decided(const(1), 3, 2)


def test_shared_terms_take_no_time() -> None:
    term = X
    for _ in range(200):
        term = op("maximum", term, term)
    assert decided(op("EQ", term, X), 0, 5)


@pytest.mark.parametrize("enumerated", [True, False])
def test_a_proof_that_rests_on_a_decided_claim_is_accepted(
    enumerated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = dealt_in_turn()
    analysis = analyse(facts, Options(), Discharger())
    report = conclude(analysis)
    assert report.verdict is Verdict.PROVED
    files.write(facts, tmp_path / "facts")
    path = tmp_path / "proof.jsonl.gz"
    write(analysis, report, path)
    claims = [line for line in lines_of(path) if isinstance(line, dict) and "decide" in line]
    assert len(claims) == 1
    if not enumerated:
        monkeypatch.setattr(module, "MOST", 0)
    assert replay(path, tmp_path / "facts").outputs

    # the same claim for more values than it holds for
    lines = lines_of(path)
    at = lines.index(claims[0])
    for bounds in (
        {"decide": [claims[0]["decide"][0], claims[0]["decide"][2], claims[0]["decide"][1]]},
        {"decide": [0]},
    ):
        with pytest.raises(CertificateError, match=rf"line {at + 2} "):
            replay(rewritten(path, [*lines[:at], bounds, *lines[at + 1 :]]), tmp_path / "facts")


def test_a_claim_that_is_false_or_not_decided_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver says that everything holds; the checker does not believe it."""
    facts = dealt_in_turn(ranks_off=1)
    analysis = analyse(facts, Options(refute=False), lambda obligations, relation: (obligations, []))
    report = conclude(analysis)
    assert report.verdict is Verdict.PROVED
    files.write(facts, tmp_path / "facts")
    path = tmp_path / "proof.jsonl.gz"
    write(analysis, report, path)
    with pytest.raises(CertificateError, match="arithmetic"):
        replay(path, tmp_path / "facts")
