"""Exact rewritings of graphs that make spellings of one function alike, whatever framework they come from.

    1 / (1 + exp(-x))  is  logistic(x)

XLA and JAX write the right side out, PyTorch does not. Branches become selects (`branches.py`).
"""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Op, Tensor

from . import regions
from .branches import selected


def normalise(graph: Graph) -> None:
    """Rewrites a graph and its regions in place; operands that nothing uses any more stay."""
    for op in graph.ops:
        for region in op.regions:
            normalise(region)
    made = regions.producers(graph.ops)
    if any(op.kind == "conditional" for op in graph.ops):
        opened = ((selected(op, made) if op.kind == "conditional" else None) or [op] for op in graph.ops)
        graph.ops = [new for some in opened for new in some]
        made = regions.producers(graph.ops)
    for op in graph.ops:
        x = _logistic_argument(op, made)
        if x is not None:
            op.kind, op.operands = "logistic", [x]


def _logistic_argument(op: Op, made: dict[Tensor, Op]) -> Tensor | None:
    """The x of `1 / (1 + exp(-x))`."""
    if op.kind != "divide" or not _is_one(op.operands[0], made):
        return None
    total = made.get(op.operands[1])
    if total is None or total.kind != "add":
        return None
    a, b = total.operands
    exponential = made.get(b if _is_one(a, made) else a)
    if exponential is None or exponential.kind != "exponential" or not (_is_one(a, made) or _is_one(b, made)):
        return None
    negated = made.get(exponential.operands[0])
    return negated.operands[0] if negated is not None and negated.kind == "negate" else None


def _is_one(tensor: Tensor, made: dict[Tensor, Op]) -> bool:
    """Whether every element is the number one."""
    op = made.get(tensor)
    while op is not None and op.kind in ("broadcast", "reshape"):
        op = made.get(op.operands[0])
    if op is None or op.kind != "constant" or op.result.literal is None:
        return False
    return op.result.literal.rational == 1
