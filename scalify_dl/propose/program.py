"""What a drafted program is worth: it is read as anybody's, linted where it has ranks, and run on recorded numbers.

The source is never run: whoever has run it gives its inputs and outputs as arrays.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.shapes import check
from scalify_dl.prove.verdict import Verdict

from .judge import Judged
from .reply import Rejected

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-3
"""Of the largest element: what a run in f32 may be beside one in f64."""


def drafted(draft: str, mesh: str, values: Path | None) -> Judged:
    """A program is kept if it is one, its placement is not refuted, and it gives the numbers that were recorded."""
    from scalify_dl.readers.json_program import parsed

    axes = Mesh.parse(mesh) if mesh else None
    try:
        graph = parsed(draft, axes, "draft")
        check(graph)
    except InputError as error:
        raise Rejected(str(error)) from None
    used = {t for op in graph.ops for t in op.operands} | {port.tensor for port in graph.outputs}
    if idle := [port.tensor.name for port in graph.inputs if port.tensor not in used]:
        raise Rejected(f"nothing uses the inputs {', '.join(idle[:8])}")
    found = [f"{len(graph.ops)} ops whose shapes fit"]
    if axes is not None:
        found.append(_linted(draft, axes))
    if values is not None:
        if axes is not None:
            raise InputError("numbers of one device beside a program of ranks", hint="--values without --mesh")
        found.append(_compared(graph, values))
    else:
        found.append("nobody compared it with the source (--values)")
    kept = {"program": 1, "why": "proposed"} | json.loads(draft)
    kept["why"] = "proposed"
    return Judged(json.dumps(kept, indent=1) + "\n", ".json", "; ".join(found))


def _linted(draft: str, mesh: Mesh) -> str:
    from scalify_dl.lint.judge import lint_graph
    from scalify_dl.readers.json_program import parsed

    try:
        result = lint_graph(parsed(draft, mesh, "draft"), mesh)
    except InputError as error:
        raise Rejected(str(error)) from None
    if result.verdict is Verdict.REFUTED:
        wrong = [f"{f.kind} at {f.name}" for f in result.findings if f.level == "error"]
        raise Rejected(f"its placement is wrong: {'; '.join(wrong[:3])}")
    return f"lint says {result.verdict.value}"


def _compared(graph: Graph, file: Path) -> str:
    recorded = _arrays(file)
    inputs = []
    for port in graph.inputs:
        if port.tensor.name not in recorded:
            raise Rejected(f"no array of the run has the name of the input `{port.tensor.name}`: {', '.join(recorded)}")
        given = recorded[port.tensor.name]
        if given.shape != port.tensor.shape:
            raise Rejected(f"the input `{port.tensor.name}` has the shape {given.shape} in the run")
        inputs.append(given)
    outputs = _run(graph, inputs)
    wanted = [recorded[name] for n in range(len(recorded)) if (name := f"output{n}") in recorded]
    if not wanted:
        raise InputError("no array is called output0", file=file, expected="inputs by name, and output0, output1 …")
    if len(wanted) != len(outputs):
        raise Rejected(f"the run has {len(wanted)} outputs, the draft {len(outputs)}")
    for n, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        if got.shape != want.shape:
            raise Rejected(f"output {n} has the shape {got.shape}, {want.shape} in the run")
        wide = want.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.abs(got - wide) <= TOLERANCE * max(1.0, float(np.nanmax(np.abs(wide), initial=0.0)))
        near |= (got == wide) | (np.isnan(got.astype(np.float64)) & np.isnan(wide))
        if not near.all():
            at = tuple(int(i) for i in np.argwhere(~near)[0])
            raise Rejected(f"output {n} is {got[at]:.6g} at {list(at)}, {wide[at]:.6g} in the run")
    return f"it gives the {len(outputs)} outputs of the run"


def _arrays(file: Path) -> dict[str, Array]:
    try:
        with np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(f"no arrays: {error}", file=file, expected="what numpy.savez writes") from None


def _run(graph: Graph, inputs: list[Array]) -> list[Array]:
    from scalify_dl.facts.tables import TableWriter
    from scalify_dl.oracle import load_program
    from scalify_dl.oracle.execute import Machine
    from scalify_dl.oracle.meaning import Unsupported
    from scalify_dl.oracle.randomness import Draws

    writer = TableWriter(Mesh((("r", 1),)))
    writer.graph(graph, "base", "base", "")
    program = load_program(writer.facts.tables)
    (base,) = program.top("base")
    wide = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in inputs]
    values = {tensor: {0: x} for tensor, x in zip(base.inputs, wide, strict=True)}
    try:
        with np.errstate(all="ignore"):
            kept = Machine(program, Draws(program, 0).baseline, 0, True).run([base], values)
    except Unsupported as error:
        raise Rejected(f"it cannot be run: {error}") from None
    return [kept[tensor][0] for tensor in base.outputs]
