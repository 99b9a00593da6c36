"""Many programs in a row: whose gradients differ, what has no backward.

python -m scalify_dl.audit.adjoints.campaign --count 1000 --seed 0
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalify_dl.whole import write_whole

from ..children import Ended, child

OFTEN = 50
"""Programs after which the file is written anew."""


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


def run(count: int, seed: int = 0, progress: Callable[[Report], None] | None = None) -> Report:
    """Checks JAX programs seed, seed + 1, …, in processes of their own. ImportError where there is no JAX."""
    from .jax_programs import batch

    report = Report()
    while report.programs < count:
        with child(batch, seed + report.programs) as outcomes:
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


def _text(report: Report) -> str:
    return json.dumps(report.content(), indent=2, ensure_ascii=False)


def main() -> None:
    """Run a campaign; status 1 where a gradient differs."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file that says what was found so far")
    options = parser.parse_args()

    def written(report: Report) -> None:
        if options.out is not None and report.programs % OFTEN == 0:
            write_whole(options.out, _text(report))

    report = run(options.count, options.seed, written)
    if options.out is not None:
        write_whole(options.out, _text(report))
    print(_text(report))
    sys.exit(1 if report.mismatches else 0)


if __name__ == "__main__":
    main()
