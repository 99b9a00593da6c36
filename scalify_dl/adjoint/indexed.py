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


def _per_component(p: Program, op: Op, indices: Tensor, values: Sequence[int]) -> Tensor:
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
    if p.graph.lookups_fail:
        return indices
    if op.symbols.get("mode", ["clamp"])[0] == "wrap":
        negative = p.compare(indices, 0, direction="LT")
        indices = p.select(negative, p.add(indices, _per_component(p, op, indices, sizes)), indices)
    return p.clamp(p.full(0, indices.shape, indices.dtype), indices, _per_component(p, op, indices, room))


@vjp("scatter")
def scatter(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Of a sum: the operand's is as it is, an update's is read where it was added."""
    g, (x, indices, updates) = _one(gradients), op.operands
    if op.symbols.get("reducer", [""])[0] != "sum":
        raise NoAdjoint(f"no backward is known of writes that do not add up (`{op.name}`)")
    at = op.numbers
    window = at["update_window_dims"]
    gone = {*at["inserted_window_dims"], *at.get("input_batching_dims", [])}
    sizes = [1 if d in gone else 0 for d in range(len(x.shape))]
    for d, n in zip([d for d in range(len(x.shape)) if d not in gone], window, strict=True):
        sizes[d] = updates.shape[n]
    read = p.op(
        "gather", g, indices,
        attributes={
            "offset_dims": window, "collapsed_slice_dims": at["inserted_window_dims"],
            "start_index_map": at["scatter_dims_to_operand_dims"],
            "operand_batching_dims": at.get("input_batching_dims", []),
            "start_indices_batching_dims": at.get("scatter_indices_batching_dims", []),
            "index_vector_dim": at["index_vector_dim"][0], "slice_sizes": sizes,
        },
    ).result  # fmt: skip
    to = at["scatter_dims_to_operand_dims"]
    inside = _written(p, op, indices, [x.shape[d] - sizes[d] for d in to])
    others = [d for d in range(len(updates.shape)) if d not in window]
    mask = p.broadcast(inside, updates.shape, others)
    return [g, None, p.select(mask, read, p.full(0, read.shape, read.dtype))]


def _written(p: Program, op: Op, indices: Tensor, room: Sequence[int]) -> Tensor:
    """Which updates lie in the operand; the others are dropped."""
    (vector,) = op.numbers["index_vector_dim"]
    low = p.compare(indices, 0, direction="GE")
    high = p.compare(indices, _per_component(p, op, indices, room), direction="LE")
    both = getattr(p, "and")(low, high)
    return both if vector == len(indices.shape) else p.reduce(both, vector, "and")


@vjp("sort", "top-k")
def ordered(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """To the element that came to each place."""
    if len(op.operands) != 1 or op.regions:
        raise NoAdjoint(f"no backward is known of a sort of several values (`{op.name}`)")
    (x,), g = op.operands, gradients[0]
    assert g is not None
    if op.kind == "top-k":
        dim, places = len(x.shape) - 1, op.results[1]
    else:
        (dim,) = op.numbers["dimension"]
        index = p.iota(x.shape, dim)
        ties = {"stable": op.numbers["stable"][0]} if "stable" in op.numbers else {}
        types = [(x.dtype, x.shape), ("s32", x.shape)]
        direction = op.symbols["direction"][0]
        places = p.op("sort", x, index, types=types, dimension=dim, direction=direction, attributes=ties).results[1]
    wide = (*x.shape, g.shape[dim])  # every element beside every place
    kept = [d for d in range(len(x.shape)) if d != dim]
    moved = [d if d != dim else len(x.shape) for d in range(len(x.shape))]

    def spread(value: Tensor) -> Tensor:
        order = [*kept, dim]
        turned = p.transpose(value, *order) if order != sorted(order) else value
        return p.broadcast(turned, wide, [moved[d] for d in order])

    hit = p.compare(p.iota(wide, dim, places.dtype), spread(places), direction="EQ")
    return [p.reduce(p.select(hit, spread(g), p.full(0, wide, g.dtype)), len(x.shape))]
