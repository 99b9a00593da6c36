"""Progress on standard error: only at a terminal, and only for work that takes longer than two seconds. What Ctrl-C
interrupted is said at a terminal or not."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

_DELAY = 2.0


def counted(done: int, total: int, since: float) -> str:
    """How far work is that began then (`time.monotonic()`), and how long the rest takes if it goes on like this."""
    if not 0 < done < total:
        return f"{done:,} of {total:,}"
    left = (time.monotonic() - since) * (total - done) / done
    return f"{done:,} of {total:,}, about {f'{left:.0f} s' if left < 100 else f'{left / 60:.0f} min'} left"


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` with a spinner after two seconds; the value yielded changes the text."""
    current = [text]
    try:
        with _spinner(current) if sys.stderr.isatty() else nullcontext(partial(current.__setitem__, 0)) as update:
            yield update
    except KeyboardInterrupt:
        print(f"dlverify: interrupted while {current[0]}", file=sys.stderr)
        raise


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
