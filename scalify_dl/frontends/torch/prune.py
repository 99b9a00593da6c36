"""Dead code: ops that no output needs."""

from __future__ import annotations

from scalify_dl.frontends.graph import Graph, Op


def prune(graph: Graph) -> None:
    """Drops ops that no output needs; collectives stay, because every rank must issue them alike."""
    needed = {port.tensor for port in graph.outputs}
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if op.groups is not None or op.group_name is not None or any(result in needed for result in op.results):
            needed.update(op.operands)
            kept.append(op)
    kept.reverse()
    graph.ops[:] = kept
