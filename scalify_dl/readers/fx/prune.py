"""Dead code: ops that no output needs."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Op


def prune(graph: Graph) -> None:
    """Drops ops that no output needs, and what is assumed of them; collectives stay: every rank issues them alike."""
    needed = {port.tensor for port in graph.outputs}
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if op.groups is not None or op.group_name is not None or any(result in needed for result in op.results):
            needed.update(op.operands)
            kept.append(op)
    kept.reverse()
    graph.ops[:] = kept
    needed.update(port.tensor for port in graph.inputs)
    needed.update(result for op in kept for result in op.results)
    graph.assumptions[:] = [each for each in graph.assumptions if each.tensor in needed]
