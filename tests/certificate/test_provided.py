"""Certificates of proofs by assumptions that leave out what the programs provide for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError
from scalify_dl.certificate.formulas.claims import decide_claims
from scalify_dl.commands.check import check
from scalify_dl.facts import Facts
from scalify_dl.facts.files import write as write_facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.normal_forms import WORDS, Equalities, equalities

from ..algebra.programs import Make, number, scaled, two
from ..algebra.test_left_out import is_finite, is_not_a_number, told_by_one_rank
from .test_certificate import certified


@pytest.mark.parametrize(("made", "status"), [(is_finite, 0), (is_not_a_number, 3)])
def test_a_proof_that_assumes_away_what_a_program_asks_for_is_rejected(
    made: object, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever forges it leaves the numbers out."""
    facts = Facts({name: list(rows) for name, rows in told_by_one_rank(made).tables().items()})  # type: ignore[arg-type]
    write_facts(facts, tmp_path / "facts")
    monkeypatch.setattr("scalify_dl.report.conclude.left_out", lambda *_: set())
    proof = certified(facts, tmp_path / "proof.jsonl.gz")
    assert check(proof, [tmp_path / "facts"], (), as_json=False) == status
    assert ("there the sides differ" in capsys.readouterr().err) == (status == 3)


def pair_of(base: Make, dist: Make, dtype: str = "f32") -> Facts:
    pair = Pair({"tp": 2})
    x, shard = pair.input((4,), {0: "tp"}, dtype=dtype)
    pair.outputs(base(pair.base, x), dist(pair.dist, shard))
    return Facts({name: list(rows) for name, rows in pair.tables().items()})


def one(g: Graph, x: Tensor) -> Tensor:
    return two(g, "add", scaled(g, x, 0), number(g, 1, x))


def below_zero(g: Graph, x: Tensor) -> Tensor:
    return two(g, "subtract", number(g, -1, x), two(g, "multiply", x, x))


FORGED = {
    "one at zero, too": (one, lambda g, x: two(g, "divide", x, x)),
    "a logarithm of what is never above zero": (
        below_zero,
        lambda g, x: g.emit("exponential", [g.emit("log", [below_zero(g, x)])]),
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_conditions_that_somebody_chose_are_looked_at_though_no_program_asks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base, dist = FORGED[name]
    facts = pair_of(base, dist)
    write_facts(facts, tmp_path / "facts")
    claim = [(dist, base, "[0:1x2]|tp=0:2x2") for dist, base, _ in facts["expect"]]
    forged = [*((t, WORDS["finite"], "finite") for t in ("base/x0",)), *conditions(facts)]
    equal = Equalities(claim, forged, [], False)
    with monkeypatch.context() as patched:
        patched.setattr("scalify_dl.prove.pipeline.equalities", lambda *_, **__: equal)
        proof = certified(facts, tmp_path / "proof.jsonl.gz")
    assert check(proof, [tmp_path / "facts"], (), as_json=False) == 3
    assert "there the sides differ" in capsys.readouterr().err


def undone(g: Graph, x: Tensor) -> Tensor:
    return g.emit("log", [g.emit("exponential", [x])])


def wider(g: Graph, x: Tensor) -> Tensor:
    return g.emit("convert", [x], dtype="f32")


HIDDEN: dict[str, tuple[str, Make, Make]] = {
    "range": ("f32", lambda g, x: scaled(g, x, 1), undone),
    "types": (
        "bf16",
        lambda g, x: g.emit("sine", [wider(g, x)]),
        lambda g, x: wider(g, g.emit("sine", [x])),
    ),
}


def above_zero(g: Graph, x: Tensor) -> Tensor:
    return g.emit("compare", [x, number(g, 0, x)], direction="GT")


def thrice(g: Graph, x: Tensor) -> Tensor:
    square, less = two(g, "multiply", x, x), two(g, "subtract", x, number(g, 3, x))
    return two(g, "subtract", square, two(g, "multiply", x, less))


@pytest.mark.parametrize("dropped", [None, "types", "jumps"])
def test_what_formulas_hide_of_truths_is_what_is_listed_of_them(
    dropped: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One side rounds, in one type, and the other does not."""
    facts = pair_of(above_zero, lambda g, x: above_zero(g, thrice(g, x)))
    write_facts(facts, tmp_path / "facts")

    def silent(*arguments: object, **named: object) -> Equalities:
        found = equalities(*arguments, **named)  # type: ignore[arg-type]
        listed = {row[1] for row in found.needs if row[2] == "precision"}
        assert not found.proved or listed == {WORDS["types"], WORDS["jumps"]}
        return found._replace(needs=[row for row in found.needs if row[1] != WORDS.get(dropped or "")])

    monkeypatch.setattr("scalify_dl.prove.pipeline.equalities", silent)
    proof = certified(facts, tmp_path / "proof.jsonl.gz")
    assert check(proof, [tmp_path / "facts"], (), as_json=False) == (3 if dropped else 0)
    assert dropped is None or WORDS[dropped] in capsys.readouterr().err


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("what", HIDDEN)
def test_what_formulas_hide_is_listed(
    what: str, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dtype, base, dist = HIDDEN[what]
    facts = pair_of(base, dist, dtype)
    write_facts(facts, tmp_path / "facts")
    claim = [(dist, base, "[0:1x2]|tp=0:2x2") for dist, base, _ in facts["expect"]]
    listed = [("base/x0", WORDS["finite"], "finite")]
    listed += [(dist, WORDS[what], "precision") for dist, *_ in claim if said]
    equal = Equalities(claim, listed, [], False)
    with monkeypatch.context() as patched:
        patched.setattr("scalify_dl.prove.pipeline.equalities", lambda *_, **__: equal)
        proof = certified(facts, tmp_path / "proof.jsonl.gz")
    assert check(proof, [tmp_path / "facts"], (), as_json=False) == (0 if said else 3)
    assert (WORDS[what] in capsys.readouterr().err) != said


@pytest.mark.parametrize("what", HIDDEN)
@pytest.mark.parametrize("said", ["of each", "of the first", "of the second", "of another value", "in another word"])
def test_what_formulas_hide_is_listed_of_each_output(
    what: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not of another one, of no value, nor as something else."""
    dtype, base, dist = HIDDEN[what]
    pair = Pair({"tp": 2})
    for _ in range(2):
        x, shard = pair.input((4,), {0: "tp"}, dtype=dtype)
        pair.outputs(base(pair.base, x), dist(pair.dist, shard))
    facts = Facts({name: list(rows) for name, rows in pair.tables().items()})
    write_facts(facts, tmp_path / "facts")
    claim = [(dist, base, "[0:1x2]|tp=0:2x2") for dist, base, _ in facts["expect"]]
    (first, *_), (second, *_) = claim
    about = {"of the first": [first], "of the second": [second], "of another value": ["x0", "x1"]}
    why = "given" if said == "in another word" else "precision"
    listed = [(f"base/x{n}", WORDS["finite"], "finite") for n in range(2)]
    listed += [(value, WORDS[what], why) for value in about.get(said, [first, second])]
    equal = Equalities(claim, listed, [], False)
    with monkeypatch.context() as patched:
        patched.setattr("scalify_dl.prove.pipeline.equalities", lambda *_, **__: equal)
        proof = certified(facts, tmp_path / "proof.jsonl.gz")
    assert check(proof, [tmp_path / "facts"], (), as_json=False) == (0 if said == "of each" else 3)
    assert (WORDS[what] in capsys.readouterr().err) == (said != "of each")


def conditions(facts: Facts) -> list[tuple[str, str, str]]:
    """All that steps of these programs may need, of every value."""
    whys = ("nonzero", "positive", "nonnegative")
    return [(tensor, WORDS[why], why) for tensor, *_ in facts["tensor"] for why in whys]


def test_what_is_assumed_is_said_in_its_own_words(tmp_path: Path) -> None:
    facts = pair_of(lambda g, x: x, lambda g, x: two(g, "divide", two(g, "multiply", x, x), x))
    claims = [(dist, base, "[0:1x2]|tp=0:2x2") for dist, base, _ in facts["expect"]]
    endless = ("base/x0", WORDS["finite"], "finite")
    decide_claims(facts.tables, claims, [endless, ("x0", WORDS["nonzero"], "nonzero")])
    with pytest.raises(CertificateError, match="where it assumes"):
        decide_claims(facts.tables, claims, [endless, ("x0", WORDS["finite"], "nonzero")])
