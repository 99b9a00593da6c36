"""`dlverify fix`: edits after which a refuted program is proved, cheapest first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalify_dl.finding import Finding
from scalify_dl.garbage import paused
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.kernels.inside import following
from scalify_dl.lint.annotated import annotate
from scalify_dl.lint.fix import Fixed, fix
from scalify_dl.lint.judge import Several, load
from scalify_dl.lint.patch import patch, place
from scalify_dl.lint.reported import MISSING
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations, load_relations

from .progress import progress


def run(
    dist: Sequence[Path], mesh: str, relate: Path | None, *, as_json: bool, kernels: Sequence[str] = ()
) -> int:
    """Read, judge, try edits, print; the exit status is that of the program as it is."""
    axes = Mesh.parse(mesh)
    relations = load_relations(relate) if relate else Relations()
    try:
        with progress("trying edits"), paused():
            graph = load(dist, axes, relations, following(kernels))
            annotate(graph, axes, relations)
            found = fix(graph, axes, relations)
    except Several as several:
        print(json.dumps({"verdict": "UNKNOWN", "fixes": [], "missing": [str(several)]}) if as_json
              else f"UNKNOWN\n  {several}: one program that all ranks run can be mended")  # fmt: skip
        return Verdict.UNKNOWN.exit_code
    if as_json:
        print(json.dumps(as_object(found, graph), indent=2, ensure_ascii=False))
    else:
        _print(found, graph)
    return found.before.verdict.exit_code


def as_object(found: Fixed, graph: Graph) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "verdict": found.before.verdict.value,
        "findings": [f.as_object() for f in found.before.findings],
        "missing": found.before.missing,
        "tried": found.tried,
        "fixes": [
            {"bytes": sum(e.cost for e in way), "edits": [{"text": e.text, "line": e.line} for e in way],
             "place": place(graph, way), "patch": patch(graph, way)}
            for way in found.ways
        ],
    }


def _source(finding: Finding) -> str:
    return f" ({finding.source[0]})" if finding.source else ""


def _print(found: Fixed, graph: Graph) -> None:
    verdict = found.before.verdict
    print(verdict.value)
    if verdict is not Verdict.REFUTED:
        if verdict is Verdict.PROVED:
            print("  nothing to mend")
            return
        print("  nothing was mended: no violation is certain without the program of one device")
        for finding in found.before.findings:
            print(f"  look at {finding.kind} at {finding.name}{_source(finding)}: {finding.text}")
        told = sorted(found.before.missing, key=lambda text: text.startswith("output `"))
        print("  open:")
        for reason in told[:MISSING]:
            print(f"    {reason}")
        if (left := len(told) - MISSING) > 0:
            print(f"    and {left} more")
        print("  next: `dlverify verify BASE DIST… --mesh …` compares with the program of one device, and tries edits;")
        print("        or say in a relations file (--relate) how inputs are placed")
        return
    for finding in found.before.findings:
        if finding.level == "error":
            print(f"  {finding.kind} at {finding.name}{_source(finding)}")
    if not found.ways:
        print(f"\nnone of {found.tried} edits makes it PROVED")
    for n, way in enumerate(found.ways, 1):
        moved = sum(edit.cost for edit in way)
        print(f"\nfix {n}: PROVED, {abs(moved):,} bytes per rank {'more' if moved >= 0 else 'less'}")
        for edit in way:
            print(f"  {edit.text}")
            print(f"    {edit.line}")
        where = place(graph, way)
        if where:
            print(f"  at {where}")
        for text in patch(graph, way):
            print(f"    {text}")
