"""No garbage collection while millions of small objects are made: they would be searched for cycles again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
            gc.enable()
