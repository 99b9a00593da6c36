"""Which outputs that are not proved a cause leads to: each of them once, at the first cause that it hangs on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from scalify_dl.finding import Finding
from scalify_dl.prove.verdict import OutputVerdict, Report, RootCause, Verdict

Cause = Finding | RootCause


def leads(report: Report) -> list[tuple[Cause, list[OutputVerdict]]]:
    """Findings (errors first) and root causes, each with the outputs that are not proved and hang on it."""
    causes: list[Cause] = [*sorted(report.findings, key=lambda finding: finding.level != "error"), *report.frontier]
    behind = _behind(report, causes)
    led: dict[int, list[OutputVerdict]] = defaultdict(list)
    for o in report.outputs:
        if o.verdict is not Verdict.PROVED and o.tensor in behind:
            led[behind[o.tensor]].append(o)
    return [(cause, led[number]) for number, cause in enumerate(causes)]


def _behind(report: Report, causes: Sequence[Cause]) -> dict[str, int]:
    """Values that causes lead to, and which of them does: where there are several, the first."""
    if report.view is None or not causes:
        return {}
    made: dict[str, list[str]] = defaultdict(list)
    used: dict[str, list[str]] = defaultdict(list)
    for op, _, tensor in report.view.facts("result"):
        made[op].append(tensor)
    for op, _, tensor in report.view.facts("operand"):
        used[tensor].append(op)
    behind: dict[str, int] = {}
    for number, cause in enumerate(causes):
        stack = [*((cause.results if isinstance(cause, RootCause) else ()) or made[cause.op or ""])]
        while stack:
            tensor = stack.pop()
            if tensor not in behind:
                behind[tensor] = number
                stack += [t for op in used[tensor] for t in made[op]]
    return behind
