"""Sums over a number of elements that no data decides: at another size they are another number.

A mean over what is not ignored divides by how many elements that are. If the range of the labels decides every
comparison with a number, that is the number of elements, and may stand on the other side as a constant; so dims along
which truths and constants are added up keep their size. A comparison with positions (a one-hot row, one element of
which is set at any size) depends on the data.
"""

from __future__ import annotations

from ..program import Op
from .constraints import Shapes


def of_data(s: Shapes) -> set[str]:
    """Tensors that depend on the values of inputs or on random draws otherwise than by comparisons with a number."""
    program = s.program
    found = {t for graph in [*program.top("base"), *program.top("dist")] for t in graph.inputs}
    while True:
        size = len(found)
        for graph in program.graphs.values():
            for op in graph.ops:
                _carry(s, op, found)
        if size == len(found) or not program.region_graphs:  # loops carry data back to where they begin
            return found


def _carry(s: Shapes, op: Op, found: set[str]) -> None:
    program = s.program
    if op.kind.startswith("rng") or op.kind == "dropout-mask":
        found.update(op.results)
    elif op.kind == "while":
        condition, body = (program.graphs[g] for g in op.regions)
        for group in zip(op.operands, body.outputs, op.results, condition.inputs, body.inputs, strict=True):
            if not found.isdisjoint(group[:2]):
                found.update(group[2:])
    elif op.kind == "conditional":
        rest = op.operands[1:]
        for region in op.regions:
            branch = program.graphs[region]
            mine, rest = rest[: len(branch.inputs)], rest[len(branch.inputs) :]
            pairs = [*zip(mine, branch.inputs, strict=True), *zip(branch.outputs, op.results, strict=True)]
            found.update(after for before, after in pairs if before in found)
    elif op.kind == "is-finite" or (op.kind == "compare" and any(map(s.scalar_constant, op.operands))):
        return
    elif not found.isdisjoint(op.operands):
        found.update(op.results)


ADDING = frozenset({"reduce", "cumulative", "dot", "scatter"})


def keep_counted(s: Shapes) -> None:
    """Dims along which values without data are added up keep their size."""
    data = of_data(s)
    for graph in s.program.graphs.values():
        for op in graph.ops:
            if op.kind in ADDING and data.isdisjoint(_added_up(op)):
                for dim in _counted_dims(s, op):
                    s.extents.keep(dim)


def _added_up(op: Op) -> list[str]:
    """The operands whose elements the op adds up."""
    return op.operands[2:] if op.kind == "scatter" else list(op.operands)


def _counted_dims(s: Shapes, op: Op) -> list[int]:
    """The dims along which the op adds up elements of its operands."""
    x = s.dims(op.operands[0])
    if op.kind == "reduce" and op.symbol("reducer", "region") not in ("max", "min", "and", "or", "argmax", "argmin"):
        return [x[pos] for pos in op.number("dimensions", 0, [])]
    if op.kind == "cumulative" and op.symbol("reducer", "sum") not in ("max", "min"):
        return [x[pos] for pos in op.number("dimension", 0)]
    if op.kind == "dot":
        return [x[pos] for pos in op.number("lhs_contracting_dims", 0, [])]
    if op.kind == "scatter":
        return [dim for updates in op.operands[2:] for dim in s.dims(updates)]
    return []
