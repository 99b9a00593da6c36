"""Edits that mend a program that lint refutes: each is made on a copy, which is judged anew; only what is then PROVED
is shown, what moves fewest bytes first.

A program may be wrong in several places: as long as an edit lets the lift reach further, others are looked for behind
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.layout import Digit, Pending
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import COLLECTIVES
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations

from . import edits
from .edits import Edit, edited
from .judge import Result, lint_graph
from .origins import Origins

SECONDS = 30.0
ROUNDS = 6
UPSTREAM = 6
"""So many ops above a violation are looked at for slices and collectives to change."""


@dataclass
class Fixed:
    """What was found: ways to mend the program, each some edits; how many were tried."""

    before: Result
    ways: list[list[Edit]] = field(default_factory=list)
    tried: int = 0


def fix(graph: Graph, mesh: Mesh, relations: Relations | None = None, options: Options | None = None) -> Fixed:
    """Looks for edits after which the program is well placed."""
    before = lint_graph(graph, mesh, relations, options)
    found = Fixed(before)
    if before.verdict is not Verdict.REFUTED:
        return found
    deadline = time.process_time() + SECONDS
    current, result, done = graph, before, list[Edit]()
    for _ in range(ROUNDS):
        further: list[tuple[int, int, Edit, Graph, Result]] = []
        for edit in sorted(proposals(current, mesh, result), key=lambda e: e.cost):
            if time.process_time() > deadline:
                break
            try:
                draft = edited(current, edit)
                after = lint_graph(draft, mesh, relations, options)
            except (InputError, ValueError, KeyError, IndexError):
                continue
            found.tried += 1
            if after.verdict is Verdict.PROVED:
                found.ways.append([*done, edit])
            elif reach(after) > reach(result):
                further.append((-reach(after), edit.cost, edit, draft, after))
        if found.ways or not further:
            break
        _, _, edit, current, result = min(further, key=lambda row: row[:2])
        done.append(edit)
    found.ways.sort(key=lambda way: sum(edit.cost for edit in way))
    return found


def reach(result: Result) -> int:
    """How far a program is understood: values that are lifted, outputs that are as they should be."""
    wrong = sum(f.kind.endswith("output") for f in result.findings if f.level == "error")
    return 1000 * len(result.lifted.held) - wrong


def proposals(graph: Graph, mesh: Mesh, result: Result) -> Iterator[Edit]:
    """What may mend the violations of a program."""
    wrong = [f for f in result.findings if f.level == "error"]
    names = {f.op for f in wrong}
    ports = {f.name for f in wrong}
    seen: set[tuple[str, str]] = set()
    at = {op: n for n, op in enumerate(graph.ops)}
    stops = [stop.op for stop in result.lifted.stops if stop.op.name in names and stop.op in at]
    ends = [end for end in result.boundaries if end.held and (end.port.path or end.port.tensor.name) in ports]
    offered = chain(
        *(_at_op(graph, mesh, result, op) for op in stops),
        *(_at_output(graph, mesh, result, end.port.tensor) for end in ends),
        _counted(graph, mesh, result),
    )
    for edit in offered:
        if (edit.text, edit.line) not in seen:
            seen.add((edit.text, edit.line))
            yield edit


def _pending(result: Result, tensor: Tensor) -> tuple[list[str], str] | None:
    """The axes over which a value is still to be reduced, and how."""
    held = result.lifted.held.get(tensor) or result.lifted.reads.get(tensor)
    if held is None or not held.pending:
        return None
    entry = held.mesh[held.pending[0]]
    return result.grid.axes_of(held.pending), entry.reducer if isinstance(entry, Pending) else "sum"


def _smallest(graph: Graph, result: Result, tensor: Tensor) -> Tensor:
    """What a value that is still to be reduced was spread out from."""
    while True:
        op = next((o for o in graph.ops if tensor in o.results), None)
        if op is None or op.kind not in ("broadcast", "reshape", "transpose"):
            return tensor
        if _pending(result, op.operands[0]) is None:
            return tensor
        tensor = op.operands[0]


def _at_op(graph: Graph, mesh: Mesh, result: Result, op: Op) -> Iterator[Edit]:
    for tensor in dict.fromkeys(op.operands):
        waiting = _pending(result, tensor)
        if waiting is not None:
            yield edits.reduce_first(graph, mesh, _smallest(graph, result, tensor), op, *waiting)
            later = [o for o in graph.ops if o.kind == "all-reduce" and set(o.operands) & set(op.results)]
            for other in later:
                yield edits.move_in_front(graph, mesh, tensor, op, other)
            held = result.lifted.held.get(tensor)
            if op.kind in ("slice", "dynamic-slice") and held is not None:
                for dim, n in enumerate(op.operands[0].shape):
                    if op.result.shape[dim] != n:
                        yield edits.scatter(graph, mesh, op, dim, waiting[0])
        held = result.lifted.held.get(tensor)
        if op.kind == "reduce" and held is not None and held.aligned:
            for dim in op.numbers["dimensions"]:
                axes = result.grid.axes_of(held.cut(dim))
                if axes:
                    yield edits.gather_first(graph, mesh, tensor, op, dim, axes)
    if op.kind in COLLECTIVES:
        yield from _changed(graph, mesh, result, op)
    yield from _cut_elsewhere(graph, result, op)
    yield from _at_origins(graph, mesh, result, op, op.operands)
    for other in _above(graph, op):
        if other.kind in ("all-reduce", "reduce-scatter", "collective-permute"):
            yield from _changed(graph, mesh, result, other)
        held = result.lifted.held.get(other.operands[0]) if other.operands else None
        if other.kind == "concatenate" and len(set(other.operands)) == 1 and held is not None and held.aligned:
            axes = result.grid.axes_of(held.cut(other.numbers["dimension"][0]))
            if len(other.operands) == prod(mesh.axis_size(axis) for axis in axes) > 1:
                yield edits.gather_instead(graph, mesh, other, axes)
        if other.kind == "slice" and not other.rank_numbers and other.operands[0] in result.lifted.held:
            for dim, n in enumerate(other.operands[0].shape):
                for axis, _ in mesh.axes:
                    block = edits.own_block(graph, mesh, other, dim, axis) if other.result.shape[dim] != n else None
                    if block is not None:
                        yield block


def _at_origins(
    graph: Graph, mesh: Mesh, result: Result, reader: Op | None, tensors: Sequence[Tensor]
) -> Iterator[Edit]:
    """A reduction where something first is in parts."""
    for origin in Origins(graph, result.lifted).of(tensors):
        for tensor in origin.results:
            waiting = _pending(result, tensor)
            if waiting is not None:
                yield edits.reduce_first(graph, mesh, tensor, reader, *waiting)


def _cut_elsewhere(graph: Graph, result: Result, op: Op) -> Iterator[Edit]:
    """A slice across values side by side, of one of them or some: the nearest first."""
    held = result.lifted.held.get(op.operands[0])
    if op.kind != "slice" or op.rank_numbers or held is None or held.along is None:
        return
    dim = held.along
    width, start = op.result.shape[dim], op.numbers["start"][dim]
    ends = {p.hi for p in held.parts}
    for at in sorted((p.lo for p in held.parts if p.lo + width in ends), key=lambda lo: abs(lo - start)):
        yield edits.reslice(graph, op, dim, at)


def _changed(graph: Graph, mesh: Mesh, result: Result, op: Op) -> Iterator[Edit]:
    """A collective over other axes, by another operation, or none."""
    in_order: Callable[[Sequence[int]], object] = frozenset if op.kind == "all-reduce" else tuple
    mine = set(map(in_order, op.groups or ()))
    for axes in edits.subsets([axis for axis, size in mesh.axes if size > 1]) if op.pairs is None else ():
        if set(map(in_order, edits.groups(mesh, axes))) != mine:
            yield edits.regroup(graph, mesh, op, axes)
    held = result.lifted.held.get(op.operands[0])
    if op.kind in ("all-reduce", "reduce-scatter") and held is not None:
        for reducer in {e.reducer for e in held.mesh if isinstance(e, Pending)} - set(op.symbols.get("reducer", ())):
            yield edits.other_reducer(graph, op, reducer)
    if op.kind == "collective-permute" and {(to, rank) for rank, to in op.pairs or ()} != set(op.pairs or ()):
        yield edits.turned(graph, op)
    if op.kind in ("all-reduce", "collective-permute") and len(op.operands) == 1:
        yield edits.take_out(graph, op)


def _above(graph: Graph, op: Op) -> list[Op]:
    """The nearest ops that a value comes from."""
    maker = {t: o for o in graph.ops for t in o.results}
    found: list[Op] = []
    front = [maker[t] for t in op.operands if t in maker]
    for _ in range(UPSTREAM):
        found += [o for o in front if o not in found]
        front = [maker[t] for o in front for t in o.operands if t in maker][:24]
    return found


def _at_output(graph: Graph, mesh: Mesh, result: Result, tensor: Tensor) -> Iterator[Edit]:
    waiting = _pending(result, tensor)
    if waiting is not None:
        yield edits.reduce_first(graph, mesh, tensor, None, *waiting)
    held = result.lifted.held.get(tensor)
    for dim in range(len(held.local)) if held is not None and held.aligned else ():
        axes = result.grid.axes_of(held.cut(dim)) if held is not None else []
        if axes:
            yield edits.gather_first(graph, mesh, tensor, None, dim, axes)
    yield from _at_origins(graph, mesh, result, None, [tensor])
    makers = [op for op in graph.ops if tensor in op.results]
    for op in makers:
        for other in [op, *_above(graph, op)]:
            if other.kind in ("all-reduce", "reduce-scatter"):
                yield from _changed(graph, mesh, result, other)
    for op in makers:
        for operand in dict.fromkeys(t for o in [op, *_above(graph, op)] for t in o.operands):
            above = _pending(result, operand)
            held = result.lifted.held.get(operand)
            if above is not None and held is not None and not any(isinstance(e, Digit) for e in held.mesh):
                yield edits.reduce_first(graph, mesh, operand, op, *above)


def _counted(graph: Graph, mesh: Mesh, result: Result) -> Iterator[Edit]:
    """Reductions of what all ranks have alike."""
    for note in result.lifted.notes:
        if note.kind == "reduces-replicated" and note.op in graph.ops and note.op.kind == "all-reduce":
            yield edits.take_out(graph, note.op)
            ways = len((note.op.groups or [[0]])[0])
            yield edits.divided(graph, note.op, ways)
            yield from _changed(graph, mesh, result, note.op)
