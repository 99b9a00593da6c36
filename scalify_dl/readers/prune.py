"""Dead code: ops that no output needs."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Op


def prune(graph: Graph) -> None:
    """Drops ops that no output needs, and what is assumed of them; others wait for collectives and messages."""
    needed = {port.tensor for port in graph.outputs}
    kept: list[Op] = []
    for op in reversed(graph.ops):
        meets = op.groups is not None or op.group_name is not None or op.kind in ("send", "recv")
        if meets or any(result in needed for result in op.results):
            needed.update(op.operands)
            kept.append(op)
    kept.reverse()
    graph.ops[:] = kept
    needed.update(port.tensor for port in graph.inputs)
    needed.update(result for op in kept for result in op.results)
    graph.assumptions[:] = [each for each in graph.assumptions if each.tensor in needed]
