"""Progress on standard error: only at a terminal, and only for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_DELAY = 2.0


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` with a spinner after two seconds; the value yielded changes the text."""
    current = [text]
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    status: list[Any] = []
    lock = threading.Lock()

    def show() -> None:
        from rich.console import Console

        with lock:
            if current:
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
            current.clear()
            if status:
                status[0].stop()
