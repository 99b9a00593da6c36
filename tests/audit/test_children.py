"""Work in a process of its own: what it gives arrives, and where it ends before that is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from scalify_dl.audit import children
from scalify_dl.audit.children import Ended, Say, child


def _halves(say: Say, numbers: list[int]) -> Iterator[int]:
    for number in numbers:
        say(f"halving {number}")
        if number < 0:
            os.kill(os.getpid(), signal.SIGFPE)
        if number == 0:
            os._exit(7)
        yield number // 2


def _sleeps(say: Say) -> Iterator[int]:
    yield 1
    say("asleep")
    time.sleep(60)


def test_items_arrive_in_order() -> None:
    with child(_halves, [2, 4, 6]) as found:
        assert list(found) == [1, 2, 3]


def test_a_signal_and_a_status_are_told_with_what_the_work_was_at() -> None:
    with child(_halves, [2, -1, 6]) as found:
        assert list(found) == [1, Ended("SIGFPE", "halving -1")]
    with child(_halves, [0]) as found:
        assert list(found) == [Ended("status 7", "halving 0")]


def test_work_that_gives_nothing_for_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "PATIENCE", 2.0)
    with child(_sleeps) as found:
        assert list(found) == [1, Ended("no answer in 2 s", "asleep")]


def test_who_has_enough_may_leave() -> None:
    with child(_halves, [2, 4, -6]) as found:
        assert next(found) == 1
