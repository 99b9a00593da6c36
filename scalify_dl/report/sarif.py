"""SARIF 2.1.0, for code scanning services: one result for each root cause, at its innermost source frame."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from scalify_dl import __version__
from scalify_dl.finding import Finding
from scalify_dl.prove.verdict import Frame, Report, RootCause, Verdict

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_RULES = {
    "frontier": "An operation whose operands all correspond to the baseline and whose result does not",
    "missing-lemma": "An operation of a kind that no rule speaks about",
    "output": "An output that is not proved, for no reason at a single operation",
    "finding": "Something wrong with the structure of the program",
    "unrelated-input": "An input of the distributed program that is related to no baseline input",
}


def _location(frame: Frame, message: str | None = None) -> dict[str, Any]:
    path = PurePosixPath(frame.file.replace("\\", "/"))
    uri = quote(str(path))
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": f"file://{uri}" if path.is_absolute() else uri}}
    }
    if frame.line > 0:
        place["physicalLocation"]["region"] = {"startLine": frame.line}
    if frame.function:
        place["logicalLocations"] = [{"name": frame.function, "kind": "function"}]
    if message is not None:
        place["message"] = {"text": message}
    return place


def _words(cause: RootCause) -> str:
    text = [f"{cause.name} ({cause.kind}) is not what the baseline computes, or it cannot be proved."]
    for label, lines in (
        ("Expected", cause.expected),
        ("Found", cause.found),
        ("Try", cause.suggestion),
        ("Tried", cause.tried),
    ):
        text += [f"{label}: {line}." for line in lines]
    if cause.lemma_missing:
        text.append(f"No lemma: {cause.lemma_missing}.")
    return " ".join(text)


def _result(rule: str, level: str, text: str) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "ruleIndex": list(_RULES).index(rule),
        "level": level,
        "message": {"text": text},
    }


def _cause(cause: RootCause, level: str) -> dict[str, Any]:
    result = _result("missing-lemma" if cause.lemma_missing else "frontier", level, _words(cause))
    result["partialFingerprints"] = {"op/v1": cause.name}
    if cause.source:
        result["locations"] = [_location(cause.source[0])]
        result["stacks"] = [{"frames": [{"location": _location(f)} for f in cause.source]}]
    if cause.base_source:
        result["relatedLocations"] = [_location(cause.base_source[0], f"the baseline's {cause.base_name}") | {"id": 0}]
    return result


def _finding(finding: Finding) -> dict[str, Any]:
    level = "error" if finding.level == "error" else "warning"
    result = _result("finding", level, f"{finding.name} ({finding.kind}): {finding.text}")
    if finding.source:
        file, _, line = finding.source[0].partition(":")
        result["locations"] = [_location(Frame(file, int(line) if line.isdigit() else 0))]
    return result


def as_object(report: Report) -> dict[str, Any]:
    """The report as a SARIF log."""
    level = "error" if report.verdict is Verdict.REFUTED else "warning"
    results = [_finding(finding) for finding in report.findings]
    results += [_cause(c, level) for c in report.frontier]
    results += [_result("unrelated-input", "warning", f"{name}: {text}") for name, text in report.unrelated_inputs]
    results += [
        _result("output", level, f"{o.name} is {o.verdict.value}: {o.reason or 'nothing was derived about it'}")
        for o in report.outputs
        if o.verdict is not Verdict.PROVED and (o.reason or not report.frontier)
    ]
    driver = {
        "name": "dlverify",
        "semanticVersion": __version__,
        "rules": [{"id": k, "shortDescription": {"text": text}} for k, text in _RULES.items()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "results": results,
        "columnKind": "unicodeCodePoints",
        "properties": {
            "verdict": report.verdict.value,
            "scope": report.scope,
            "assumptions": [f"{a.tensor}: {a.text}" for a in report.assumptions if not a.accepted],
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def render(report: Report) -> str:
    """The report as SARIF text."""
    return json.dumps(as_object(report), indent=2, ensure_ascii=False)
