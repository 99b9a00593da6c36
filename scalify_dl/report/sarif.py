"""SARIF 2.1.0, for code scanning services: one result for each annotation, located in the repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scalify_dl import __version__
from scalify_dl.prove.verdict import Frame, Report

from .annotations import FINGERPRINT, RULES, Annotation, annotate

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"


def _location(file: str, line: int, function: str = "") -> dict[str, Any]:
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(file), "uriBaseId": ROOT},
            "region": {"startLine": max(line, 1)},
        }
    }
    if function:
        place["logicalLocations"] = [{"name": function, "kind": "function"}]
    return place


def _of_frame(at: tuple[str, Frame]) -> dict[str, Any]:
    return _location(at[0], at[1].line, at[1].function)


def _result(found: Annotation, known: frozenset[str] | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.rule,
        "ruleIndex": list(RULES).index(found.rule),
        "level": found.level,
        "message": {"text": f"{found.title}. {found.text}".strip()},
        "locations": [_location(found.file, found.line, found.function)],
        "partialFingerprints": {FINGERPRINT: found.fingerprint},
    }
    if len(found.stack) > 1:
        result["stacks"] = [{"frames": [{"location": _of_frame(at)} for at in found.stack]}]
    if found.related:
        result["relatedLocations"] = [_of_frame(found.related) | {"id": 0, "message": {"text": found.related_text}}]
    if known is not None:
        result["baselineState"] = "unchanged" if found.fingerprint in known else "new"
    return result


def _rule(name: str, text: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": text},
        "fullDescription": {"text": text},
        "help": {"text": f"{text}. docs/verdicts.md says how to read a report."},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["correctness"], "precision": "very-high"},
    }


def as_object(
    reports: Report | Sequence[Report], root: Path | None = None, baseline: frozenset[str] | None = None
) -> Any:
    """Reports as one SARIF log; `baseline` are fingerprints of what is known."""
    given = [reports] if isinstance(reports, Report) else list(reports)
    unique = {(a.fingerprint, a.file, a.line, a.text): a for report in given for a in annotate(report, root)}
    driver = {
        "name": "dlverify",
        "semanticVersion": __version__,
        "rules": [_rule(name, text) for name, text in RULES.items()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "originalUriBaseIds": {ROOT: {"description": {"text": "the root of the repository"}}},
        "results": [_result(found, baseline) for found in unique.values()],
        "columnKind": "unicodeCodePoints",
        "properties": {
            "verdict": [report.verdict.value for report in given] if len(given) != 1 else given[0].verdict.value,
            "scope": [line for report in given for line in report.scope],
            "assumptions": [f"{a.tensor}: {a.text}" for r in given for a in r.assumptions if not a.accepted],
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def render(reports: Report | Sequence[Report], root: Path | None = None, baseline: frozenset[str] | None = None) -> str:
    """Reports as SARIF text."""
    return json.dumps(as_object(reports, root, baseline), indent=2, ensure_ascii=False)
