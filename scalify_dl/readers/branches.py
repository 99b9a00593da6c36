"""Branches of which nobody notices whether they run: both are computed, and one is selected.

    y = conditional(p, f, g)(x)  is  select(p, f(x), g(x))

Exact, since a select takes nothing from what it does not select, infinities and NaN included. Not where a branch meets
other ranks, draws random numbers, calls what may have effects, may not come to an end, or is assumed to do
something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.ir.copies import copied
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.vocabulary import COLLECTIVES, RANDOM

__all__ = ["selected"]

_NOTICED = COLLECTIVES | RANDOM | {"send", "recv", "empty", "while", "conditional"}


def selected(op: Op, made: Mapping[Tensor, Op]) -> list[Op] | None:
    """The ops of all branches of a conditional, and selects that make its results; None where that may differ.
    `made` has the ops that make operands."""
    inside = [inner.kind for region in op.regions for inner in region.ops]
    if any(kind in _NOTICED or ":" in kind for kind in inside) or any(region.assumptions for region in op.regions):
        return None
    index, *arguments = op.operands
    graph = Graph()
    outcomes: list[list[Tensor]] = []
    for number, region in enumerate(op.regions):
        mine, arguments = arguments[: len(region.inputs)], arguments[len(region.inputs) :]
        known = dict(zip((port.tensor for port in region.inputs), mine, strict=True))
        graph.ops += [copied(inner, known, f"{op.name}.{number}/") for inner in region.ops]
        outcomes.append([known[port.tensor] for port in region.outputs])
    if len(outcomes) == 1:
        return None
    truth = _truth(index, made)
    if len(outcomes) == 2 and truth is not None:
        yes, no = outcomes if truth is index else outcomes[::-1]
        _select(graph, op, truth, yes, no, op.results)
        return graph.ops
    *before, chosen = outcomes
    for number, outcome in reversed(list(enumerate(before))):
        here = graph.constant(number, index.dtype, source=op.source)
        symbols = {"direction": ["EQ"]}
        taken = graph.add("compare", [index, here], symbols=symbols, source=op.source, layer=op.layer, at=op.at).result
        chosen = _select(graph, op, taken, outcome, chosen, op.results if number == 0 else None)
    return graph.ops


def _truth(index: Tensor, made: Mapping[Tensor, Op]) -> Tensor | None:
    """The truth value by which one of two branches is taken: the index itself, where the first one is taken if it is
    true; or what the index was converted from, where the second one is."""
    if index.dtype == "pred":
        return index
    op = made.get(index)
    return op.operands[0] if op is not None and op.kind == "convert" and op.operands[0].dtype == "pred" else None


def _select(
    graph: Graph, op: Op, truth: Tensor, yes: Sequence[Tensor], no: Sequence[Tensor], into: Sequence[Tensor] | None
) -> list[Tensor]:
    """The values of one branch or else those of another one: new ones, or `into`."""
    found = []
    for k, (one, other) in enumerate(zip(yes, no, strict=True)):
        here = truth
        if one.shape:
            types = [("pred", one.shape)]
            here = graph.add("broadcast", [truth], types, numbers={"dimensions": []}, source=op.source).result
        new = graph.add("select", [here, one, other], name=op.name, source=op.source, layer=op.layer, at=op.at)
        if into is not None:
            new.results = [into[k]]
        found.append(new.result)
    return found
