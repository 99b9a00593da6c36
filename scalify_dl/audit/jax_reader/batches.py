"""Programs checked in a process of their own, of which some are the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from ..children import Ended, Say, child
from .check import Outcome, check
from .coverage import Seen

BATCH = 400
"""Programs of one process."""
LOOK_EVERY = 20
"""Every so many programs the texts are searched for ops and attributes,"""
LOOKS = 8
"""and where a step is one that was not searched as often as this."""

Found = tuple[Outcome, Seen | None, float]
"""What became of a program, what its texts contain where they were searched, CPU seconds of the process so far."""


@contextmanager
def checked(first: int, looked: Counter[str]) -> Iterator[Iterator[Found]]:
    """A batch of programs first, first + 1, … as another process checks them; one that ends it is the last of them.
    Which steps were searched, and how often, is counted."""
    with child(_check, first, looked) as items:

        def found() -> Iterator[Found]:
            seed, used = first, 0.0
            for item in items:
                if isinstance(item, Ended):
                    yield Outcome(seed, unknown=Counter([f"JAX ends the process ({item.how})"])), None, used
                    return
                seed, used = seed + 1, item[2]
                if item[1] is not None:
                    looked.update(item[0].steps.keys())
                yield item

        yield found()


def _check(say: Say, first: int, looked: Counter[str]) -> Iterator[Found]:
    """Checks a batch."""
    jax.config.update("jax_enable_x64", True)
    for seed in range(first, first + BATCH):
        notes: list[Seen] = []

        def look(steps: Counter[str], notes: list[Seen] = notes, seed: int = seed) -> Seen | None:
            if seed % LOOK_EVERY and all(looked[name] >= LOOKS for name in steps):
                return None
            looked.update(steps.keys())
            notes.append(Seen())
            return notes[0]

        outcome = check(seed, look=look)
        yield outcome, notes[0] if notes else None, time.process_time()
