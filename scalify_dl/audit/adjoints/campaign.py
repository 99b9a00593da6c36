"""Many programs in a row: whose gradients differ, what has no backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ..children import Ended, child


@dataclass
class Report:
    """What a campaign found. `compared` are programs of which all gradients that are known were compared."""

    programs: int = 0
    compared: int = 0
    mismatches: list[tuple[int, str]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)

    def content(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "programs": self.programs,
            "compared": self.compared,
            "mismatches": [{"seed": seed, "what": what} for seed, what in self.mismatches],
            "not_compared": dict(self.unknown.most_common()),
            "steps": dict(self.steps.most_common()),
        }


def run(framework: str, count: int, seed: int = 0, progress: Callable[[Report], None] | None = None) -> Report:
    """Checks programs seed, seed + 1, … of a framework (`jax`, `torch`), in processes of their own."""
    batches = import_module(f".{framework}_programs", __package__)
    report = Report()
    while report.programs < count:
        with child(batches.batch, seed + report.programs) as outcomes:
            for outcome in outcomes:
                report.programs += 1
                if isinstance(outcome, Ended):
                    report.unknown[f"the process ended ({outcome.how})"] += 1
                    break
                report.compared += outcome.compared
                report.mismatches += [(outcome.seed, what) for what in outcome.mismatches]
                report.unknown.update(outcome.unknown)
                report.steps.update(outcome.steps)
                if progress is not None:
                    progress(report)
                if report.programs >= count:
                    break
    return report
