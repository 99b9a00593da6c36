"""Views, copies and data movement: everything that only rearranges elements (pieces of tensors are `slices`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .core import Context, lower
from .dims import axes, axis, broadcast_shape

Lazy = Callable[[], Tensor]


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


@lower("aten.flip")
def flip(c: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    turned = sorted(axes(dims, len(x.shape))) if dims else []
    return c.emit("reverse", (x,), x.dtype, x.shape, {"dimensions": turned}) if turned else x


@lower("aten.rot90")
def rot90(c: Context, x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A quarter turn, k times, from the first of two dims towards the second."""
    first, second = (axis(d, len(x.shape)) for d in dims)
    turned = ([], [second], [first, second], [first])[k % 4]
    return transpose(c, flip(c, x, turned), first, second) if k % 2 else flip(c, x, turned)


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
