"""The report on a family, for people and as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from rich.table import Table
from rich.text import Text

from scalify_dl.consoles import Console
from scalify_dl.ir.expression import Expression
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.terminal import STYLE
from scalify_dl.report.terminal import render as render_one

from .cases import Case
from .conditions import Condition
from .verify import FamilyReport

SHOWN = 8
"""Conditions of a case that are printed."""


def statement(report: FamilyReport) -> str:
    """What the verdict is about: `for every tp, batch with tp divides 8, batch >= 1`, or sizes."""
    if report.sizes is not None:
        return "at " + ", ".join(f"{name}={size}" for name, size in report.sizes.items())
    if report.verdict is Verdict.PROVED:
        return "for all " + ", ".join(report.symbols) + " with " + ", ".join(report.domain)
    return "for " + ", ".join(report.symbols)


def where(case: Case) -> str:
    """The sizes of a case: `tp >= 3, batch = 1, seq > 1`."""
    words = [f"{axis} > {sum(case.region.ends)}" for axis in case.region.generic.values()]
    words += [f"{name} = {formula}" for name, formula in case.region.equations.items()]
    words += [_words(c) for c in case.region.conditions]
    return ", ".join(dict.fromkeys(words))


def _short(text: str) -> str:
    """At most `SHOWN` of a list of conditions."""
    words = text.split(", ")
    return text if len(words) <= SHOWN else f"{', '.join(words[:SHOWN])} and {len(words) - SHOWN} more (see --json)"


def _words(condition: Condition) -> str:
    """Conditions as people write them: sizes first, and as positive numbers."""
    left, right, sign = condition.left, condition.right, _TURNED.get(condition.kind)
    if sign is None:
        return str(condition)
    if left.isdigit() and not right.isdigit():
        return f"{right} {sign} {left}"
    if condition.difference is not None and left.startswith("-") and re.fullmatch(r"-\d+", right):
        minus = Expression.number(-1)
        return f"{minus * Expression.parse(left)} {sign} {right[1:]}"
    return str(condition)


_TURNED = {"less": ">", "less_equal": ">=", "not_equal": "!="}


def as_object(report: FamilyReport) -> dict[str, Any]:
    """The JSON object."""
    from scalify_dl.report.json import as_object as one

    return {
        "verdict": report.verdict.value,
        "statement": statement(report),
        "symbols": report.symbols,
        "domain": report.domain,
        "sizes": dict(report.sizes) if report.sizes is not None else None,
        "cases": [
            {
                "where": where(case),
                "equations": {name: str(formula) for name, formula in case.region.equations.items()},
                "conditions": list(map(str, case.region.conditions)),
                "ran_at": dict(case.point),
            }
            for case in report.cases
        ],
        "magnitude": report.magnitude,
        "assumptions": [
            {"tensor": a.tensor, "text": a.text, "why": a.why, "accepted": a.accepted} for a in report.assumptions
        ],
        "notes": report.notes,
        "reading": _reading(report) if report.inputs else None,
        "report": one(report.report) if report.report else None,
        "stats": report.stats,
    }


def _reading(report: FamilyReport) -> dict[str, Any]:
    """Formulas of the input dims, and of numbers that no equation decides."""
    return {
        "inputs": dict(report.inputs),
        "choices": [
            {"op": c.op, "what": c.what, "value": str(c.value), "formula": str(c.formula), "why": c.why}
            for c in report.choices
        ],
    }


def to_json(report: FamilyReport) -> str:
    """JSON text."""
    return json.dumps(as_object(report), indent=2)


def render(report: FamilyReport, console: Console | None = None) -> None:
    """Prints the report: the verdict first, then the cases, or the ordinary report where the verdict was found."""
    console = console or Console(highlight=False, emoji=False, markup=False)
    line = Text.assemble((report.verdict.value, STYLE[report.verdict]), f"  {statement(report)}")
    console.print(line, soft_wrap=True)
    for note in report.notes:
        console.print(Text(f"  {note}"), soft_wrap=True)
    if report.cases:
        console.print()
        console.print(Text(f"{len(report.cases)} cases are proved", "bold"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for number, case in enumerate(report.cases, 1):
            table.add_row(f"  {number}", Text(_short(where(case))))
        console.print(table)
    if report.magnitude:
        console.print(
            Text(f"  and sizes for which no number reaches 2^29 ({len(report.magnitude)} bounds, see --json)")
        )
    if report.report is not None:
        console.print()
        render_one(report.report, console=console)
    elif report.assumptions:
        console.print()
        console.print(Text("Assumptions", "bold"))
        for a in report.assumptions:
            agreed = ", accepted" if a.accepted else ""
            console.print(Text(f"  {a.tensor + ' ' if a.tensor else ''}{a.text} ({a.why}{agreed})"), soft_wrap=True)
    ops, cpu = report.stats.get("ops", 0), report.stats.get("cpu_s", 0)
    console.print(Text(f"{ops:,.0f} ops, {cpu:.1f} s", "dim"))
