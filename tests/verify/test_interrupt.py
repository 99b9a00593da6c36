"""Ctrl-C while the rules run: a report that says so, where one was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalify_dl.commands.progress import progress
from scalify_dl.facts.files import load
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import INTERRUPTED, analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.pysouffle import Program
from scalify_dl.report.conclude import conclude

FACTS = Path(__file__).parents[2] / "facts" / "row_parallel_linear"


def interrupt(self: Program, **limits: Any) -> None:
    raise KeyboardInterrupt


def test_interrupted_rules_leave_a_report_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "run", interrupt)
    report = conclude(analyse(load(FACTS), Options(), interruptible=True), pytest.fail)
    assert report.verdict is Verdict.UNKNOWN
    assert report.notes == [INTERRUPTED]
    assert [o.reason for o in report.outputs] == [INTERRUPTED]


def test_elsewhere_an_interrupt_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        analyse(load(FACTS), Options())


def test_an_interrupt_says_what_it_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with progress("reading") as say:
            say("writing")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert capsys.readouterr().err == "dlverify: interrupted while writing\n"
