"""One verdict for a schedule, over all capacities asked about.

More room in channels only lets more happen: what is free at zero is free at any capacity, what is stuck without limit
is stuck at any. So both ends tell of all that lies between, where they agree; where not, the schedule depends on
buffering, and the verdict is UNKNOWN.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from scalify_dl.finding import Finding
from scalify_dl.prove.verdict import Verdict

from .findings import findings
from .run import Outcome, decide
from .tables import Schedule


@dataclass
class Result:
    """What `dlverify schedule` reports."""

    verdict: Verdict
    findings: list[Finding]
    makespan: int | None = None
    idle: dict[int, int] = field(default_factory=dict)
    """By rank: time in which it computes nothing."""
    peak: dict[int, dict[str, int]] = field(default_factory=dict)
    """By rank: activations of micro-batches, and bytes, that live at once."""
    stats: dict[str, Any] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def as_object(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "verdict": self.verdict.value,
            "findings": [finding.as_object() for finding in self.findings],
            "makespan": self.makespan,
            "idle": {str(rank): t for rank, t in self.idle.items()},
            "peak": {str(rank): units for rank, units in self.peak.items()},
            "assumptions": [{"tensor": "", "text": text, "why": "schedule"} for text in self.assumptions],
            "stats": self.stats,
        }


def name(capacity: int | None) -> str:
    """A capacity in words."""
    if capacity is None:
        return "channels that hold any number of messages"
    return "sends that wait for their receive" if capacity == 0 else f"channels that hold {capacity} messages"


ONLY_DEADLOCKS = "nothing races, is read too early, or carries what is not wanted (--check deadlock asks what hangs)"


def judge(
    schedule: Schedule, capacities: list[int | None], *, check: str = "all", timeout: float | None = None
) -> Result:
    """Decides for each capacity, least room first; `check` is what is asked (`run.CHECKS`)."""
    outcomes: list[Outcome] = []
    found: list[list[Finding]] = []
    for capacity in capacities:
        outcomes.append(decide(schedule, capacity, check=check, timeout=timeout))
        found.append(findings(schedule, outcomes[-1]))
        if capacity == 0 and not found[-1] and not outcomes[-1].crossing:
            break  # all complete, and no order rests on messages: more room changes nothing
        if any(f.kind == "malformed" for f in found[-1]):
            break
    bad = [any(f.level == "error" for f in some) for some in found]
    if all(bad):
        verdict, shown = Verdict.REFUTED, found[0]
    elif any(bad):
        verdict, shown = Verdict.UNKNOWN, _depending(capacities, found, bad)
    else:
        shown = max(found, key=len)
        verdict = Verdict.UNKNOWN if shown else Verdict.PROVED
    best = min(outcomes, key=lambda o: len(o.rows["head"]))
    assumed = [*schedule.assumptions, *([ONLY_DEADLOCKS] if check == "deadlock" else [])]
    return Result(
        verdict, shown, *_cost(best), stats=_stats(schedule, outcomes), assumptions=assumed, outcomes=outcomes
    )


def _depending(capacities: list[int | None], found: list[list[Finding]], bad: list[bool]) -> list[Finding]:
    """Findings that come and go with the room in channels, with one that says so first."""
    wrong, fine = bad.index(True), bad.index(False)
    lead = found[wrong][0]
    text = (
        f"this depends on buffering: with {name(capacities[fine])} nothing is wrong, with {name(capacities[wrong])}: "
    )
    first = replace(lead, kind="buffering", level="depends", text=text + lead.text)
    return [first, *(replace(f, level="depends") if f.level == "error" else f for f in found[wrong][1:])]


def _cost(outcome: Outcome) -> tuple[int | None, dict[int, int], dict[int, dict[str, int]]]:
    """Makespan, idle and peak of a schedule that completes; nothing of one that does not."""
    if outcome.rows["head"] or outcome.rows["malformed"] or not outcome.rows["makespan"]:
        return None, {}, {}
    peak: dict[int, dict[str, int]] = {}
    for rank, unit, n in outcome.ints("peak"):
        units = peak.setdefault(rank, {})
        key = ("activations", "bytes")[unit]
        units[key] = units.get(key, 0) + n
    return outcome.ints("makespan")[0][0], {row[0]: row[1] for row in outcome.ints("idle")}, peak


def _stats(schedule: Schedule, outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        "events": len(schedule.named),
        "ranks": len(schedule.ranks),
        "chains": len(schedule.chains),
        "messages": len(schedule.rows["send"]) // 3,
        "sends": [name(outcome.capacity) for outcome in outcomes],
        "tuples": sum(outcome.tuples for outcome in outcomes),
    }
