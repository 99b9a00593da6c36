"""What a schedule does to a stage and a micro-batch, it does once: forwards, backwards (whole, or in two parts), and
the reduction of a stage's gradients; and what runs has its weights.

A second forward or backward is sent a second time, and what the neighbour receives next is that; gradients that are
reduced twice, or of some stages alone, are others. A plan file has no words for such things: what is proved without
them is not known of the plan.

Example: `0F1,0F1`: stage 1 takes what the second one sends for micro-batch 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scalify_dl.finding import Finding, Happening
from scalify_dl.schedule.actions import Action
from scalify_dl.schedule.pipeline_csv import Orders

from ..findings import DIFFERENCE
from .file import Described

__all__ = ["misplaced"]

PARTS = {"F": "F", "B": "IW", "I": "I", "W": "W"}
"""What an action does, in parts that are done once each."""


def misplaced(plan: Described, orders: Orders) -> Finding | None:
    """The first action that a plan file has no words for."""
    found = _first(plan, orders)
    if found is None:
        return None
    text, step = found
    rank, name = int(orders.rank[step]), orders.action(step).name
    where = f"{orders.file}:{orders.lines[rank]}:{int(orders.cell[step])}"
    return Finding(
        "order", DIFFERENCE, text, (Happening(rank, name, where),), rank=rank, op=name, name=name, source=(where,),
        suggestion="do it once, or give what every rank ran (`ranks:`)",
    )  # fmt: skip


def _first(plan: Described, orders: Orders) -> tuple[str, int] | None:
    """What is wrong with a step, and which step that is."""
    done: Counter[tuple[int, str, int]] = Counter()
    steps: Sequence[Action] = [orders.action(step) for step in range(len(orders.rank))]
    gathered = {stage: False for stage, kind, _ in steps if kind == "UNSHARD"}
    for step, (stage, kind, batch) in enumerate(steps):
        if kind in ("UNSHARD", "RESHARD") and stage in gathered:
            gathered[stage] = kind == "UNSHARD"
        if kind in PARTS and not gathered.get(stage, True):
            return f"the weights of stage {stage} are not gathered", step
        for part in PARTS.get(kind, "") or [kind] * (kind == "REDUCE_GRAD"):
            done[stage, part, batch] += 1
            if done[stage, part, batch] > 1:
                what = "reduces the gradients" if kind == "REDUCE_GRAD" else f"runs micro-batch {batch}"
                return f"stage {stage} {what} a second time", step
    return _unreduced(plan, steps)


def _unreduced(plan: Described, steps: Sequence[Action]) -> tuple[str, int] | None:
    """A stage whose gradients are not reduced, where the schedule says so of others."""
    reduced = {stage for stage, kind, _ in steps if kind == "REDUCE_GRAD"}
    if not plan.copies or plan.mesh.axis_size(plan.copies) == 1:
        return None
    for n, stage in enumerate(plan.stages):
        if reduced and n not in reduced and stage.gradients:
            last = max((step for step, action in enumerate(steps) if action.stage == n), default=0)
            return f"the gradients of stage {n} are not reduced, and those of others are", last
    return None
