"""Work whose items may end the process that does them: it is done in another one, which tells what it was at.

    with child(work, *arguments) as found:
        for item in found: ...

`work(say, *arguments)` is a generator of a module, its items can be pickled, and `say(text)` notes what it is at.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

Say = Callable[[str], None]
"""Notes what a process is at, in case that it ends there."""
NOTE = 2000
"""Bytes of a note; what is longer is cut."""
PATIENCE = 600.0
"""Seconds without an item after which a process is ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The process ended (or gave nothing for too long) before its work was done: `how` it did, and what it was `at`."""

    how: str
    at: str


@contextmanager
def child(work: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Iterator[Any]]:
    """What `work` yields in a process of its own; where that ends before the work does, an `Ended` comes last."""
    spawning = multiprocessing.get_context("spawn")
    receive, send = spawning.Pipe(duplex=False)
    note = spawning.RawArray(ctypes.c_char, NOTE)
    process = spawning.Process(target=_work, args=(send, note, work, arguments), daemon=True)
    process.start()
    send.close()

    def found() -> Iterator[Any]:
        while True:
            if not receive.poll(PATIENCE):
                yield Ended(f"no answer in {PATIENCE:.0f} s", _text(note))
                return
            try:
                item = receive.recv()
            except EOFError:
                process.join()
                if process.exitcode:
                    yield Ended(_status(process.exitcode), _text(note))
                return
            yield item

    try:
        yield found()
    finally:
        receive.close()
        process.terminate()
        process.join()


def _work(send: Connection, note: Any, work: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]) -> None:
    """Works until there is nothing left, or nobody listens."""

    def say(text: str) -> None:
        note.value = text.encode()[: NOTE - 1]

    with suppress(BrokenPipeError, KeyboardInterrupt):
        for item in work(say, *arguments):
            send.send(item)


def _text(note: Any) -> str:
    return bytes(note.value).decode(errors="replace")


def _status(code: int) -> str:
    """The exit status of a process in words."""
    if code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"status {code}"
