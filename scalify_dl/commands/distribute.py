"""`dlverify distribute`: from a program of one device and placements to the distributed program that sends least."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.garbage import paused
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.text import baseline
from scalify_dl.readers.read import read
from scalify_dl.readers.relations import Relations, load_relations
from scalify_dl.synthesis import Distributed, distribute
from scalify_dl.synthesis.layouts import Link

from .progress import progress

TIMES = {"ns": 10**3, "us": 10**6, "ms": 10**9}
"""In picoseconds."""
RATES = {"MB/s": 10**6, "GB/s": 10**9}


def run(base: Path, mesh: str, relate: Path | None, *, links: Sequence[str], as_json: bool) -> int:
    """Read, look for it, print; 0 where it is proved, else 3."""
    axes = Mesh.parse(mesh)
    relations = load_relations(relate) if relate else Relations()
    told = dict(_link(text, axes) for text in links)
    if told and (lacking := [axis for axis, size in axes.axes if axis not in told and size > 1]):
        raise InputError(f"--link says nothing of {', '.join(lacking)}", expected="one for every axis, or none at all")
    with progress("looking for collectives"), paused():
        found = distribute(read(base, axes, relations=relations), axes, relations, told)
    print(json.dumps(_object(found, axes, timed=bool(told)), indent=2) if as_json else _text(found, axes, bool(told)))
    return found.verdict.exit_code


def _link(text: str, mesh: Mesh) -> tuple[str, Link]:
    match = re.fullmatch(r"([^=]+)=(\d{1,6}(?:\.\d{1,3})?)(ns|us|ms),(\d{1,6}(?:\.\d{1,3})?)(MB/s|GB/s)", text)
    if match is None or float(match[4]) == 0:
        raise InputError(f"no link `{text}`", expected="such as tp=10us,25GB/s")
    mesh.axis_size(match[1])
    return match[1], Link(round(float(match[2]) * TIMES[match[3]]),
                          max(1, round(10**12 / (float(match[4]) * RATES[match[5]]))))  # fmt: skip


def _object(found: Distributed, mesh: Mesh, *, timed: bool) -> dict[str, object]:
    unit = "picoseconds" if timed else "bytes"
    return {
        "verdict": found.verdict.value,
        "least": found.least,
        unit: found.cost,
        "by_axis": found.by_axis,
        "collectives": [
            {"of": name, "kind": step.verb, "axis": mesh.axes[step.axis][0], unit: step.cost}
            for name, step in found.steps
        ],
        "assumptions": [{"tensor": tensor, "text": text} for tensor, text in found.assumptions],
        "program": list(baseline(found.graph)),
    }


def _text(found: Distributed, mesh: Mesh, timed: bool) -> str:
    cost = f"{found.cost / 10**6:,.3f} us" if timed else f"{found.cost:,.0f} bytes per rank"
    lines = [f"{found.verdict.value}  {cost}" + ("" if found.least else "; not all placements were looked at")]
    for name, step in found.steps:
        moved = f"{step.cost / 10**6:,.3f} us" if timed else f"{step.cost:,} bytes"
        lines.append(f"  {step.verb} of {name} over {mesh.axes[step.axis][0]}: {moved}")
    lines += [f"  assumed: {tensor}: {text}" for tensor, text in found.assumptions]
    return "\n".join([*lines, "", *baseline(found.graph)])
