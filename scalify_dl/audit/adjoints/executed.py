"""The backward of a program of one device, derived and run: gradients as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalify_dl.adjoint import NoAdjoint, backward
from scalify_dl.adjoint.run import ONE, executed
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.readers.normalise import normalise

Array = np.ndarray[Any, Any]


def gradients(
    graph: Graph, inputs: Sequence[Array], cotangents: Mapping[int, Array]
) -> tuple[dict[int, Array], dict[str, str], set[int]]:
    """Gradients by input, given those of outputs by position; what kinds have no backward, and why; the outputs that
    are left when those are left out which depend on such."""
    normalise(graph)
    outputs, size = [port.tensor for port in graph.outputs], len(graph.ops)
    wrt = [port.tensor for port in graph.inputs if port.tensor.dtype[0] in "fb"]
    left, why = set(cotangents), dict[str, str]()
    p = Program("backward", ONE, graph)
    seeds = {n: p.graph.input(f"cotangent.{n}", outputs[n].dtype, outputs[n].shape) for n in sorted(left)}
    while True:
        try:
            given = _summed(p, {n: seeds[n] for n in left}, outputs)
            made = backward(p, given, wrt)
            break
        except NoAdjoint as error:
            without, text = error.op, error.message
        if without is None:
            raise ValueError(text)
        why[without.kind] = text
        p.take_back(size)
        left -= _behind(graph, without, outputs)
    graph.outputs = []
    at = {port.tensor: n for n, port in enumerate(graph.inputs)}
    asked = [(at[x], g) for x, g in zip(wrt, made, strict=True) if g is not None]
    for _, g in asked:
        graph.output(g)
    numbers = executed(graph, [*inputs, *(cotangents[n] for n in sorted(cotangents))])
    return {n: g for (n, _), g in zip(asked, numbers, strict=True)}, why, left


def slope(
    graph: Graph, inputs: Sequence[Array], n: int, way: Array, cotangents: Mapping[int, Array], step: float = 1e-6
) -> float:
    """By how much the outputs, weighed by their cotangents, grow as input n goes some way, by a difference quotient."""
    sides = []
    for sign in (1, -1):
        moved = [*inputs[:n], inputs[n] + sign * step * way, *inputs[n + 1 :]]
        values = executed(graph, moved)
        sides.append(sum(float((values[m] * g).sum()) for m, g in cotangents.items()))
    return (sides[0] - sides[1]) / (2 * step)


def _summed(p: Program, seeds: Mapping[int, Tensor], outputs: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    """One gradient for each value, which may be an output several times."""
    found: dict[Tensor, Tensor] = {}
    for n, seed in seeds.items():
        found[outputs[n]] = p.add(found[outputs[n]], seed) if outputs[n] in found else seed
    return found


def _behind(graph: Graph, op: Op, outputs: Sequence[Tensor]) -> set[int]:
    """The outputs that depend on an op."""
    reached = set(op.results)
    for other in graph.ops:
        if not reached.isdisjoint(other.operands):
            reached.update(other.results)
    return {n for n, t in enumerate(outputs) if t in reached}
