"""Access by index: embeddings, gathers, scatters, advanced indexing, sorting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from types import MappingProxyType

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from ...reductions import identity
from ..dtypes import is_integer
from .core import Context, Number, Unsupported, lower, whole
from .dims import Shape, axis, broadcast_shape

NO_BATCH: dict[str, list[int]] = {"operand_batching_dims": [], "start_indices_batching_dims": []}


def take(c: Context, x: Tensor, dim: int, index: Tensor, wrap: bool = False) -> Tensor:
    """Whole slices of x along a dim, at every index: dims of the index in the place of `dim`."""
    rank = len(index.shape)
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    numbers = {
        "offset_dims": [*range(dim), *range(dim + rank, len(shape))],
        "collapsed_slice_dims": [dim],
        "start_index_map": [dim],
        **NO_BATCH,
        "slice_sizes": [1 if d == dim else n for d, n in enumerate(x.shape)],
        "index_vector_dim": [rank],
    }
    return _gathered(c, x, index, shape, numbers, wrap)


def _gathered(
    c: Context, x: Tensor, index: Tensor, shape: Shape, numbers: dict[str, list[int]], wrap: bool = True
) -> Tensor:
    """A gather; of no elements there is none, where what one takes may not fit into what it is taken from."""
    if not prod(shape):
        return c.splat(0, x.dtype, shape)
    return c.emit("gather", (x, index), x.dtype, shape, numbers, {"mode": ["wrap"]} if wrap else None)


def along(c: Context, x: Tensor, dim: int, index: Tensor, wrap: bool = False) -> Tensor:
    """One element of x along a dim for every other position: `x[i, index[i, j], k]` → `[i, j…, k]` for dims kept.

    The index has the dims of x but `dim`, in order, then any others.
    """
    batch = [d for d in range(len(x.shape)) if d != dim]
    if tuple(x.shape[d] for d in batch) != index.shape[: len(batch)]:
        raise InputError(f"index {index.type} does not fit the dims {batch} of {x.type}")
    numbers: dict[str, list[int]] = {
        "offset_dims": [],
        "collapsed_slice_dims": [dim],
        "start_index_map": [dim],
        "operand_batching_dims": batch,
        "start_indices_batching_dims": list(range(len(batch))),
        "slice_sizes": [1] * len(x.shape),
        "index_vector_dim": [len(index.shape)],
    }
    return _gathered(c, x, index, index.shape, numbers, wrap)


@lower("aten.embedding")
def embedding(
    c: Context, weight: Tensor, index: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Whole rows; the other arguments are about gradients."""
    return take(c, weight, 0, index)


@lower("aten.index_select")
def index_select(c: Context, x: Tensor, dim: int, index: Tensor) -> Tensor:
    return take(c, x, axis(dim, len(x.shape)), index if index.shape else c.reshape(index, (1,)))


@lower("aten.gather")
def gather(c: Context, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """`out[i][j] = x[i][index[i][j]]`"""
    if not x.shape:
        return c.broadcast(x, index.shape)
    d = axis(dim, len(x.shape))
    narrow = x
    for e, n in enumerate(index.shape):
        if e != d:
            narrow = c.slice(narrow, e, 0, n)
    order = [e for e in range(len(x.shape)) if e != d] + [d]
    picked = along(c, narrow, d, c.transpose(index, order))
    return c.transpose(picked, [order.index(e) for e in range(len(order))])


@lower("aten.take_along_dim")
def take_along_dim(c: Context, x: Tensor, index: Tensor, dim: int) -> Tensor:
    d = axis(dim, len(x.shape))
    shape = list(broadcast_shape(Tensor("", _but(x.shape, d)), Tensor("", _but(index.shape, d))))
    wide = c.broadcast(x, (*shape[:d], x.shape[d], *shape[d + 1 :]))
    return gather(c, wide, d, c.broadcast(index, (*shape[:d], index.shape[d], *shape[d + 1 :])))


def _but(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], 1, *shape[dim + 1 :])


def _indices(c: Context, indices: Sequence[Tensor | None], rank: int) -> list[tuple[int, Tensor]]:
    """(dim, index) of every indexed dim; bytes are a mask, as booleans are."""
    if len(indices) > rank:
        raise InputError(f"{len(indices)} indices of a tensor with {rank} dims")
    given = [(d, index) for d, index in enumerate(indices) if index is not None]
    return [(d, c.convert(index, "pred") if index.dtype == "u8" else index) for d, index in given]


@lower("aten.index", "aten._unsafe_index")
def index(c: Context, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Advanced indexing; negative indices wrap.

    An index that is `position along a dim of the result (+ offset)` and nothing else is no gather: it makes its dim of
    x a dim of the result (a slice of it, where it does not cover all).
    """
    given = _indices(c, indices, len(x.shape))
    if any(not is_integer(i.dtype) for _, i in given):
        raise Unsupported("indexing by a mask has a data-dependent shape")
    if not given:
        return x
    shape = broadcast_shape(*[i for _, i in given])
    dims = [d for d, _ in given]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    positions = {d: p for d, i in given if (p := _position(c, i, x.shape[d], shape)) is not None}
    if len({dim for dim, _ in positions.values()}) < len(positions) or len(given) - len(positions) > 1:
        positions = {}
    for d, (dim, start) in positions.items():
        x = c.slice(x, d, start, start + shape[dim])
    batched = {d: dim for d, (dim, _) in positions.items()}
    picked = [(d, i) for d, i in given if d not in positions]
    if len(picked) > 1:
        result = _gather_nd(c, x, picked, shape)
    elif picked:
        result = _one_index(c, x, picked[0][0], picked[0][1], batched, shape)
    else:
        rest = [d for d in range(len(x.shape)) if d not in batched]
        front = sorted(batched, key=lambda d: batched[d])
        moved = c.transpose(x, [*front, *rest])
        full = (*shape, *[x.shape[d] for d in rest])
        kept = [batched[d] for d in front] + list(range(len(shape), len(full)))
        result = c.spread(moved, full, kept)
    if adjacent and dims[0]:
        # the result has the index dims first; torch puts adjacent ones where the first indexed dim was
        rank, lead = len(result.shape), dims[0]
        order = [*range(len(shape), len(shape) + lead), *range(len(shape)), *range(len(shape) + lead, rank)]
        result = c.transpose(result, order)
    return result


def _position(c: Context, i: Tensor, size: int, shape: Shape) -> tuple[int, int] | None:
    """(dim of the broadcast index, offset) of an index that is a position along that dim, within the size."""
    if i not in c.iotas:
        return None
    dim, offset = c.iotas[i]
    extent = i.shape[dim]
    dim += len(shape) - len(i.shape)
    return (dim, offset) if shape[dim] == extent and 0 <= offset <= size - extent else None


def _one_index(c: Context, x: Tensor, dim: int, i: Tensor, batched: dict[int, int], shape: Shape) -> Tensor:
    """One data-dependent index beside positions: a gather with batch dims; index dims first, then x's others."""
    rest = [d for d in range(len(x.shape)) if d not in batched and d != dim]
    wide = c.broadcast(i, shape)
    if not batched:
        taken = take(c, x, dim, wide, wrap=True)
        before = [d for d in rest if d < dim]
        order = [*range(len(before), len(before) + len(shape)), *range(len(before))]
        return c.transpose(taken, [*order, *range(len(order), len(taken.shape))])
    numbers = {
        "offset_dims": list(range(len(shape), len(shape) + len(rest))),
        "collapsed_slice_dims": [dim],
        "start_index_map": [dim],
        "operand_batching_dims": sorted(batched),
        "start_indices_batching_dims": [batched[d] for d in sorted(batched)],
        "slice_sizes": [x.shape[d] if d in rest else 1 for d in range(len(x.shape))],
        "index_vector_dim": [len(shape)],
    }
    full = (*shape, *[x.shape[d] for d in rest])
    return _gathered(c, x, wide, full, numbers)


def _gather_nd(c: Context, x: Tensor, picked: list[tuple[int, Tensor]], shape: Shape) -> Tensor:
    """Several data-dependent indices: a gather with index vectors; index dims first, then x's others."""
    vectors = _vectors(c, [i for _, i in picked], shape)
    dims = [d for d, _ in picked]
    rest = [d for d in range(len(x.shape)) if d not in dims]
    numbers = {
        "offset_dims": list(range(len(shape), len(shape) + len(rest))),
        "collapsed_slice_dims": dims,
        "start_index_map": dims,
        **NO_BATCH,
        "slice_sizes": [x.shape[d] if d in rest else 1 for d in range(len(x.shape))],
        "index_vector_dim": [len(shape)],
    }
    full = (*shape, *[x.shape[d] for d in rest])
    return _gathered(c, x, vectors, full, numbers)


def _vectors(c: Context, indices: Sequence[Tensor], shape: Shape) -> Tensor:
    """Index tensors of one shape, stacked as a last dim."""
    return c.concatenate([c.reshape(c.broadcast(c.convert(i, "s64"), shape), (*shape, 1)) for i in indices], len(shape))


# --- writes ----------------------------------------------------------------------------------------------------------


@lower("aten.index_put", "aten._unsafe_index_put", "aten.index_put_", "aten._index_put_impl")
def index_put(
    c: Context, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:  # fmt: skip
    """A mask with one value (or values that broadcast) is a select; indices are a scatter of whole slices.

    `unsafe`: indices are not looked at before; they are in range here in any case."""
    given = _indices(c, indices, len(x.shape))
    if len(given) == 1 and given[0][1].dtype == "pred":
        d, mask = given[0]
        if values.shape and any(
            n != 1 for n in values.shape[: max(len(values.shape) - len(x.shape) + d + len(mask.shape), 1)]
        ):
            raise Unsupported("index_put of as many values as a mask has ones")
        if x.shape[d : d + len(mask.shape)] != mask.shape:
            raise InputError(f"mask {mask.type} does not fit {x.type}")
        wide = c.spread(mask, x.shape, range(d, d + len(mask.shape)))
        value = (
            values
            if not values.shape
            else c.reshape(values, values.shape[-(len(x.shape) - d - len(mask.shape)) :] or ())
        )
        if accumulate:
            return c.add(x, c.select(wide, c.operand(value, x.dtype, x.shape), 0, dtype=x.dtype))
        return c.select(wide, value, x, dtype=x.dtype)
    if any(not is_integer(i.dtype) for _, i in given):
        raise Unsupported("index_put by several masks")
    if not given:
        whole_values = c.operand(values, x.dtype, x.shape)
        return c.add(x, whole_values) if accumulate else whole_values
    shape = broadcast_shape(*[i for _, i in given])
    dims = [d for d, _ in given]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    lead = dims[0] if adjacent else 0  # the dims of the index stand where the first indexed one was, else in front
    rest = [n for d, n in enumerate(x.shape) if d not in dims]
    updates = c.operand(values, x.dtype, (*rest[:lead], *shape, *rest[lead:]))
    made = c.producers.get(x)
    whole = dims == [0] and given[0][1] in c.permutations and given[0][1].shape == x.shape[:1]
    if made is not None and made.kind == "empty" and whole and not accumulate:
        x = c.splat(0, x.dtype, x.shape)  # every element is written: what was there does not matter
    places = {d: p[0] for d, i in given if (p := _position(c, i, x.shape[d], shape)) and shape[p[0]] == x.shape[d]}
    leading = dims == list(range(len(dims)))
    if leading and len(places) == len(given) - 1 == len(set(places.values())):  # one element in every row
        ((d, index),) = [(d, i) for d, i in given if d not in places]
        vector = c.broadcast(_wrapped(c, index, x.shape[d]), shape)
        return scatter_slices(c, x, [d], vector, updates, "sum" if accumulate else "replace", len(shape), places)
    wrapped = [_wrapped(c, i, x.shape[d]) for d, i in given]
    vector = wrapped[0] if len(wrapped) == 1 else _vectors(c, wrapped, shape)
    if len(wrapped) == 1:
        vector = c.broadcast(vector, shape)
    return scatter_slices(c, x, dims, vector, updates, "sum" if accumulate else "replace", len(shape), lead=lead)


def _wrapped(c: Context, i: Tensor, size: int) -> Tensor:
    """Negative indices counted from the end."""
    return c.select(c.compare("LT", i, 0), c.add(i, size), i, dtype=i.dtype)


def scatter_slices(
    c: Context, x: Tensor, dims: list[int], index: Tensor, updates: Tensor, reducer: str, rank: int,
    batched: Mapping[int, int] = MappingProxyType({}), lead: int = 0,
) -> Tensor:  # fmt: skip
    """Whole slices of x's other dims, written or accumulated at every index (`rank` index dims stand in the updates
    behind `lead` others); `batched` dims of x go along with a dim of the index."""
    numbers = {
        "update_window_dims": [d for d in range(len(updates.shape)) if not lead <= d < lead + rank],
        "inserted_window_dims": dims,
        "scatter_dims_to_operand_dims": dims,
        "input_batching_dims": sorted(batched),
        "scatter_indices_batching_dims": [batched[d] for d in sorted(batched)],
        "index_vector_dim": [rank],
    }
    return c.emit("scatter", (x, index, updates), x.dtype, x.shape, numbers, {"reducer": [reducer]})


@lower("aten.embedding_dense_backward")
def embedding_dense_backward(
    c: Context, grad: Tensor, index: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """Rows of the gradient added up at their index; the padding row gets none."""
    if scale_grad_by_freq:
        raise Unsupported("embedding gradient scaled by frequency")
    if padding_idx >= 0:
        kept = c.compare("NE", index, padding_idx)
        grad = c.select(c.spread(kept, grad.shape, range(len(index.shape))), grad, 0, dtype=grad.dtype)
    zeros = c.splat(0, grad.dtype, (num_weights, grad.shape[-1]))
    return scatter_slices(c, zeros, [0], index, grad, "sum", len(index.shape))


@lower("aten.index_add")
def index_add(c: Context, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    if (factor := whole(alpha, source.dtype)) != 1:
        source = c.multiply(source, factor)
    return _by_row(c, x, dim, index, source, "sum")


@lower("aten.index_copy")
def index_copy(c: Context, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _by_row(c, x, dim, index, source, "replace")


def _by_row(c: Context, x: Tensor, dim: int, index: Tensor, source: Tensor, reducer: str) -> Tensor:
    d = axis(dim, len(x.shape))
    numbers = {
        "update_window_dims": [e for e in range(len(x.shape)) if e != d],
        "inserted_window_dims": [d],
        "scatter_dims_to_operand_dims": [d],
        "input_batching_dims": [],
        "scatter_indices_batching_dims": [],
        "index_vector_dim": [len(index.shape)],
    }
    return c.emit("scatter", (x, index, c.convert(source, x.dtype)), x.dtype, x.shape, numbers, {"reducer": [reducer]})


@lower(
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter_add",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
    "aten.scatter_reduce",
)
def scatter(
    c: Context, x: Tensor, dim: int, index: Tensor, src: Tensor | Number, reduction: str = "", *, reduce: str = "",
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """`x[i][index[i][j]] ∘= src[i][j]`: a scatter of single elements with every other dim a batch dim."""
    names = {
        "sum": "sum",
        "add": "sum",
        "prod": "prod",
        "multiply": "prod",
        "amax": "max",
        "amin": "min",
        "": "replace",
    }
    reducer = "sum" if "scatter_add" in c.target else names.get(reduction or reduce)
    if reducer is None:
        raise Unsupported("scatter with this reduction")
    if not x.shape:
        values = c.reshape(src, (1,)) if isinstance(src, Tensor) else src
        where, into = c.reshape(index, (1,)), c.reshape(x, (1,))
        return c.reshape(scatter(c, into, 0, where, values, reduction, reduce=reduce, include_self=include_self), ())
    d = axis(dim, len(x.shape))
    if isinstance(src, Tensor):
        for e, n in enumerate(index.shape):
            src = c.slice(src, e, 0, n)
    updates = c.operand(src, x.dtype, index.shape)
    if any(index.shape[e] != x.shape[e] for e in range(len(x.shape)) if e != d):
        raise Unsupported("scatter into a part of the other dims")
    order = [e for e in range(len(x.shape)) if e != d]
    batch = len(order)
    numbers: dict[str, list[int]] = {
        "update_window_dims": [],
        "inserted_window_dims": [d],
        "scatter_dims_to_operand_dims": [d],
        "input_batching_dims": order,
        "scatter_indices_batching_dims": list(range(batch)),
        "index_vector_dim": [len(x.shape)],
    }
    where, updates = c.transpose(index, [*order, d]), c.transpose(updates, [*order, d])
    if not include_self:  # what is written to starts from nothing
        neutral = identity(reducer, x.dtype)
        least = -inf if reducer == "max" else inf
        nothing = c.splat(least if neutral is None else neutral, x.dtype, updates.shape)
        x = c.emit("scatter", (x, where, nothing), x.dtype, x.shape, numbers, {"reducer": ["replace"]})
    return c.emit("scatter", (x, where, updates), x.dtype, x.shape, numbers, {"reducer": [reducer]})


# --- order -----------------------------------------------------------------------------------------------------------


@lower("aten.topk")
def topk(
    c: Context, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """Values and indices; along the last dim, moved there if need be. The smallest are the first of all in order."""
    if not largest:
        values, indices = sort(c, x, dim)
        if not x.shape:
            return values, indices
        c.graph.assume(indices, "equal elements are found as by `sort`", "the smallest of a top-k")
        d = axis(dim, len(x.shape))
        return c.slice(values, d, 0, k), c.slice(indices, d, 0, k)
    d, rank = axis(dim, len(x.shape)), len(x.shape)
    order = [e for e in range(rank) if e != d] + [d]
    moved = c.transpose(x, order)
    shape = (*moved.shape[:-1], k)
    values, indices = c.op("top-k", (moved,), ((x.dtype, shape), ("s64", shape)), {"k": [k], "stable": [0]}).results
    if not sorted:
        c.graph.assume(values, "the largest are found from the largest on", "top-k with sorted=False has no order")
    back = [order.index(e) for e in range(rank)]
    return c.transpose(values, back), c.transpose(indices, back)


@lower("aten.sort")
def sort(
    c: Context, x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Tensor, Tensor]:
    if not x.shape:
        return x, c.scalar(0, "s64")
    d = axis(dim, len(x.shape))
    symbols = {"direction": ["DESC" if descending else "ASC"]}
    order = c.iota("s64", x.shape, d)
    types = ((x.dtype, x.shape), ("s64", x.shape))
    numbers = {"dimension": [d], "stable": [int(bool(stable))]}
    values, indices = c.op("sort", (x, order), types, numbers, symbols).results
    if len(x.shape) == 1:
        c.permutations.add(indices)
    return values, indices


@lower("aten.argsort")
def argsort(c: Context, x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Tensor:
    return sort(c, x, dim, descending, stable=stable)[1]
