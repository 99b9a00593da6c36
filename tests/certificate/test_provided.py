"""Certificates of proofs by assumptions that leave out what the programs provide for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.commands.check import check
from scalify_dl.facts import Facts
from scalify_dl.facts.files import write as write_facts

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
