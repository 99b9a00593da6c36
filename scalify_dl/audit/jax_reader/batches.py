"""Programs checked in a process of their own, of which some are the end."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

import jax

from .check import Outcome, check
from .coverage import Seen

BATCH = 400
"""Programs of one process."""
LOOK_EVERY = 20
"""Every so many programs the texts are searched for ops and attributes."""

Found = tuple[Outcome, Seen | None, float]
"""What became of a program, what its texts contain where they were searched, CPU seconds of the process so far."""


@contextmanager
def checked(first: int) -> Iterator[Iterator[Found]]:
    """A batch of programs first, first + 1, … as another process checks them; one that ends it is the last of them."""
    spawning = multiprocessing.get_context("spawn")
    receive, send = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_check, args=(send, first), daemon=True)
    process.start()
    send.close()

    def found() -> Iterator[Found]:
        used = 0.0
        for seed in range(first, first + BATCH):
            try:
                outcome, seen, used = receive.recv()
            except EOFError:
                process.join()
                status = f"JAX ends the process (status {process.exitcode})"
                yield Outcome(seed, unknown=Counter([status])), None, used
                return
            yield outcome, seen, used

    try:
        yield found()
    finally:
        receive.close()
        process.terminate()
        process.join()


def _check(send: Connection, first: int) -> None:
    """Checks a batch, or until nobody listens."""
    jax.config.update("jax_enable_x64", True)
    with suppress(BrokenPipeError, KeyboardInterrupt):
        for seed in range(first, first + BATCH):
            seen = Seen() if seed % LOOK_EVERY == 0 else None
            send.send((check(seed, seen=seen), seen, time.process_time()))
