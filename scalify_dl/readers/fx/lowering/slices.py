"""Pieces of tensors: cut out, put together, put into others, and padding around them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from ..dtypes import promote
from .core import Context, Number, Unsupported, lower
from .dims import axis
from .views import Lazy, flip, unsqueeze

MAX_PIECES = 1 << 16


def bounds(start: int | None, end: int | None, size: int) -> tuple[int, int]:
    """Python's slice bounds, within the dim."""
    lo, hi, _ = slice(start, end).indices(size)
    return lo, max(hi, lo)


@lower("aten.slice", "aten.slice_copy")
def slice_(
    c: Context, x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    d = axis(dim, len(x.shape))
    return c.slice(x, d, *bounds(start, end, x.shape[d]), step)


@lower("aten.narrow", "aten.narrow_copy")
def narrow(c: Context, x: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    d = axis(dim, len(x.shape))
    if not 0 <= length <= x.shape[d]:
        raise InputError(f"{length} elements are outside of dim {d} of {x.type}")
    if isinstance(start, Tensor):  # within the dim, else torch refuses it
        first = c.reshape(start, ())
        first = c.select(c.compare("LT", first, 0), c.add(first, x.shape[d]), first, dtype=first.dtype)
        starts = [first if e == d else c.scalar(0, first.dtype) for e in range(len(x.shape))]
        shape = (*x.shape[:d], length, *x.shape[d + 1 :])
        return c.emit("dynamic-slice", (x, *starts), x.dtype, shape, {"sizes": list(shape)})
    start = start + x.shape[d] if start < 0 else start
    if not 0 <= start <= start + length <= x.shape[d]:
        raise InputError(f"{length} elements from {start} on are outside of dim {d} of {x.type}")
    return c.slice(x, d, start, start + length)


@lower("aten.select", "aten.select_copy")
def select(c: Context, x: Tensor, dim: int, index: int) -> Tensor:
    d = axis(dim, len(x.shape))
    i = axis(index, x.shape[d])
    piece = c.slice(x, d, i, i + 1)
    return c.reshape(piece, (*x.shape[:d], *x.shape[d + 1 :]))


def _pieces(c: Context, x: Tensor, sizes: Sequence[int], d: int) -> tuple[Lazy, ...]:
    """Consecutive slices, each emitted only where it is used."""
    if sum(sizes) != x.shape[d]:
        raise InputError(f"sizes {list(sizes)} do not add up to dim {d} of {x.type}")
    if len(set(sizes)) == 1 and len(sizes) > 1:
        return tuple([lambda i=i: c.block(x, d, i, len(sizes)) for i in range(len(sizes))])
    pieces: list[Lazy] = []
    at = 0
    for size in sizes:
        pieces.append(lambda lo=at, hi=at + size: c.slice(x, d, lo, hi))  # type: ignore[misc]
        at += size
    return tuple(pieces)


def _few(count: int) -> None:
    if count > MAX_PIECES:
        raise InputError(f"a tensor in {count:,} pieces", expected=f"at most {MAX_PIECES:,}")


@lower("aten.split_with_sizes", "aten.split.sizes", "aten.split_with_sizes_copy", "aten.unsafe_split_with_sizes")
def split_with_sizes(c: Context, x: Tensor, sizes: Sequence[int], dim: int = 0) -> tuple[Lazy, ...]:
    return _pieces(c, x, sizes, axis(dim, len(x.shape)))


@lower("aten.split.Tensor", "aten.split.default", "aten.split_copy.Tensor", "aten.unsafe_split.Tensor")
def split(c: Context, x: Tensor, size: int | Sequence[int], dim: int = 0) -> tuple[Lazy, ...]:
    if not isinstance(size, int):
        return split_with_sizes(c, x, size, dim)
    d = axis(dim, len(x.shape))
    if size < 1:
        raise InputError(f"split of {x.type} in pieces of {size}")
    n = x.shape[d]
    _few(n // size)
    return _pieces(c, x, [min(size, n - lo) for lo in range(0, n, size)] or [0], d)


@lower("aten._chunk_cat")
def chunk_cat(c: Context, tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Each tensor, padded with zeros, in equal chunks; the first ones of all, flat, one after the other, and so on."""
    if num_chunks < 1 or len({x.dtype for x in tensors}) > 1:
        raise Unsupported("chunks of several types")
    rows = []
    for x in tensors:
        d, missing = axis(dim, len(x.shape)), [0] * len(x.shape)
        missing[d] = -x.shape[d] % num_chunks
        padded = c.pad(x, [0] * len(missing), missing, 0) if any(missing) else x
        chunk = prod(padded.shape[d:]) // num_chunks
        rows.append(c.reshape(padded, (*x.shape[:d], num_chunks, chunk)))
    return c.concatenate(rows, axis(dim, len(tensors[0].shape)) + 1)


@lower("aten.chunk", "aten.unsafe_chunk")
def chunk(c: Context, x: Tensor, chunks: int, dim: int = 0) -> tuple[Lazy, ...]:
    d = axis(dim, len(x.shape))
    if not x.shape[d]:
        _few(chunks)
        return _pieces(c, x, [0] * chunks, d)
    return split(c, x, -(-x.shape[d] // chunks), d)


@lower("aten.tensor_split.sections")
def split_in(c: Context, x: Tensor, sections: int, dim: int = 0) -> tuple[Lazy, ...]:
    """The first pieces have one element more, where they cannot have as many as each other."""
    d = axis(dim, len(x.shape))
    if sections < 1:
        raise InputError(f"{sections} pieces of {x.type}")
    _few(sections)
    least, more = divmod(x.shape[d], sections)
    return _pieces(c, x, [least + (i < more) for i in range(sections)], d)


@lower("aten.tensor_split.indices")
def split_at(c: Context, x: Tensor, indices: Sequence[int], dim: int = 0) -> tuple[Lazy, ...]:
    d = axis(dim, len(x.shape))
    cuts = [bounds(lo, hi, x.shape[d]) for lo, hi in pairwise([0, *indices, x.shape[d]])]
    return tuple([lambda lo=lo, hi=hi: c.slice(x, d, lo, hi) for lo, hi in cuts])


@lower("aten.unbind", "aten.unbind_copy")
def unbind(c: Context, x: Tensor, dim: int = 0) -> tuple[Lazy, ...]:
    d = axis(dim, len(x.shape))
    _few(x.shape[d])
    return tuple([lambda i=i: select(c, x, d, i) for i in range(x.shape[d])])


@lower("aten.cat", "aten.concat", "aten.concatenate")
def cat(c: Context, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    parts = [x for x in tensors if x.shape != (0,)] or list(tensors[:1])
    if not parts:
        raise InputError("concatenation of nothing")
    dtype = parts[0].dtype
    for part in tensors:
        dtype = promote(dtype, part.dtype)
    return c.concatenate([c.convert(part, dtype) for part in parts], axis(dim, len(parts[0].shape)))


@lower("aten.stack")
def stack(c: Context, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    if not tensors:
        raise InputError("stack of nothing")
    d = axis(dim, len(tensors[0].shape) + 1)
    return cat(c, [unsqueeze(c, x, d) for x in tensors], d)


@lower("aten.slice_scatter")
def slice_scatter(
    c: Context, x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """x with a slice replaced."""
    d = axis(dim, len(x.shape))
    lo, hi = bounds(start, end, x.shape[d])
    count = len(range(lo, hi, step))
    src = c.convert(c.broadcast(src, (*x.shape[:d], count, *x.shape[d + 1 :])), x.dtype)
    return put_slice(c, x, src, d, lo, step)


def put_slice(c: Context, x: Tensor, value: Tensor, d: int, start: int, step: int = 1) -> Tensor:
    """x with every step-th element of a dim replaced, from a start on, as far as the value (of x's dtype) goes.

    The pieces around it, put together again; a step is a dim of its own where it divides the dim, else a select."""
    n, count = x.shape[d], value.shape[d]
    if not count:
        return x
    if step == 1 or count == 1:
        return c.concatenate([c.slice(x, d, 0, start), value, c.slice(x, d, start + count, n)], d)
    if n % step == 0:
        rows = c.reshape(x, (*x.shape[:d], n // step, step, *x.shape[d + 1 :]))
        first = start // step
        inner = put_slice(c, c.slice(rows, d, first, first + count), unsqueeze(c, value, d + 1), d + 1, start % step)
        return c.reshape(put_slice(c, rows, inner, d, first), x.shape)
    end = start + (count - 1) * step + 1
    there, grown = [
        slice_backward(c, part, x.shape, d, start, end, step) for part in (c.splat(1, "pred", value.shape), value)
    ]
    return c.select(there, grown, x)


@lower("aten.select_scatter")
def select_scatter(c: Context, x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    d = axis(dim, len(x.shape))
    i = axis(index, x.shape[d])
    return slice_scatter(c, x, unsqueeze(c, src, d), d, i, i + 1)


@lower("aten.slice_backward")
def slice_backward(
    c: Context, grad: Tensor, sizes: Sequence[int], dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    """Zeros of the whole size, with the gradient copied (and so broadcast) to where the slice was: `narrow_copy` at -1
    has the empty slice [-1:0] for its own, as torch does."""
    d = axis(dim, len(sizes))
    lo, hi = bounds(start, end, sizes[d])
    count = len(range(lo, hi, step))
    if grad.shape[d] not in (1, count):
        raise InputError(f"the gradient {grad.type} is no slice [{lo}:{hi}:{step}] of dim {d} of {list(sizes)}")
    if not count:
        return c.splat(0, grad.dtype, tuple(sizes))
    grad = c.broadcast(grad, (*sizes[:d], count, *sizes[d + 1 :]))
    covered = (count - 1) * step + 1
    along = [0] * len(sizes)
    low, high, interior = list(along), list(along), list(along)
    low[d], high[d], interior[d] = lo, sizes[d] - lo - covered, step - 1
    return c.pad(grad, low, high, 0, interior)


@lower("aten.select_backward")
def select_backward(c: Context, grad: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    d = axis(dim, len(sizes))
    i = axis(index, sizes[d])
    return slice_backward(c, unsqueeze(c, grad, d), sizes, d, i, i + 1, 1)


@lower("aten.constant_pad_nd")
def constant_pad_nd(c: Context, x: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    rank = len(x.shape)
    low, high = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return c.pad(x, low, high, value)


@lower("aten.pad")
def pad(c: Context, x: Tensor, amounts: Sequence[int], mode: str = "constant", value: Number | None = None) -> Tensor:
    if mode != "constant":
        return continued(c, x, amounts, mode)
    return constant_pad_nd(c, x, amounts, 0 if value is None else value)


def continued(c: Context, x: Tensor, amounts: Sequence[int], mode: str) -> Tensor:
    """Padded with elements of its own: `reflect`ed at the first and last ones, these `replicate`d, or `circular`."""
    if min(amounts) < 0 or not prod(x.shape):
        raise Unsupported(f"padding by `{mode}` of nothing, or by less than nothing")
    for i in range(len(amounts) // 2):
        d = len(x.shape) - 1 - i
        low, high, n = amounts[2 * i], amounts[2 * i + 1], x.shape[d]
        if mode == "replicate":
            before, behind = c.slice(x, d, 0, 1), c.slice(x, d, n - 1, n)
            ends = [[before] * low, [behind] * high]
        elif max(low, high) > n - (mode == "reflect"):
            raise InputError(f"padding of {max(low, high)} by `{mode}` of a dim of {n}")
        elif mode == "reflect":
            ends = [[flip(c, c.slice(x, d, 1, low + 1), [d])], [flip(c, c.slice(x, d, n - 1 - high, n - 1), [d])]]
        elif mode == "circular":
            ends = [[c.slice(x, d, n - low, n)], [c.slice(x, d, 0, high)]]
        else:
            raise Unsupported(f"padding by `{mode}`")
        parts = [*(ends[0] if low else ()), x, *(ends[1] if high else ())]
        x = c.concatenate(parts, d) if len(parts) > 1 else x
    return x


@lower(*(f"aten.{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)))
def continued_at_edges(c: Context, x: Tensor, padding: Sequence[int]) -> Tensor:
    return continued(c, x, padding, "reflect" if "reflection" in c.target else "replicate")
