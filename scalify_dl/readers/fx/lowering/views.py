"""Views, copies and data movement: everything that only rearranges elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from ..dtypes import TORCH, is_integer, promote
from .core import Context, Number, Unsupported, lower
from .dims import axes, axis, broadcast_shape

Lazy = Callable[[], Tensor]
MAX_PIECES = 1 << 16


@lower(
    "aten.detach", "aten.alias", "aten.clone", "aten.contiguous", "aten.lift_fresh_copy", "aten.lift_fresh",
    "aten.lift", "aten.detach_copy", "aten.alias_copy", "prims.view_of", "aten.cpu", "aten.cuda",
    "aten.resolve_conj", "aten.resolve_neg",
)  # fmt: skip
def same(c: Context, x: Tensor) -> Tensor:
    """The same values."""
    return x


@lower("aten.requires_grad_")
def requires_grad(c: Context, x: Tensor, _on: bool = True) -> Tensor:
    """The same values."""
    return x


def full_shape(size: Sequence[int], x: Tensor) -> tuple[int, ...]:
    """A view's size with its −1 filled in."""
    if -1 not in size:
        return tuple(size)
    known = -prod(size)
    if known <= 0 or prod(x.shape) % known:
        raise InputError(f"{x.type} cannot be viewed as {list(size)}")
    return tuple(prod(x.shape) // known if n == -1 else n for n in size)


@lower("aten.view", "aten.reshape", "aten._unsafe_view", "aten.view_copy", "aten._reshape_copy", "prims.reshape")
def reshape(c: Context, x: Tensor, size: Sequence[int]) -> Tensor:
    return c.reshape(x, full_shape(size, x))


@lower("aten.view_as", "aten.reshape_as")
def view_as(c: Context, x: Tensor, other: Tensor) -> Tensor:
    return c.reshape(x, other.shape)


@lower("aten.view.dtype", "aten.view_copy.dtype", "aten.bitcast")
def view_dtype(c: Context, x: Tensor, dtype: object) -> Tensor:
    """The bits of integers as another type of integers; those of reals hang on how each op rounds."""
    wanted = dtype_of(dtype)
    if wanted == x.dtype:
        return x
    if not (is_integer(wanted) and is_integer(x.dtype)) or wanted[1:] != x.dtype[1:]:
        raise Unsupported("reinterpretation of bits as another dtype")
    return c.emit("bitcast-convert", (x,), wanted, x.shape, None, {"from": [x.dtype]})


@lower("aten.unsqueeze", "aten.unsqueeze_copy")
def unsqueeze(c: Context, x: Tensor, dim: int) -> Tensor:
    d = axis(dim, len(x.shape) + 1)
    return c.reshape(x, (*x.shape[:d], 1, *x.shape[d:]))


@lower("aten.squeeze", "aten.squeeze_copy")
def squeeze(c: Context, x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    gone = set(range(len(x.shape))) if dim is None else set(axes(dim, len(x.shape)) if dim != [] else [])
    return c.reshape(x, tuple(n for d, n in enumerate(x.shape) if d not in gone or n != 1))


@lower("aten.flatten", "aten.ravel")
def flatten(c: Context, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    if not x.shape:
        return c.reshape(x, (1,))
    lo, hi = axis(start_dim, len(x.shape)), axis(end_dim, len(x.shape))
    return c.reshape(x, (*x.shape[:lo], prod(x.shape[lo : hi + 1]), *x.shape[hi + 1 :]))


@lower("aten.unflatten")
def unflatten(c: Context, x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    d = axis(dim, len(x.shape))
    known = -prod(sizes)
    inner = [x.shape[d] // known if n == -1 else n for n in sizes] if -1 in sizes else list(sizes)
    return c.reshape(x, (*x.shape[:d], *inner, *x.shape[d + 1 :]))


@lower("aten.t", "aten.t_copy", "aten.numpy_T", "aten.mT", "aten.adjoint")
def t(c: Context, x: Tensor) -> Tensor:
    rank = len(x.shape)
    if "mT" in c.target or "adjoint" in c.target:
        turned = c.transpose(x, [*range(rank - 2), rank - 1, rank - 2])
        return c.conjugate(turned) if "adjoint" in c.target else turned
    return c.transpose(x, range(rank)[::-1])


@lower("aten.transpose", "aten.transpose_copy", "aten.swapaxes", "aten.swapdims")
def transpose(c: Context, x: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(len(x.shape)))
    if order:
        a, b = axis(dim0, len(order)), axis(dim1, len(order))
        order[a], order[b] = order[b], order[a]
    return c.transpose(x, order)


@lower("aten.permute", "aten.permute_copy", "prims.transpose")
def permute(c: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    order = [axis(d, len(x.shape)) for d in dims]
    if sorted(order) != list(range(len(x.shape))):
        raise InputError(f"{list(dims)} does not permute the dims of {x.type}")
    return c.transpose(x, order)


@lower("aten.movedim", "aten.moveaxis")
def movedim(c: Context, x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    rank = len(x.shape)
    where = dict(zip(axes(destination, rank), axes(source, rank), strict=True))
    rest = iter(d for d in range(rank) if d not in where.values())
    return c.transpose(x, [where[d] if d in where else next(rest) for d in range(rank)])


@lower("aten.expand", "aten.expand_copy", "aten.broadcast_to")
def expand(c: Context, x: Tensor, size: Sequence[int], *, implicit: bool = False) -> Tensor:
    lead = len(size) - len(x.shape)
    shape = tuple(x.shape[d - lead] if n == -1 and d >= lead else n for d, n in enumerate(size))
    return c.broadcast(x, shape)


@lower("aten.broadcast_tensors")
def broadcast_tensors(c: Context, xs: Sequence[Tensor]) -> tuple[Lazy, ...]:
    shape = broadcast_shape(*xs)
    return tuple([lambda x=x: c.broadcast(x, shape) for x in xs])


@lower("aten.expand_as")
def expand_as(c: Context, x: Tensor, other: Tensor) -> Tensor:
    return c.broadcast(x, other.shape)


@lower("aten.repeat", "aten.tile")
def repeat(c: Context, x: Tensor, repeats: Sequence[int]) -> Tensor:
    lead = max(len(repeats) - len(x.shape), 0)
    counts = [1] * (len(x.shape) + lead - len(repeats)) + list(repeats)
    shape = (1,) * lead + x.shape
    spread, kept = [], []
    for count, n in zip(counts, shape, strict=True):
        if count != 1:
            spread.append(count)
        kept.append(len(spread))
        spread.append(n)
    wide = c.spread(c.reshape(x, shape), tuple(spread), kept)
    return c.reshape(wide, tuple(count * n for count, n in zip(counts, shape, strict=True)))


@lower("aten.repeat_interleave.self_int")
def repeat_interleave(
    c: Context, x: Tensor, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """`output_size` says what is known here anyway."""
    if dim is None:
        x, dim = c.reshape(x, (prod(x.shape),)), 0
    d = axis(dim, len(x.shape))
    spread = (*x.shape[: d + 1], repeats, *x.shape[d + 1 :])
    wide = c.spread(x, spread, [e for e in range(len(spread)) if e != d + 1])
    return c.reshape(wide, (*x.shape[:d], x.shape[d] * repeats, *x.shape[d + 1 :]))


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


@lower("aten.split_with_sizes", "aten.split.sizes", "aten.split_with_sizes_copy")
def split_with_sizes(c: Context, x: Tensor, sizes: Sequence[int], dim: int = 0) -> tuple[Lazy, ...]:
    return _pieces(c, x, sizes, axis(dim, len(x.shape)))


@lower("aten.split.Tensor", "aten.split.default", "aten.split_copy.Tensor")
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
    """Zeros of the whole size, with the gradient where the slice was."""
    d = axis(dim, len(sizes))
    lo, hi = bounds(start, end, sizes[d])
    covered = max(grad.shape[d] - 1, 0) * step + min(grad.shape[d], 1)
    if -(-(hi - lo) // step) != grad.shape[d]:
        raise InputError(f"the gradient {grad.type} is no slice [{lo}:{hi}:{step}] of dim {d} of {list(sizes)}")
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
        raise Unsupported(f"padding by `{mode}`")
    return constant_pad_nd(c, x, amounts, 0 if value is None else value)


@lower("aten.flip")
def flip(c: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    turned = sorted(axes(dims, len(x.shape))) if dims else []
    return c.emit("reverse", (x,), x.dtype, x.shape, {"dimensions": turned}) if turned else x


@lower("aten.roll")
def roll(c: Context, x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Tensor:
    amounts = [shifts] if isinstance(shifts, int) else list(shifts)
    if dims in ((), []):
        flat = roll(c, c.reshape(x, (prod(x.shape),)), amounts[0], 0)
        return c.reshape(flat, x.shape)
    for shift, d in zip(amounts, axes(dims, len(x.shape)), strict=True):
        cut = -shift % x.shape[d] if x.shape[d] else 0
        if cut:
            x = c.concatenate([c.slice(x, d, cut, x.shape[d]), c.slice(x, d, 0, cut)], d)
    return x


@lower("aten._to_copy", "aten.to.dtype_layout")
def to_copy(c: Context, x: Tensor, *, dtype: object = None, copy: bool = False) -> Tensor:
    """A copy in another dtype; device, layout and memory format do not matter."""
    return x if dtype is None else c.convert(x, dtype_of(dtype))


@lower("aten.to.dtype", "aten.to.other", "aten.type_as", "prims.convert_element_type")
def to(
    c: Context, x: Tensor, dtype: object, _wait: bool = False, _copy: bool = False, _format: object = None, *,
    copy: bool = False,
) -> Tensor:  # fmt: skip
    """x in a dtype, or in that of another tensor."""
    return c.convert(x, dtype.dtype if isinstance(dtype, Tensor) else dtype_of(dtype))


@lower("aten.to.device")
def to_device(
    c: Context, x: Tensor, _device: object, dtype: object = None, _wait: bool = False, _copy: bool = False,
    _format: object = None, *, copy: bool = False,
) -> Tensor:  # fmt: skip
    """x in a dtype; on which device does not matter."""
    return to_copy(c, x, dtype=dtype)


def dtype_of(value: object) -> str:
    """`torch.float32` → `f32`."""
    path = getattr(value, "path", value)
    if path not in TORCH:
        raise InputError(f"`{path}` is no dtype that is known")
    return TORCH[str(path)]


@lower("aten.copy", "aten.copy_", "prims.copy_to")
def copy(c: Context, x: Tensor, src: Tensor | Number, non_blocking: bool = False) -> Tensor:
    """`src` as it looks once written over x."""
    if not isinstance(src, Tensor):
        return c.splat(src, x.dtype, x.shape)
    return c.broadcast(c.convert(src, x.dtype), x.shape)
