"""Exact rewritings of graphs that make spellings of one function alike, whatever framework they come from.

    1 / (1 + exp(-x))  is  logistic(x)

XLA and JAX write the right side out, PyTorch does not. Branches become selects (`branches.py`), indices that are
positions batch dims (`batched.py`).
"""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Op, Tensor

from .batched import batched
from .branches import selected
from .regions import everywhere, producers

BATCHED = ("gather", "scatter")


def normalise(graph: Graph, *, batches: bool = True) -> None:
    """Rewrites a graph and its regions in place; operands that nothing uses any more stay. `batches`: positions among
    indices become batch dims."""
    for op in graph.ops:
        for region in op.regions:
            normalise(region, batches=batches)
    made = producers(graph.ops)
    if any(op.kind == "conditional" for op in graph.ops):
        opened = ((selected(op, made) if op.kind == "conditional" else None) or [op] for op in graph.ops)
        graph.ops = [new for some in opened for new in some]
        made = producers(graph.ops)
    if batches and any(op.kind in BATCHED for op in graph.ops):
        graph.ops = [new for op in graph.ops for new in ((*batched(op, made), op) if op.kind in BATCHED else (op,))]
    for op in graph.ops:
        if op.kind == "divide" and (x := _logistic_argument(op, made)) is not None:
            op.kind, op.operands = "logistic", [x]


def _logistic_argument(op: Op, made: dict[Tensor, Op]) -> Tensor | None:
    """The x of `1 / (1 + exp(-x))`, of a quotient."""
    if everywhere(op.operands[0], made) != 1:
        return None
    total = made.get(op.operands[1])
    if total is None or total.kind != "add":
        return None
    a, b = total.operands if everywhere(total.operands[0], made) == 1 else total.operands[::-1]
    exponential = made.get(b)
    if exponential is None or exponential.kind != "exponential" or everywhere(a, made) != 1:
        return None
    negated = made.get(exponential.operands[0])
    return negated.operands[0] if negated is not None and negated.kind == "negate" else None
