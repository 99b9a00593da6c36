"""Distributed inputs that hold several inputs of the baseline in a row (one weight for its gate and up projections).

They are taken apart: every part becomes an input of its own, which the relations file places, and what the program
reads is put together from them. What it gives of such an input in the end (its value, its gradient) is cut likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Placement
from scalify_dl.readers.relations import Dims, InputRelation, Relations

from .pairing import find, find_one, listing
from .patterns import filled

__all__ = ["taken_apart"]


def taken_apart(base: Graph, dists: Sequence[Graph], mesh: Mesh, relations: Relations) -> Relations:
    """The relations of programs whose inputs were taken apart, as the relations say. InputError where they do not
    fit."""
    said: list[InputRelation] = []
    for relation in relations.inputs:
        if not relation.of:
            said.append(relation)
            continue
        names: dict[str, str] = {}
        for graph in dists:
            for position in find(graph.inputs, relation.key):
                of = [filled(text, relation.key, graph.inputs[position]) for text in relation.of]
                wholes = [base.inputs[find_one(base.inputs, text, relation.place, "baseline input")] for text in of]
                apart = _apart(graph, position, wholes, {port.path for port in base.outputs}, relation, mesh)
                names.update(zip(apart, of, strict=True))
        if not names:
            known = listing([port for graph in dists for port in graph.inputs])
            raise relation.place.error(f"inputs: no distributed input `{relation.key}`", expected=f"one of {known}")
        for n, (name, whole) in enumerate(names.items()):
            said.append(InputRelation(name, relation.place, whole, _dims(relation, n % len(relation.of))))
    return replace(relations, inputs=tuple(said))


def _dims(relation: InputRelation, part: int) -> Dims | None:
    return relation.dims[part] if isinstance(relation.dims, tuple) else relation.dims


def _apart(
    graph: Graph, position: int, wholes: Sequence[Port], given: set[str | None], relation: InputRelation, mesh: Mesh
) -> list[str]:
    """Takes one input apart; the names of its parts."""
    port, dim = graph.inputs[position], relation.dim
    tensor, called = port.tensor, port.path or port.tensor.name
    ends = [0, *accumulate(_extents(tensor, wholes, relation, mesh))]
    parts = [Port(Tensor(tensor.dtype, _with(tensor.shape, dim, hi - lo), f"{tensor.name}#{n}"), f"{called}#{n}")
             for n, (lo, hi) in enumerate(pairwise(ends))]  # fmt: skip
    graph.inputs[position] = parts[0]
    graph.inputs += parts[1:]
    graph.ops.insert(0, Op("concatenate", [p.tensor for p in parts], [tensor], tensor.name, {"dimension": [dim]}))
    outputs: list[Port] = []
    for out in graph.outputs:
        names = [(out.path or "").replace(called, whole.path or whole.tensor.name) for whole in wholes]
        about = out.holds is port or (called in (out.path or "") and given >= {*names})
        if not about or out.tensor.shape != tensor.shape:
            outputs.append(out)
            continue
        for n, (lo, hi) in enumerate(pairwise(ends)):
            start, limit = [0] * len(tensor.shape), list(tensor.shape)
            start[dim], limit[dim] = lo, hi
            numbers = {"start": start, "limit": limit, "stride": [1] * len(start)}
            cut = graph.add("slice", [out.tensor], name=f"{out.tensor.name}#{n}", numbers=numbers).result
            outputs.append(Port(cut, names[n], holds=parts[n] if out.holds is port else None))
    graph.outputs[:] = outputs
    return [part.path or "" for part in parts]


def _extents(tensor: Tensor, wholes: Sequence[Port], relation: InputRelation, mesh: Mesh) -> list[int]:
    """The size of every part, along the dim in which they follow each other."""
    dim = relation.dim
    for whole in wholes:
        if len(whole.tensor.shape) != len(tensor.shape) or not 0 <= dim < len(tensor.shape):
            raise relation.place.error(f"inputs: no dim {dim} in both {whole.tensor.type} and {tensor.type}")
    total = sum(whole.tensor.shape[dim] for whole in wholes)
    shapes: list[tuple[int, ...]] = []
    for n, whole in enumerate(wholes):
        shape, dims = whole.tensor.shape, _dims(relation, n)
        if dims is not None:
            shapes.append(Placement(dims).layout(shape, mesh).local_shape)
        else:
            shapes.append(_with(shape, dim, shape[dim] * tensor.shape[dim] // total))
    if sum(shape[dim] for shape in shapes) != tensor.shape[dim]:
        of = ", ".join(f"`{name}` {list(shape)}" for name, shape in zip(relation.of, shapes, strict=True))
        raise relation.place.error(f"inputs: {relation.key} is {tensor.type}; its parts make up another size: {of}")
    return [shape[dim] for shape in shapes]


def _with(shape: Sequence[int], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])
