"""SARIF 2.1.0, for code scanning services: one result for each annotation, located in the repository.

GitHub reads all four corners of a region, and of the fingerprints only `primaryLocationLineHash`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scalify_dl import __version__
from scalify_dl.prove.verdict import Frame, Report

from .annotations import FINGERPRINT, RULES, Annotation, annotate, repository

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
GITHUB = "primaryLocationLineHash"


class _Places:
    """Places in the files of a repository, which are looked at for how long a line is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lines: dict[str, list[str]] = {}

    def line(self, file: str, line: int) -> str:
        """The text of a line; nothing where the file is not here."""
        if file not in self.lines:
            try:
                self.lines[file] = (self.root / file).read_text("utf-8", "replace").split("\n")
            except (OSError, ValueError):
                self.lines[file] = []
        return self.lines[file][line - 1] if line <= len(self.lines[file]) else ""

    def location(self, file: str, line: int, function: str = "") -> dict[str, Any]:
        """The whole line, without what it is indented by."""
        text = self.line(file, line)
        region = {
            "startLine": line,
            "startColumn": len(text) - len(text.lstrip()) + 1 if text.strip() else 1,
            "endLine": line,
            "endColumn": max(len(text.rstrip()), 1) + 1,
        }
        place: dict[str, Any] = {
            "physicalLocation": {"artifactLocation": {"uri": quote(file), "uriBaseId": ROOT}, "region": region}
        }
        if function:
            place["logicalLocations"] = [{"name": function, "kind": "function"}]
        return place

    def of_frame(self, at: tuple[str, Frame]) -> dict[str, Any]:
        """The place of a frame, whose path is one of the repository."""
        return self.location(at[0], max(at[1].line, 1), at[1].function)


def _result(found: Annotation, known: frozenset[str] | None, places: _Places) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.rule,
        "ruleIndex": list(RULES).index(found.rule),
        "level": found.level,
        "message": {"text": f"{found.title}. {found.text}{found.consequence}".strip()},
        "locations": [places.location(found.file, found.line, found.function)],
        "partialFingerprints": {GITHUB: found.fingerprint, FINGERPRINT: found.fingerprint},
    }
    if len(found.stack) > 1:
        result["stacks"] = [{"frames": [{"location": places.of_frame(at)} for at in found.stack]}]
    related = [(places.of_frame(found.related), found.related_text)] if found.related else []
    related += [(places.location(file, line), text) for text, file, line in found.led_to]
    if related:
        result["relatedLocations"] = [
            place | {"id": n, "message": {"text": text}} for n, (place, text) in enumerate(related)
        ]
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
    reports: Report | Sequence[Report],
    root: Path | None = None,
    baseline: frozenset[str] | None = None,
    names: Sequence[str] = (),
    bad: Mapping[str, str] | None = None,
) -> Any:
    """Reports as one SARIF log; `baseline` are fingerprints of what is known, `names` those of several pairs, `bad`
    errors of pairs without a report."""
    given = [reports] if isinstance(reports, Report) else list(reports)
    top = root or repository()
    places = _Places(top)
    driver = {
        "name": "dlverify",
        "semanticVersion": __version__,
        "rules": [_rule(name, text) for name, text in RULES.items()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not bad,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": f"{name}: {error}"}} for name, error in (bad or {}).items()
                ],
            }
        ],
        "originalUriBaseIds": {ROOT: {"description": {"text": "the root of the repository"}}},
        "results": [_result(found, baseline, places) for found in annotate(given, top, names)],
        "columnKind": "unicodeCodePoints",
        "properties": {
            "verdict": [report.verdict.value for report in given] if len(given) != 1 else given[0].verdict.value,
            "scope": [line for report in given for line in report.scope],
            "assumptions": [f"{a.tensor}: {a.text}" for r in given for a in r.assumptions if not a.accepted],
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def render(
    reports: Report | Sequence[Report],
    root: Path | None = None,
    baseline: frozenset[str] | None = None,
    names: Sequence[str] = (),
    bad: Mapping[str, str] | None = None,
) -> str:
    """Reports as SARIF text."""
    return json.dumps(as_object(reports, root, baseline, names, bad), indent=2, ensure_ascii=False)
