"""Certificates of plans state the premises of the fold, and the checker tests them on the plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalify_dl import cli
from scalify_dl.certificate.files import read_lines, write_lines
from scalify_dl.certificate.premises import KEY
from scalify_dl.plans.certificate import said
from scalify_dl.plans.prepare import prepare

from .small import write_small
from .tables import Edited


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["dlverify", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A plan, and its certificate."""
    plan, certificate = write_small(tmp_path / "plan"), tmp_path / "certificate"
    assert status(monkeypatch, "plan", plan, "--certificate", certificate) == 0
    return plan, certificate


def test_the_premises_are_tested_and_shown(
    certified: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, certificate = certified
    capsys.readouterr()
    assert status(monkeypatch, "check", certificate, plan, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["premises"]) == ["L0", "L1", "L3", "L4", "L6"]
    assert {premise["told"] for premise in found["premises"].values()} == {0}
    assert len(found["outputs"]) == 4


def test_a_certificate_is_of_one_plan(
    certified: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, certificate = certified
    assert status(monkeypatch, "check", certificate, write_small(tmp_path / "other", mbs=1)) == 3
    assert "other tables of a plan: p_" in capsys.readouterr().err


def early(t: Edited) -> None:
    """A reducer runs before the last backward pass."""
    op = t.ops(rank=0, kind="reducer")[0]
    t.change("p_op", op, 4, "-5")


def not_added(t: Edited) -> None:
    for op in t.ops(rank=2, kind="reducer"):
        t.change("p_in", op, 2, lambda name: name.rsplit(".v", 1)[0] + ".v1")


def not_reduced(t: Edited) -> None:
    for op in t.ops(rank=2, kind="reducer") + t.ops(rank=6, kind="reducer"):
        t.members(op, [2 if ".2." in op else 6])


def received_otherwise(t: Edited) -> None:
    """A message without partner."""
    t.drop(t.ops(rank=2, mb=0, cid=6))


@pytest.mark.parametrize("edit", [early, not_added, not_reduced, received_otherwise])
@pytest.mark.parametrize("restated", [False, True], ids=["as it was", "with premises restated"])
def test_no_certificate_is_accepted_for_a_plan_that_breaks_a_premise(
    certified: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], edit: Callable[[Edited], None], restated: bool,
) -> None:  # fmt: skip
    """Whoever forges a certificate knows the hashes, and what the rules tell of the wrong plan."""
    plan, certificate = certified
    tables = Edited(plan)
    edit(tables)
    wrong = tables.write(tmp_path / "wrong")
    new = said(prepare(wrong))
    lines: list[Any] = list(read_lines(certificate))
    lines[0][KEY] |= new if restated else {"tables": new["tables"]}
    write_lines(tmp_path / "forged", lines)
    assert status(monkeypatch, "check", tmp_path / "forged", wrong) == 3
    assert "rejected" in capsys.readouterr().err
