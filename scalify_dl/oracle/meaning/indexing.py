"""Indexed access and order: gather, scatter, sort, top-k. Gather and scatter as XLA defines them."""

from __future__ import annotations

import numpy as np

from .base import Array, Call, Unsupported, meaning, reducer


def _starts(
    call: Call,
    indices: Array,
    rank: int,
    mapped: list[int],
    batching: tuple[list[int], list[int]],
    wrap: tuple[int, ...],
) -> tuple[list[Array], tuple[int, ...]]:
    """Per operand dim the start of each window, over the batch dims of the indices; and those dims' shape."""
    at = call.number("index_vector_dim")
    vectors = indices[..., None] if at == indices.ndim else np.moveaxis(indices, at, -1)
    batch = vectors.shape[:-1]
    starts = [np.zeros(batch, dtype=np.int64) for _ in range(rank)]
    for component, dim in enumerate(mapped):
        start = vectors[..., component]
        if start.dtype == np.uint64:  # beyond all that an index can be, but not below zero
            start = np.minimum(start, np.uint64(2**62))
        start = start.astype(np.int64)
        starts[dim] = np.where(start < 0, start + wrap[dim], start) if wrap else start
    for dim, index_dim in zip(*batching, strict=True):
        position = index_dim - (index_dim > at)
        shape = [1] * len(batch)
        shape[position] = batch[position]
        starts[dim] = np.broadcast_to(np.arange(batch[position]).reshape(shape), batch)
    return starts, batch


def _spread(starts: list[Array], sizes: list[int], window_dims: list[int], batch: tuple[int, ...]) -> list[Array]:
    """Index arrays over batch dims and then window dims."""
    spread = []
    for dim, start in enumerate(starts):
        index = start.reshape(batch + (1,) * len(window_dims))
        if dim in window_dims:
            shape = [1] * (len(batch) + len(window_dims))
            shape[len(batch) + window_dims.index(dim)] = sizes[dim]
            index = index + np.arange(sizes[dim]).reshape(shape)
        spread.append(index)
    return spread


@meaning("gather")
def gather(call: Call, xs: list[Array]) -> list[Array]:
    """Windows of `slice_sizes` at the starts that the indices give, clamped so that they fit."""
    x, indices = xs
    sizes = call.numbers("slice_sizes", [])
    batching = call.numbers("operand_batching_dims", []), call.numbers("start_indices_batching_dims", [])
    wrap = x.shape if call.symbol("mode", "clamp") == "wrap" else ()
    starts, batch = _starts(call, indices, x.ndim, call.numbers("start_index_map", []), batching, wrap)
    starts = [np.clip(s, 0, n - size) for s, n, size in zip(starts, x.shape, sizes, strict=True)]
    gone = {*call.numbers("collapsed_slice_dims", []), *batching[0]}
    window_dims = [d for d in range(x.ndim) if d not in gone]
    found = x[tuple(_spread(starts, sizes, window_dims, batch))] if x.ndim else np.broadcast_to(x, batch)
    found = np.broadcast_to(found, batch + tuple(sizes[d] for d in window_dims))
    offsets = call.numbers("offset_dims", [])
    return [np.moveaxis(found, range(len(batch), found.ndim), offsets)]


@meaning("scatter")
def scatter(call: Call, xs: list[Array]) -> list[Array]:
    """x with windows combined by the reducer; windows that do not fit are dropped."""
    if len(xs) != 3:
        raise Unsupported(f"scatter of op {call.op.id} has {len(xs)} operands")
    x, indices, updates = xs
    batching = call.numbers("input_batching_dims", []), call.numbers("scatter_indices_batching_dims", [])
    starts, batch = _starts(call, indices, x.ndim, call.numbers("scatter_dims_to_operand_dims", []), batching, ())
    update_window = call.numbers("update_window_dims", [])
    gone = {*call.numbers("inserted_window_dims", []), *batching[0]}
    window_dims = [d for d in range(x.ndim) if d not in gone]
    sizes = [1] * x.ndim
    for dim, source in zip(window_dims, update_window, strict=True):
        sizes[dim] = updates.shape[source]
    values = np.moveaxis(updates, update_window, range(updates.ndim - len(update_window), updates.ndim))
    fits = np.ones(batch, dtype=bool)
    for start, n, size in zip(starts, x.shape, sizes, strict=True):
        fits &= (start >= 0) & (start + size <= n)
    index = [np.broadcast_to(i, values.shape) for i in _spread(starts, sizes, window_dims, batch)]
    keep = np.broadcast_to(fits.reshape(batch + (1,) * len(window_dims)), values.shape)
    result = np.array(x)
    where = tuple(i[keep] for i in index)
    name = call.symbol("reducer", "replace")
    if not where:  # a scalar
        for value in values[keep].astype(x.dtype):
            result = np.asarray(value if name == "replace" else reducer(name)(result, value))
    elif name == "replace":
        result[where] = values[keep]
    else:
        reducer(name).at(result, where, values[keep].astype(x.dtype))
    return [result]


@meaning("sort")
def sort(call: Call, xs: list[Array]) -> list[Array]:
    """All operands in the order of the first along `dimension`; equal keys keep their order."""
    axis, direction = call.number("dimension"), call.symbol("direction", "region")
    if direction not in ("ASC", "DESC"):
        raise Unsupported(f"sort of op {call.op.id} has a comparator that was not recognised")
    keys = xs[0]
    if direction == "ASC":
        order = np.argsort(keys, axis=axis, kind="stable")
    else:
        turned = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
        order = np.flip(keys.shape[axis] - 1 - turned, axis)
    return [np.take_along_axis(x, order, axis=axis) for x in xs]


@meaning("top-k")
def top_k(call: Call, xs: list[Array]) -> list[Array]:
    """The k largest along the last dim, descending, lowest index first; and their indices."""
    x, k = xs[0], call.number("k")
    turned = np.argsort(np.flip(x, -1), axis=-1, kind="stable")
    order = np.flip(x.shape[-1] - 1 - turned, -1)[..., :k]
    return [np.take_along_axis(x, order, axis=-1), order]
