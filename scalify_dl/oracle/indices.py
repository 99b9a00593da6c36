"""Inputs that become positions: what gathers, slices and loops count with stays small where nothing bounds it."""

from __future__ import annotations

from .program import Graph, Op, Program

FIRST_INDEX = {"gather": 1, "scatter": 1, "dynamic-slice": 1, "dynamic-update-slice": 2, "while": 0, "conditional": 0}
"""The first operand that is a position, or that may decide how often something runs."""
LAST_INDEX = {"gather": 2, "scatter": 2}


def _positions(op: Op) -> list[str]:
    if op.kind.startswith(("custom:", "unknown:")):  # lengths, block tables: what it does is not known
        return op.operands
    return op.operands[FIRST_INDEX.get(op.kind, len(op.operands)) : LAST_INDEX.get(op.kind)]


def _sources(graph: Graph) -> set[str]:
    """Values of the graph that positions are made of."""
    wanted: set[str] = set()
    for op in reversed(graph.ops):
        wanted.update(op.operands if wanted.intersection(op.results) else _positions(op))
    return wanted


def position_inputs(program: Program) -> frozenset[str]:
    """Baseline inputs from which either side makes positions."""
    found = {tensor for role in ("base", "dist") for graph in program.top(role) for tensor in _sources(graph)}
    return frozenset(found | {row.base for row in program.shards if row.dist in found})
