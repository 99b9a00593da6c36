"""Progress on standard error: at a terminal a spinner for work that takes longer than two seconds, elsewhere a line for
what takes longer than ten, and one more each minute. What Ctrl-C interrupted is said in both."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_DELAY = 2.0
FIRST, EVERY = 10.0, 60.0
"""Seconds until the first line where there is no terminal, and between further ones."""


def counted(done: int, total: int, since: float) -> str:
    """How far work is that began then (`time.monotonic()`), and how long the rest takes if it goes on like this."""
    if not 0 < done < total:
        return f"{done:,} of {total:,}"
    left = (time.monotonic() - since) * (total - done) / done
    return f"{done:,} of {total:,}, about {f'{left:.0f} s' if left < 100 else f'{left / 60:.0f} min'} left"


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show `text` while this lasts; the value yielded changes the text. `quiet`: lines are for terminals only."""
    current = [text]
    try:
        with _spinner(current) if sys.stderr.isatty() else _lines(current, quiet) as update:
            yield update
    except KeyboardInterrupt:
        print(f"dlverify: interrupted while {current[0]}", file=sys.stderr)
        raise


@contextmanager
def _lines(current: list[str], quiet: bool) -> Iterator[Callable[[str], None]]:
    """Prints the text in `current` after a while, and again from time to time."""
    ended = threading.Event()
    begun = time.monotonic()

    def tell() -> None:
        wait = FIRST
        while not ended.wait(wait):
            wait = EVERY
            try:
                print(f"dlverify: {current[0]} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
            except (OSError, ValueError):  # nobody reads
                return

    def update(text: str) -> None:
        current[0] = text

    if quiet:
        yield update
        return
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield update
    finally:
        ended.set()
        teller.join()


@contextmanager
def _spinner(current: list[str]) -> Iterator[Callable[[str], None]]:
    """Shows the text in `current` after a while."""
    running = True
    status: list[Any] = []
    lock = threading.Lock()

    def show() -> None:
        from rich.console import Console

        with lock:
            if running:
                status.append(Console(stderr=True).status(current[0]))
                status[0].start()

    def update(text: str) -> None:
        with lock:
            current[0] = text
            if status:
                status[0].update(text)

    timer = threading.Timer(_DELAY, show)
    timer.daemon = True
    timer.start()
    try:
        yield update
    finally:
        timer.cancel()
        with lock:
            running = False
            if status:
                status[0].stop()
