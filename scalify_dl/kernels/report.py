"""A judgement for people and as JSON."""

from __future__ import annotations

from math import prod
from typing import Any

from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.tir.syntax import Kernel

from .decide import Judgement, Spec


def render(kernel: Kernel, spec: Spec | None, found: Judgement) -> str:
    """Lines for a terminal."""
    stated = f" computes {spec.name}" if spec else ""
    head = {
        Verdict.PROVED: f"PROVED   {kernel.name}{stated}",
        Verdict.REFUTED: f"REFUTED  {kernel.name} is not {spec.name if spec else 'sound'}",
        Verdict.UNKNOWN: f"UNKNOWN  whether {kernel.name}{stated}",
    }[found.verdict]
    lines = [head]
    if found.for_all and found.verdict is Verdict.PROVED:
        said = [f"{name}, a multiple of {of}" if of else name for name, of in found.for_all.items()]
        lines.append(f"  for all numbers above 0: {'; '.join(said)}")
    shown = f" (at {', '.join(f'{n}={v}' for n, v in found.sizes.items())})" if found.sizes else ""
    lines += [f"  {b.name} {b.dtype}{list(b.shape)}{shown}" for b in kernel.outputs]
    if found.reason:
        lines.append(f"  because {found.reason}")
    if found.difference is not None:
        d = found.difference
        tile = "" if d.tile is None else f", tile {d.tile}"
        lines.append(f"  {d.output}{list(d.index)} is {d.actual:.6g}, expected {d.expected:.6g}{tile}")
        if d.line:
            lines.append(f"    written at {kernel.file}:{d.line}")
    lines += [f"  {kernel.file}:{f.line}: {f.kind}: {f.text}" for f in found.flaws]
    if found.alike:
        number = prod(cut.count for cut in found.alike)
        names = ", ".join(cut.var for cut in found.alike)
        lines.append(f"  one block stands for {number} that do the same ({names})")
    lines += [f"  precision: {kernel.file}:{line}: {text}" for line, text in found.precision]
    lines += [f"  assumed: {text}" for text, _ in found.assumptions]
    return "\n".join(lines) + "\n"


def as_object(kernel: Kernel, spec: Spec | None, found: Judgement) -> dict[str, Any]:
    """One JSON object."""
    d = found.difference
    return {
        "verdict": found.verdict.value,
        "kernel": kernel.name,
        "file": kernel.file,
        "line": kernel.line,
        "spec": spec.name if spec else None,
        "reason": found.reason,
        "outputs": [
            {"name": b.name, "dtype": b.dtype, "shape": list(b.shape), "verdict": found.verdict.value}
            for b in kernel.outputs
        ],
        "counterexample": None if d is None else {
            "output": d.output, "index": list(d.index), "tile": d.tile, "line": d.line,
            "expected": _plain(d.expected), "actual": _plain(d.actual),
        },
        "flaws": [{"kind": f.kind, "line": f.line, "text": f.text, "certain": f.certain} for f in found.flaws],
        "precision": [{"line": line, "text": text} for line, text in found.precision],
        "assumptions": [{"text": text, "why": why} for text, why in found.assumptions],
        "for_all": found.for_all,
        "sizes": found.sizes,
        "alike": [{"variable": cut.var, "blocks": cut.count} for cut in found.alike],
        "stats": found.stats,
    }  # fmt: skip


def _plain(number: float) -> float | str:
    return number if number == number and abs(number) != float("inf") else str(number)
