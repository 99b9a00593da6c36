"""Many programs in a row: what did not agree, what was not understood, and what was never drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from scalify_dl.errors import InputError


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
    """Checks programs seed, seed + 1, … for so many CPU seconds, or a number of them. Ctrl-C ends with a report.

    They run in a process of their own, a new one every so often: XLA keeps what it compiled, and ends the process on
    some programs."""
    if find_spec("jax") is None:
        raise InputError("JAX is not installed", hint="install the `jax` extra: pip install 'scalify-dl[jax]'")
    from .batches import checked
    from .coverage import Seen

    report, seen, spent = Report(), Seen(), 0.0
    looked: Counter[str] = Counter()

    def more() -> bool:
        return report.programs < count if count is not None else report.seconds < seconds

    try:
        while more():
            with checked(seed + report.programs, looked) as outcomes:
                for outcome, sight, used in outcomes:
                    report.mismatches += [(outcome.seed, what) for what in outcome.mismatches]
                    report.unknown.update(outcome.unknown)
                    report.steps.update(outcome.steps)
                    report.programs += 1
                    report.seconds = spent + used
                    if sight is not None:
                        seen.update(sight)
                    if progress is not None:
                        progress(report)
                    if not more():
                        break
            spent = report.seconds
    except KeyboardInterrupt:
        pass
    report.never_drawn = seen.never_drawn()
    return report
