"""What formulas cost, in seconds of a machine that does nothing else.

Steps are counted, and CPU time only where it is more than twice what they come to: a busy machine is slower, and what
is proved within so many seconds must not depend on that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

STEP = 6e-5
"""Seconds of a step of the algebra."""
PRODUCT = 1.5e-6
"""Seconds of a product of two terms."""
SLOWER = 2.0
"""How much slower a machine may be."""


class Effort:
    """What was spent by this process."""

    def __init__(self) -> None:
        self.spent = self.counted = 0.0
        self.cpu = time.process_time()

    def count(self, seconds: float) -> None:
        """Steps that were made."""
        self.counted += seconds

    def now(self) -> float:
        """A clock: what was spent so far."""
        cpu, before = time.process_time(), self.cpu
        self.spent += max(self.counted, (cpu - before) / SLOWER)
        self.cpu, self.counted = cpu, 0.0
        return self.spent

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Work whose CPU time does not count."""
        self.now()
        try:
            yield
        finally:
            self.cpu = time.process_time()


EFFORT = Effort()
"""That of this process."""
now = EFFORT.now
