"""`dlverify lint`: what is wrong with the placement of a distributed program, without a baseline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalify_dl.finding import Finding
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.judge import Result, Several, lint
from scalify_dl.lint.text import baseline, placements
from scalify_dl.lint.words import holds_words, types
from scalify_dl.prove.verdict import Verdict

from .progress import progress


def run(
    dist: Sequence[Path], mesh: str, relate: Path | None, *, as_json: bool, show_baseline: bool, show_types: bool
) -> int:
    """Read, lift, decide, print; the exit status."""
    try:
        with progress("lifting the program"):
            result = lint(dist, Mesh.parse(mesh), relate)
    except Several as several:
        text = f"{several}: lint lifts one program that all ranks run"
        if as_json:
            print(json.dumps({"verdict": "UNKNOWN", "findings": [], "missing": [text]}, indent=2))
        else:
            print(f"UNKNOWN\n  {text}")
        return Verdict.UNKNOWN.exit_code
    if as_json:
        print(json.dumps(as_object(result), indent=2, ensure_ascii=False))
    else:
        _print(result, show_baseline, show_types)
    return result.verdict.exit_code


def as_object(result: Result) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "verdict": result.verdict.value,
        "findings": [finding.as_object() for finding in result.findings],
        "missing": result.missing,
        "outputs": [
            {
                "name": end.port.path or end.port.tensor.name,
                "holds": holds_words(end.held, result.grid) if end.held else None,
                "layout": str(end.held.layout(result.grid)) if end.held and end.held.along is None else None,
                "types": types(end.held, result.grid) if end.held else None,
            }
            for end in result.boundaries
        ],
        "assumptions": [{"tensor": t, "text": text, "why": why} for t, text, why in result.assumptions],
        "baseline": list(baseline(result.baseline)),
        "stats": {"compute_ops": result.ops, "lifted": result.proved, **result.stats},
    }


def _print(result: Result, show_baseline: bool, show_types: bool) -> None:
    words = {
        Verdict.PROVED: "well placed",
        Verdict.REFUTED: "not well placed",
        Verdict.UNKNOWN: "not decided",
    }
    print(f"{result.verdict.value}: {words[result.verdict]}; {result.proved} of {result.ops} computing ops lifted and"
          " proved")  # fmt: skip
    for finding in result.findings:
        _print_finding(finding)
    if result.missing:
        print("\nwhat keeps it from being decided" if result.verdict is Verdict.UNKNOWN else "\nnot looked at further")
        for text in result.missing[:12]:
            print(f"  {text}")
        if len(result.missing) > 12:
            print(f"  and {len(result.missing) - 12} more")
    print("\noutputs")
    for end in result.boundaries:
        name = end.port.path or end.port.tensor.name
        print(f"  {name}: {holds_words(end.held, result.grid) if end.held else 'not known'}")
    if result.assumptions:
        print("\nassumptions")
        for tensor, text, why in result.assumptions[:8]:
            print(f"  {tensor}: {text} ({why})")
        if len(result.assumptions) > 8:
            print(f"  and {len(result.assumptions) - 8} more")
    if show_types:
        print("\nSPMD types")
        for line in placements(result):
            print(f"  {line}")
    if show_baseline:
        print("\nthe program on one device")
        for line in baseline(result.baseline):
            print(line)


def _print_finding(finding: Finding) -> None:
    print(f"\n{finding.level}: {finding.kind} at {finding.name}")
    print(f"  {finding.text}")
    for line in finding.source[:3]:
        print(f"  at {line}")
    if finding.suggestion:
        print(f"  try: {finding.suggestion}")
