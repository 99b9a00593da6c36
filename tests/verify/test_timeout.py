"""`--timeout` ends whatever is being done, wherever it is."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.commands import run
from scalify_dl.deadline import OutOfTime, cpu_limit, until
from scalify_dl.facts.files import load
from scalify_dl.families.capture import Capture
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

FACTS = Path(__file__).parents[2] / "facts"
WRONG = FACTS / "megatron_mlp_wrong_group"


def endless(begun: float) -> None:
    while True:
        assert time.monotonic() - begun < 30


def test_a_deadline_ends_what_runs() -> None:
    begun = time.monotonic()
    with pytest.raises(OutOfTime), until(begun + 0.05):
        endless(begun)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_deadline_that_comes_in_a_callback_comes_again() -> None:
    begun = time.monotonic()

    class Dies:
        def __del__(self) -> None:
            endless(begun)  # what is raised here goes nowhere

    def runs() -> None:
        Dies()
        endless(begun)

    with pytest.raises(OutOfTime), until(begun + 0.05):
        runs()


def test_a_deadline_that_is_over_lets_nothing_begin() -> None:
    with pytest.raises(OutOfTime), until(time.monotonic() - 1):
        pytest.fail("began")


def test_a_deadline_ends_what_has_a_later_one_inside() -> None:
    begun = time.monotonic()

    def runs() -> None:
        for _ in range(2):  # an end that is taken for its own comes again
            with suppress(OutOfTime), until(time.monotonic() + 60):
                endless(begun)
        endless(begun)

    with pytest.raises(OutOfTime), until(begun + 0.05):
        runs()
    assert time.monotonic() - begun < 20


def test_a_limit_of_cpu_time_counts_only_what_runs_and_comes_again() -> None:
    ended = 0
    with cpu_limit(0.05):
        time.sleep(0.1)
        while ended < 2:
            try:
                while True:
                    pass
            except OutOfTime:
                ended += 1
    with cpu_limit(None):
        assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_timers_of_others_go_on() -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        with until(time.monotonic() + 100):
            assert signal.getitimer(signal.ITIMER_REAL)[0] <= 100
        assert 400 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_without_time_nothing_is_refuted() -> None:
    analysis = analyse(load(WRONG), Options(timeout=1000.0))
    analysis.deadline = time.monotonic()
    report = conclude(analysis)
    assert report.verdict == "UNKNOWN"
    assert report.frontier
    assert "the search for a counterexample was stopped (--timeout)" in report.notes


@pytest.mark.parametrize("program", ["pair", "facts"])
def test_time_is_over_while_programs_are_read(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = FACTS / "megatron_mlp"

    def slowly(*given: Any, **more: Any) -> Any:
        time.sleep(0.3)
        return load(right)

    monkeypatch.setattr(Capture, "load", slowly) if program == "pair" else monkeypatch.setattr(run, "load", slowly)
    options = Options(timeout=0.25)
    report = run.conclude_pair(Capture(), options) if program == "pair" else run.conclude_directory(right, options)
    assert report.verdict is Verdict.UNKNOWN
    assert "the rules were stopped (timeout: reading and rules took more than 0.25 s)" in report.notes


def test_what_is_refuted_stays_so_where_no_time_is_left_to_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    from scalify_dl.refute import refute as module

    look = module.refute

    def hurried(*arguments: Any, localise: bool = True) -> module.Refutation:
        return module.Refutation() if localise else look(*arguments, localise=localise)

    monkeypatch.setattr("scalify_dl.report.conclude.LARGE", 0)
    monkeypatch.setattr("scalify_dl.mend.mend.mend_around", lambda *arguments: None)
    monkeypatch.setattr(module, "refute", hurried)
    report = conclude(analyse(load(WRONG), Options()))
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample
