"""A campaign: random programs until time or count is up, with what failed made small, and what was never drawn."""

from __future__ import annotations

from collections.abc import Callable

from ..children import Ended, child
from .calls import AVOIDED, named_arguments, overloads
from .one import READING, programs
from .recipes_ranks import overloads_of_ranks
from .report import Failure, Report

BATCH = 1000
"""Programs of one process."""


def run(
    seconds: float, seed: int, count: int | None = None, *, writes: bool = True,
    progress: Callable[[Report], None] | None = None,
) -> Report:  # fmt: skip
    """Runs a campaign; the same seed gives the same programs in the same order. Ctrl-C ends with a report.

    They run in a process of their own, a new one every so often and after each program that ends it."""
    (found, left), (more, others) = overloads(), overloads_of_ranks()
    found, left = found + more, left | others
    missing = {o.name: {"", *named_arguments(o)} for o in found if writes or not o.writes}
    report = Report(missing, [o.name for o in found], left, AVOIDED)
    spent = 0.0

    def going() -> bool:
        return report.seconds < seconds and (count is None or report.programs < count)

    try:
        while going():
            first = seed * 1_000_003 + report.programs
            with child(programs, report, first, BATCH, writes) as items:
                for item in items:
                    if isinstance(item, Ended):
                        _ended(report, seed * 1_000_003 + report.programs, item)
                    else:
                        report.add(item)
                        report.seconds = spent + item.seconds
                    if progress is not None:
                        progress(report)
                    if not going():
                        break
            spent = report.seconds
    except KeyboardInterrupt:
        pass
    return report


def _ended(report: Report, seed: int, ended: Ended) -> None:
    """A program that ended its process: a failure where that was not torch's doing."""
    report.programs += 1
    if ended.at.startswith(READING):
        message = f"ended the process ({ended.how}) while it was read"
        report.failures.append(Failure(seed, ended.at, message, ended.at.removeprefix(READING), ""))
    else:
        report.ended[seed] = f"{ended.how} at {ended.at}"
