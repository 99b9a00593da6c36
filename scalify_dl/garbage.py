"""No garbage collection while millions of small objects are made: they would be searched for cycles again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

SEARCHED = 64
"""After every how many-th pause all objects are searched for cycles: a process that verifies pair after pair would keep
those of all of them, since what counts as old is hardly ever searched by itself."""
_pauses = count(1)


@contextmanager
def paused() -> Iterator[None]:
    """Switches the cyclic collector off meanwhile (reference counting goes on). What was made counts as old then, so
    that it is not searched at once."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()  # all generations become one, unsearched …
            gc.unfreeze()  # … which is the oldest
            if next(_pauses) % SEARCHED == 0:
                gc.collect()
            gc.enable()
