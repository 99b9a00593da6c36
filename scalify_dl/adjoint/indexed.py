"""Indexed access: what is read has its gradient written to the same place, and the reverse."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, vjp
from .structural import _one


@vjp("dynamic-slice")
def dynamic_slice(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Written among zeros."""
    x, *starts = op.operands
    made = p.dynamic_update_slice(p.full(0, x.shape, x.dtype), _one(gradients), starts)
    return [made, *[None] * len(starts)]


@vjp("dynamic-update-slice")
def dynamic_update_slice(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """The window goes to what was written, the rest to what was there."""
    g, (_, update, *starts) = _one(gradients), op.operands
    there = p.dynamic_update_slice(g, p.full(0, update.shape, g.dtype), starts)
    return [there, p.dynamic_slice(g, starts, update.shape), *[None] * len(starts)]


@vjp("gather")
def gather(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Added up where it was read."""
    x, indices = op.operands
    at = op.numbers
    where = _in_range(p, op, x, indices)
    made = p.op(
        "scatter", p.full(0, x.shape, x.dtype), where, _one(gradients), reducer="sum",
        attributes={
            "update_window_dims": at["offset_dims"], "inserted_window_dims": at["collapsed_slice_dims"],
            "scatter_dims_to_operand_dims": at["start_index_map"],
            "input_batching_dims": at.get("operand_batching_dims", []),
            "scatter_indices_batching_dims": at.get("start_indices_batching_dims", []),
            "index_vector_dim": at["index_vector_dim"][0],
        },
    )  # fmt: skip
    return [made.result, None]


def per_component(p: Program, op: Op, indices: Tensor, values: Sequence[int]) -> Tensor:
    """A number for each component of the indices, in their shape."""
    (vector,) = op.numbers["index_vector_dim"]
    if len(set(values)) < 2:
        return p.full(values[0] if values else 0, indices.shape, indices.dtype)
    parts = [p.full(n, (1,), indices.dtype) for n in values]
    return p.broadcast(p.concatenate(parts, 0), indices.shape, [vector])


def _in_range(p: Program, op: Op, x: Tensor, indices: Tensor) -> Tensor:
    """Indices as a gather reads them: brought into the operand."""
    if x.shape and 0 in x.shape:
        raise NoAdjoint(f"`{op.name}` reads a value without elements")
    sizes = [x.shape[d] for d in op.numbers["start_index_map"]]
    room = [x.shape[d] - op.numbers["slice_sizes"][d] for d in op.numbers["start_index_map"]]
    if op.symbols.get("mode", ["clamp"])[0] == "wrap":
        negative = p.compare(indices, 0, direction="LT")
        indices = p.select(negative, p.add(indices, per_component(p, op, indices, sizes)), indices)
    if p.graph.lookups_fail:
        return indices
    return p.clamp(p.full(0, indices.shape, indices.dtype), indices, per_component(p, op, indices, room))


@vjp("sort", "top-k")
def ordered(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """To the element that came to each place."""
    if op.regions:
        raise NoAdjoint(f"no backward is known of a sort by a comparison that is not recognised (`{op.name}`)")
    x = op.operands[0]
    if op.kind == "top-k":
        dim, places, gradients = len(x.shape) - 1, op.results[1], gradients[:1]
    else:
        (dim,) = op.numbers["dimension"]
        index = p.iota(x.shape, dim)
        ties = {"stable": op.numbers["stable"][0]} if "stable" in op.numbers else {}
        types = [*((t.dtype, t.shape) for t in op.operands), ("s32", x.shape)]
        direction = op.symbols["direction"][0]
        places = p.op(
            "sort", *op.operands, index, types=types, dimension=dim, direction=direction, attributes=ties
        ).results[-1]
    wide = (*x.shape, places.shape[dim])  # every element beside every place
    kept = [d for d in range(len(x.shape)) if d != dim]
    moved = [d if d != dim else len(x.shape) for d in range(len(x.shape))]

    def spread(value: Tensor) -> Tensor:
        order = [*kept, dim]
        turned = p.transpose(value, *order) if order != sorted(order) else value
        return p.broadcast(turned, wide, [moved[d] for d in order])

    hit = p.compare(p.iota(wide, dim, places.dtype), spread(places), direction="EQ")
    return [
        p.reduce(p.select(hit, spread(g), p.full(0, wide, g.dtype)), len(x.shape)) if g is not None else None
        for g in gradients
    ]
