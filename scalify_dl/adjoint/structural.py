"""What moves elements: the gradient moves back; what is copied has the sum of its copies' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, vjp
from .running import product_of_others


def _one(gradients: Sequence[Gradient]) -> Tensor:
    (g,) = gradients
    assert g is not None
    return g


@vjp("broadcast")
def broadcast(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """A sum over what repeats."""
    g, kept = _one(gradients), op.numbers.get("dimensions", [])
    gone = [d for d in range(len(g.shape)) if d not in kept]
    total = p.reduce(g, gone) if gone else g
    order = sorted(range(len(kept)), key=lambda i: kept[i])  # dim j of the sum is operand dim order[j]
    if order != list(range(len(order))):
        total = p.transpose(total, *(order.index(i) for i in range(len(order))))
    return [total]


@vjp("reshape")
def reshape(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Back to the operand's shape."""
    return [p.reshape(_one(gradients), op.operands[0].shape)]


@vjp("transpose")
def transpose(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """By the inverse permutation."""
    order = op.numbers["dimensions"]
    return [p.transpose(_one(gradients), *(order.index(d) for d in range(len(order))))]


@vjp("reverse")
def reverse(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Once more."""
    return [p.reverse(_one(gradients), *op.numbers["dimensions"])]


@vjp("slice")
def cut(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """At its place among zeros."""
    g, (x,) = _one(gradients), op.operands
    start, stride = op.numbers["start"], op.numbers.get("stride") or [1] * len(x.shape)
    if op.strides:
        raise NoAdjoint(f"`{op.name}` begins elsewhere on every rank of a mesh that is not written out")
    if op.rank_numbers:
        if set(stride) != {1}:
            raise NoAdjoint(f"`{op.name}` takes every n-th element, from another one on every rank")
        starts = [
            p.rank_constant(op.rank_numbers["start", d]) if ("start", d) in op.rank_numbers else p.constant(n, "s32")
            for d, n in enumerate(start)
        ]
        return [p.dynamic_update_slice(p.full(0, x.shape, x.dtype), g, starts)]
    spread = [n + max(n - 1, 0) * (step - 1) for n, step in zip(g.shape, stride, strict=True)]
    high = [size - lo - n for size, lo, n in zip(x.shape, start, spread, strict=True)]
    zero = p.constant(0, x.dtype)
    return [p.op("pad", g, zero, low=list(start), high=high, interior=[step - 1 for step in stride]).result]


@vjp("pad")
def pad(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """What lies in the operand; the padding has the rest."""
    g, (x, _) = _one(gradients), op.operands
    low, high = op.numbers["low"], op.numbers["high"]
    inside = op.numbers.get("interior") or [0] * len(low)
    mine = g
    if any(n < 0 for n in (*low, *high)):
        crop = [[-min(n, 0) for n in side] for side in (low, high)]
        mine = p.op("pad", g, p.constant(0, g.dtype), low=crop[0], high=crop[1], interior=[0] * len(low)).result
    start = [max(n, 0) for n in low]
    limit = [s + n + max(n - 1, 0) * i for s, n, i in zip(start, x.shape, inside, strict=True)]
    mine = p.op("slice", mine, start=start, limit=limit, stride=[i + 1 for i in inside]).result
    every = list(range(len(g.shape)))
    if not every:
        return [mine, None]
    return [mine, p.subtract(p.reduce(g, every), p.reduce(mine, every))]


@vjp("concatenate")
def concatenate(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Cut apart."""
    (dim,) = op.numbers["dimension"]
    return p.split(_one(gradients), dim, [x.shape[dim] for x in op.operands])


@vjp("reduce")
def reduce(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """A sum's gradient is that of every element; an extreme's is shared by the elements that are it."""
    g, reducer, gone = _one(gradients), op.symbols.get("reducer", [""])[0], op.numbers["dimensions"]
    if len(op.operands) != 1:
        raise NoAdjoint(f"`{op.name}` reduces several values at once")
    (x,) = op.operands
    kept = [d for d in range(len(x.shape)) if d not in gone]
    if reducer == "sum":
        return [p.broadcast(g, x.shape, kept)]
    if reducer in ("max", "min"):
        hit = p.compare(x, p.broadcast(op.result, x.shape, kept), direction="EQ")
        ones = p.select(hit, p.full(1, x.shape, x.dtype), p.full(0, x.shape, x.dtype))
        return [p.multiply(p.broadcast(p.divide(g, p.reduce(ones, gone)), x.shape, kept), ones)]
    if reducer == "prod":
        front = [*kept, *gone]
        flat = p.reshape(p.transpose(x, *front), [*(x.shape[d] for d in kept), prod(x.shape[d] for d in gone)])
        others = p.reshape(product_of_others(p, flat), [x.shape[d] for d in front])
        back = p.transpose(others, *(front.index(d) for d in range(len(front))))
        return [p.multiply(p.broadcast(g, x.shape, kept), back)]
    raise NoAdjoint(f"no backward is known of a {reducer} (`{op.name}`)")
