"""Shape rules of contractions, indexed access, windows, attention and collectives (see `shapes`)."""

from __future__ import annotations

from math import prod

from scalify_dl.errors import InputError

from .graph import Op
from .shapes import Type, dim, dims, number, numbers, operands, require, rule


@rule("dot")
def dot(op: Op, declared: Type | None) -> list[Type]:
    """Batch dims, then lhs free, then rhs free."""
    lhs, rhs = operands(op, 2)
    batch = dims(op, "lhs_batch_dims", len(lhs.shape)), dims(op, "rhs_batch_dims", len(rhs.shape))
    contract = dims(op, "lhs_contracting_dims", len(lhs.shape)), dims(op, "rhs_contracting_dims", len(rhs.shape))
    for left, right in (batch, contract):
        if [lhs.shape[d] for d in left] != [rhs.shape[d] for d in right]:
            raise InputError(f"`{op.name}`: dims {left} of {lhs.type} and {right} of {rhs.type} do not match")
    free_l = [n for d, n in enumerate(lhs.shape) if d not in batch[0] and d not in contract[0]]
    free_r = [n for d, n in enumerate(rhs.shape) if d not in batch[1] and d not in contract[1]]
    dtype = declared[0] if declared else lhs.dtype
    return [(dtype, (*(lhs.shape[d] for d in batch[0]), *free_l, *free_r))]


def window_size(op: Op, size: int, i: int, window: list[int]) -> int:
    """Result size along window dim i over an operand dim of `size`."""

    def at(key: str, default: int) -> int:
        values = numbers(op, key)
        return values[i] if values else default

    for key in ("window_stride", "window_dilation", "base_dilation"):
        require(at(key, 1) > 0, f"`{op.name}` ({op.kind}): {key}={numbers(op, key)} must be positive")
    dilated = window[i] + (window[i] - 1) * (at("window_dilation", 1) - 1) if window[i] else 0
    base = size + max(size - 1, 0) * (at("base_dilation", 1) - 1)
    padded = base + at("window_pad_low", 0) + at("window_pad_high", 0)
    return max((padded - dilated) // at("window_stride", 1) + 1, 0)


@rule("reduce-window")
def reduce_window(op: Op, declared: Type | None) -> list[Type]:
    """One window dim per operand dim."""
    x = operands(op, 1, more=True)[0]
    window = numbers(op, "window_size")
    require(len(window) == len(x.shape), f"`{op.name}`: a window of {len(window)} dims over {x.type}")
    shape = tuple(window_size(op, n, i, window) for i, n in enumerate(x.shape))
    return [(t.dtype, shape) for t in op.operands]


@rule("select-and-scatter")
def select_and_scatter(op: Op, declared: Type | None) -> list[Type]:
    """The first operand's shape."""
    x, _ = operands(op, 2)
    return [(x.dtype, x.shape)]


@rule("convolution")
def convolution(op: Op, declared: Type | None) -> list[Type]:
    """Batch and feature as labelled, windows along the spatial dims."""
    x, w = operands(op, 2)
    spatial = dims(op, "input_spatial", len(x.shape))
    kernel = dims(op, "kernel_spatial", len(w.shape))
    out = dims(op, "output_spatial", len(x.shape))
    require(
        len(spatial) == len(kernel) == len(out) == len(x.shape) - 2 and len(w.shape) == len(x.shape),
        f"`{op.name}`: dim labels do not fit {x.type} and {w.type}",
    )
    window = [w.shape[d] for d in kernel]
    groups = (numbers(op, "feature_group_count") or [1])[0]
    batches = (numbers(op, "batch_group_count") or [1])[0]
    require(groups > 0 and batches > 0, f"`{op.name}`: group counts must be positive")
    turned = numbers(op, "window_reversal")
    require({*turned} <= {0, 1}, f"`{op.name}`: window_reversal={turned} says 0 or 1 for each dim")
    feature, kernel_feature = number(op, "input_feature"), number(op, "kernel_input_feature")
    require(
        x.shape[feature] == w.shape[kernel_feature] * groups,
        f"`{op.name}`: input features of {x.type} and {w.type} do not match with feature_group_count={groups}",
    )
    shape = [0] * len(x.shape)
    shape[number(op, "output_batch")] = x.shape[number(op, "input_batch")] // batches
    shape[number(op, "output_feature")] = w.shape[number(op, "kernel_output_feature")]
    for i, (source, target) in enumerate(zip(spatial, out, strict=True)):
        shape[target] = window_size(op, x.shape[source], i, window)
    return [(declared[0] if declared else x.dtype, tuple(shape))]


def _batching(op: Op, of_operand: str, of_indices: str, indexed: list[int]) -> None:
    """Dims that operand and indices have in common: of one size each, and none that the indices address."""
    x, indices = op.operands[:2]
    theirs, mine = dims(op, of_operand, len(x.shape)), dims(op, of_indices, len(indices.shape))
    require(
        [x.shape[d] for d in theirs] == [indices.shape[d] for d in mine]
        and {*theirs}.isdisjoint(indexed) and number(op, "index_vector_dim") not in mine,
        f"`{op.name}`: {of_operand}={theirs} and {of_indices}={mine} do not fit {x.type} and {indices.type}",
    )  # fmt: skip


@rule("gather")
def gather(op: Op, declared: Type | None) -> list[Type]:
    """Index batch dims, with the offset dims at `offset_dims`."""
    x, indices = operands(op, 2)
    sizes = numbers(op, "slice_sizes")
    require(
        len(sizes) == len(x.shape) and all(0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)),
        f"`{op.name}`: slice_sizes={sizes} do not fit {x.type}",
    )
    vector = number(op, "index_vector_dim")
    require(0 <= vector <= len(indices.shape), f"`{op.name}`: index_vector_dim={vector} is no dim of {indices.type}")
    start = dims(op, "start_index_map", len(x.shape))
    depth = indices.shape[vector] if vector < len(indices.shape) else 1
    require(len(start) == depth, f"`{op.name}`: {depth} index components, start_index_map={start}")
    _batching(op, "operand_batching_dims", "start_indices_batching_dims", start)
    dropped = {*dims(op, "collapsed_slice_dims", len(x.shape)), *dims(op, "operand_batching_dims", len(x.shape))}
    window = [n for d, n in enumerate(sizes) if d not in dropped]
    batch = [n for d, n in enumerate(indices.shape) if d != vector]
    offset = dims(op, "offset_dims", len(window) + len(batch))
    require(len(offset) == len(window), f"`{op.name}`: {len(window)} window dims, offset_dims={offset}")
    require(
        all(sizes[d] == min(1, x.shape[d]) for d in dropped),
        f"`{op.name}`: dims that are collapsed have slice size 1, not {sizes}",
    )
    windows, batches = iter(window), iter(batch)
    shape = tuple(next(windows) if d in offset else next(batches) for d in range(len(window) + len(batch)))
    return [(x.dtype, shape)]


@rule("scatter")
def scatter(op: Op, declared: Type | None) -> list[Type]:
    """The operand's shape; update windows fit in it."""
    x, indices, updates = operands(op, 3)
    vector = number(op, "index_vector_dim")
    require(0 <= vector <= len(indices.shape), f"`{op.name}`: index_vector_dim={vector} is no dim of {indices.type}")
    start = dims(op, "scatter_dims_to_operand_dims", len(x.shape))
    depth = indices.shape[vector] if vector < len(indices.shape) else 1
    require(len(start) == depth, f"`{op.name}`: {depth} index components, scatter_dims_to_operand_dims={start}")
    _batching(op, "input_batching_dims", "scatter_indices_batching_dims", start)
    window = dims(op, "update_window_dims", len(updates.shape))
    batch = [n for d, n in enumerate(updates.shape) if d not in window]
    expected = [n for d, n in enumerate(indices.shape) if d != vector]
    require(batch == expected, f"`{op.name}`: updates {updates.type} do not fit indices {indices.type}")
    gone = {*dims(op, "inserted_window_dims", len(x.shape)), *dims(op, "input_batching_dims", len(x.shape))}
    bounds = [n for d, n in enumerate(x.shape) if d not in gone]
    require(
        len(bounds) == len(window) and all(updates.shape[d] <= n for d, n in zip(window, bounds, strict=True)),
        f"`{op.name}`: update windows of {updates.type} do not fit {x.type}",
    )
    return [(x.dtype, x.shape)]


@rule("attention")
def attention(op: Op, declared: Type | None) -> list[Type]:
    """`[batch…, heads, seq, head dim]`; optionally the log-sum-exp over the keys as well."""
    q, k, v = operands(op, 3, more=True)[:3]
    require(
        len(q.shape) >= 2
        and k.shape[:-2] == q.shape[:-2] == v.shape[:-2]
        and k.shape[-1] == q.shape[-1]
        and k.shape[-2] == v.shape[-2],
        f"`{op.name}`: q {q.type}, k {k.type} and v {v.type} do not fit",
    )
    out = (q.dtype, (*q.shape[:-1], v.shape[-1]))
    return [out] if len(op.results) < 2 else [out, (op.results[1].dtype, q.shape[:-1])]


@rule("attention-backward")
def attention_backward(op: Op, declared: Type | None) -> list[Type]:
    """Gradients of q, k and v."""
    operands(op, 6, more=True)
    return [(t.dtype, t.shape) for t in op.operands[1:4]]


def members(op: Op) -> int | None:
    """Group size of a collective, None where the dump does not say it."""
    if op.along:
        return prod(size for _, size in op.along)
    if not op.groups:
        return None
    sizes = {len(group) for group in op.groups}
    require(len(sizes) == 1, f"`{op.name}`: groups of different sizes {sorted(sizes)}")
    return sizes.pop()


@rule("all-reduce", "collective-permute", "collective-broadcast")
def same_shape(op: Op, declared: Type | None) -> list[Type]:
    """The operand's type."""
    (x,) = operands(op, 1)
    return [(x.dtype, x.shape)]


def scaled(op: Op, declared: Type | None, multiply: str | None, divide: str | None) -> list[Type]:
    """The operand with one dim times, another one over the group size."""
    (x,) = operands(op, 1)
    count = members(op)
    shape = list(x.shape)
    if count is None:
        return [declared_or(op, declared)]
    if divide is not None:
        d = dim(op, divide, len(shape))
        require(shape[d] % count == 0, f"`{op.name}`: dim {d} of {x.type} is not divisible by the group size {count}")
        shape[d] //= count
    if multiply is not None:
        shape[dim(op, multiply, len(shape))] *= count
    return [(x.dtype, tuple(shape))]


def declared_or(op: Op, declared: Type | None) -> Type:
    """The declared type where the group is unknown."""
    if declared is None:
        raise InputError(f"`{op.name}` ({op.kind}): give the result's shape, or the groups")
    return declared


@rule("all-gather")
def all_gather(op: Op, declared: Type | None) -> list[Type]:
    """`dimension` times the group size."""
    return scaled(op, declared, "dimension", None)


@rule("reduce-scatter")
def reduce_scatter(op: Op, declared: Type | None) -> list[Type]:
    """`dimension` over the group size."""
    return scaled(op, declared, None, "dimension")


@rule("all-to-all")
def all_to_all(op: Op, declared: Type | None) -> list[Type]:
    """`split_dimension` over, `concat_dimension` times the group size."""
    return scaled(op, declared, "concat_dimension", "split_dimension")
