"""The report for people."""

from __future__ import annotations

from .verdict import Result


def render(result: Result) -> str:
    """Verdict, findings with suggestions, costs."""
    stats = result.stats
    size = f"{stats['events']:,} events on {stats['ranks']} ranks, {stats['messages']:,} messages"
    lines = [f"{result.verdict.value}  {size}; {' and '.join(stats['sends'])}"]
    for n, finding in enumerate(result.findings, 1):
        lines += ["", f"{n}. {finding.kind}: {finding.text}"]
        for word, text in (("try", finding.suggestion), ("tried", finding.outcome), ("explains", finding.explains)):
            if text:
                lines.append(f"   {word}: {text}")
    if result.makespan is not None:
        lines += [""]
        if result.makespan:
            lines.append(f"makespan {result.makespan:,}; idle {_span(list(result.idle.values()))} of it on each rank")
        for unit in ("activations", "bytes"):
            held = [units[unit] for units in result.peak.values() if unit in units]
            if held:
                lines.append(f"peak {_span(held)} {unit} on a rank")
    lines += [f"assumed: {text}" for text in result.assumptions]
    return "\n".join(lines) + "\n"


def _span(numbers: list[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
