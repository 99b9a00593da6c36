"""A live schedule of `torch.distributed.pipelining`: what its runtime would do, judged before it does.

    result = judge_live(schedule)            # of a ScheduleInterleaved1F1B, ScheduleZBVZeroBubble, …
    print(result.verdict, [f.text for f in result.findings])

What is read is the order with sends and receives where the schedule has one (as its runtime posts them), else the order
of computations. Nothing is imported from torch: any object with such an order will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.whole import write_whole

from .pipeline import lower
from .pipeline_csv import once, orders_of
from .run import settings
from .tables import Schedule
from .verdict import Result, judge

PLACES = ("pipeline_order_with_comms", "pipeline_order")
"""Where schedules keep their order, the more telling first."""


def rows_of(schedule: Any) -> list[list[str]]:
    """The actions of every rank, as torch prints them; an empty text is a bubble."""
    order: Mapping[int, Sequence[Any]] | None = None
    for place in PLACES:
        order = order or getattr(schedule, place, None)
    if not order and hasattr(schedule, "_get_pipeline_order"):
        order = schedule._get_pipeline_order()
    if not order:
        raise InputError(
            f"a {type(schedule).__name__} has no order of actions", expected="one of " + ", ".join(PLACES),
            hint="schedules of one stage a rank have none: write theirs down (docs/schedule.md)",
        )  # fmt: skip
    if sorted(order) != list(range(len(order))):
        raise InputError(f"orders of ranks {sorted(order)}", expected=f"of ranks 0 to {len(order) - 1}")
    return [["" if action is None else str(action) for action in order[rank]] for rank in range(len(order))]


def read_live(schedule: Any, streams: str = "pair", durations: Mapping[str, int] | None = None) -> Schedule:
    """The tables of a live schedule."""
    return lower(once(orders_of(rows_of(schedule), type(schedule).__name__)), streams, durations)


def judge_live(
    schedule: Any, sends: str = "both", streams: str = "pair", durations: Mapping[str, int] | None = None
) -> Result:
    """What `dlverify schedule` says of it."""
    return judge(read_live(schedule, streams, durations), settings(sends))


def write_live(schedule: Any, path: Path) -> None:
    """As a file for `dlverify schedule`."""
    write_whole(path, "".join(",".join(row) + "\n" for row in rows_of(schedule)))
