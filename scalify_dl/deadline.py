"""What runs for as long as there is time: searches that a `--timeout` ends wherever they are."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["OutOfTime", "cpu_limit", "until"]


AGAIN = 1.0
"""Seconds after which it is raised once more: what is raised in a callback of the collector goes nowhere."""


class OutOfTime(Exception):
    """The time is over."""


@contextmanager
def until(deadline: float | None) -> Iterator[None]:
    """Raises OutOfTime inside the block once `time.monotonic()` is at the deadline; None: never.

    By the timer of the process, which belongs to its main thread: elsewhere, and on systems without one, only a
    deadline that is over already ends the block.
    """
    if deadline is None:
        yield
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise OutOfTime
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, _over)
    others, interval = signal.setitimer(signal.ITIMER_REAL, left, AGAIN)
    if before is _over and 0 < others < left:  # the deadline of a block around this one comes first
        signal.setitimer(signal.ITIMER_REAL, others, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if others:  # whoever set it before is woken when it wanted to be
            signal.setitimer(signal.ITIMER_REAL, max(others - (time.monotonic() - begun), 0.001), interval)


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[None]:
    """Raises OutOfTime inside the block after so many CPU seconds of this process, however busy the machine is, and
    again after as many more where somebody inside took it for an end of their own; None: never. Main thread only."""
    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGPROF, _over)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _over(number: int, frame: FrameType | None) -> None:
    raise OutOfTime
