"""The JSON report: one object, whose keys are a contract with scripts (docs/cli.md)."""

from __future__ import annotations

import json
from typing import Any

from scalify_dl.prove.verdict import Report, RootCause

from .leads import leads


def _text(lines: tuple[str, ...]) -> str | None:
    return "; ".join(lines) or None


def _cause(cause: RootCause, outputs: list[str]) -> dict[str, Any]:
    return {
        "op": cause.name,
        "id": cause.op,
        "kind": cause.kind,
        "called": cause.called or None,
        "module": cause.module or None,
        "feeds": cause.feeds or None,
        "source": [str(f) for f in cause.source],
        "backward": any(f.backward for f in cause.source[:1]),
        "operands": list(cause.operands),
        "expected": _text(cause.expected),
        "found": _text(cause.found),
        "suggestion": _text(cause.suggestion),
        "tried": _text(cause.outcome),
        "inputs": _text(cause.inputs),
        "lemma_missing": cause.lemma_missing,
        "base_op": cause.base_name or None,
        "base_source": [str(f) for f in cause.base_source],
        "outputs": outputs,
    }


def as_object(report: Report) -> dict[str, Any]:
    """The report as plain JSON values."""
    led = {id(cause): [o.name for o in outputs] for cause, outputs in leads(report)}
    return {
        "verdict": report.verdict.value,
        "title": report.title,
        "scope": report.scope,
        "findings": [finding.as_object() for finding in report.findings],
        "outputs": [
            {
                "name": o.name,
                "base": o.base,
                "verdict": o.verdict.value,
                "layout": o.layout,
                "pattern": o.pattern,
                "reason": o.reason or None,
                "tensor": o.tensor,
                "base_tensor": o.base_tensor,
            }
            for o in report.outputs
        ],
        "frontier": [_cause(c, led[id(c)]) for c in report.frontier],
        "downstream": report.downstream,
        "unrelated_inputs": [{"name": n, "text": t} for n, t in report.unrelated_inputs],
        "notes": report.notes,
        "assumptions": [
            {
                "tensor": a.tensor,
                "text": a.text,
                "why": a.why,
                "accepted": a.accepted,
                "label": a.label or a.tensor,
                "words": a.words or a.text,
            }
            for a in report.assumptions
        ],
        "counterexample": report.counterexample,
        "stats": report.stats,
        **report.more,
    }


def render(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(as_object(report), indent=2, ensure_ascii=False)
