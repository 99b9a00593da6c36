"""Views read backwards: what becomes of a tensor when a view of it is overwritten.

What a view does is what its lowering emits: a chain of reshapes, transposes, slices and broadcasts. Each is undone with
what the chain had before it; a slice is put back between what is around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from scalify_dl.ir.graph import Op, Tensor

from .lowering import Context, Unsupported
from .lowering.slices import put_slice

__all__ = ["put_back"]


def put_back(c: Context, chain: Sequence[Op], base: Tensor, value: Tensor) -> Tensor:
    """`base` with what a chain of ops shows of it replaced by `value`; Unsupported where an op cannot be undone."""
    if any(op.kind not in UNDONE for op in chain):
        raise Unsupported(f"a write through {', '.join(op.kind for op in chain)}")
    before = [base]
    for op in chain[:-1]:
        before.append(DONE[op.kind](c, before[-1], op))
    for op, held in zip(reversed(chain), reversed(before[: len(chain)]), strict=True):
        value = UNDONE[op.kind](c, held, value, op)
    return value


def _slice(c: Context, x: Tensor, op: Op) -> Tensor:
    for d, (lo, hi, step) in enumerate(_bounds(op)):
        x = c.slice(x, d, lo, hi, step)
    return x


def _bounds(op: Op) -> list[tuple[int, int, int]]:
    return list(zip(op.numbers["start"], op.numbers["limit"], op.numbers["stride"], strict=True))


def _unslice(c: Context, x: Tensor, value: Tensor, op: Op) -> Tensor:
    for d, (lo, hi, step) in enumerate(_bounds(op)):
        if (lo, hi, step) != (0, x.shape[d], 1):
            return put_slice(c, x, value, d, lo, step)
    return value


def _unbroadcast(c: Context, x: Tensor, value: Tensor, op: Op) -> Tensor:
    if prod(x.shape) != prod(value.shape):
        raise Unsupported("a write through a broadcast")
    return c.reshape(value, x.shape)


def _unreal(c: Context, x: Tensor, value: Tensor, op: Op) -> Tensor:
    return c.emit("complex", (value, c.emit("imag", (x,), value.dtype, x.shape)), x.dtype, x.shape)


def _unimag(c: Context, x: Tensor, value: Tensor, op: Op) -> Tensor:
    return c.emit("complex", (c.emit("real", (x,), value.dtype, x.shape), value), x.dtype, x.shape)


def _inverse(order: list[int]) -> list[int]:
    return [order.index(d) for d in range(len(order))]


DONE: dict[str, Callable[[Context, Tensor, Op], Tensor]] = {
    "reshape": lambda c, x, op: c.reshape(x, op.result.shape),
    "transpose": lambda c, x, op: c.transpose(x, op.numbers["dimensions"]),
    "broadcast": lambda c, x, op: c.spread(x, op.result.shape, op.numbers["dimensions"]),
    "slice": _slice,
    "real": lambda c, x, op: c.emit("real", (x,), op.result.dtype, x.shape),
    "imag": lambda c, x, op: c.emit("imag", (x,), op.result.dtype, x.shape),
}
UNDONE: dict[str, Callable[[Context, Tensor, Tensor, Op], Tensor]] = {
    "reshape": lambda c, x, value, op: c.reshape(value, x.shape),
    "transpose": lambda c, x, value, op: c.transpose(value, _inverse(op.numbers["dimensions"])),
    "broadcast": _unbroadcast,
    "slice": _unslice,
    "real": _unreal,
    "imag": _unimag,
}
