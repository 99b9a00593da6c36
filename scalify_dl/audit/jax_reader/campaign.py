"""Many programs in a row: what did not agree, what was not understood, and what was never drawn."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scalify_dl.errors import InputError

LOOK_EVERY = 8
"""Every so many programs the texts are searched for ops and attributes."""


@dataclass
class Report:
    """What a campaign found. `mismatches` are (seed, what), `unknown` counts what no form was compared for."""

    programs: int = 0
    seconds: float = 0.0
    mismatches: list[tuple[int, str]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    never_drawn: dict[str, str] = field(default_factory=dict)
    """Ops and arguments of the tables that did not occur: why not, empty where they should have."""

    def content(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "programs": self.programs,
            "seconds": round(self.seconds, 1),
            "mismatches": [{"seed": seed, "what": what} for seed, what in self.mismatches],
            "not_compared": dict(self.unknown.most_common()),
            "steps": dict(self.steps.most_common()),
            "never_drawn": self.never_drawn,
        }


def run(
    *, seconds: float = 60.0, count: int | None = None, seed: int = 0, progress: Callable[[Report], None] | None = None
) -> Report:
    """Checks programs seed, seed + 1, … for so many CPU seconds, or a number of them. Ctrl-C ends with a report."""
    with _wide_types():
        from .check import check
        from .coverage import Seen

        report, seen = Report(), Seen()
        start = time.process_time()
        try:
            while (report.programs < count) if count is not None else (report.seconds < seconds):
                outcome = check(seed + report.programs, seen=seen if report.programs % LOOK_EVERY == 0 else None)
                report.mismatches += [(outcome.seed, what) for what in outcome.mismatches]
                report.unknown.update(outcome.unknown)
                report.steps.update(outcome.steps)
                report.programs += 1
                report.seconds = time.process_time() - start
                if progress is not None:
                    progress(report)
                if report.programs % 200 == 0:
                    _forget()
        except KeyboardInterrupt:
            pass
        report.never_drawn = seen.never_drawn()
        return report


@contextmanager
def _wide_types() -> Any:
    """64-bit types while it runs; InputError where JAX is missing."""
    try:
        import jax
    except ImportError:
        raise InputError(
            "JAX is not installed", hint="install the `jax` extra: pip install 'scalify-dl[jax]'"
        ) from None
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _forget() -> None:
    """Frees what JAX keeps of programs that never come again."""
    import jax

    jax.clear_caches()
