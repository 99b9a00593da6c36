"""Collectives, on all ranks together: the sum over ranks of <result, gradient> stays what it is.

A sum that all ranks get is read by all: its gradient is the sum of theirs. Blocks that are gathered are read by all,
too: reduce-scatter. What every rank has alike has a part of its gradient on each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.ir.recorder import Attribute

from .derive import Gradient, NoAdjoint, vjp
from .structural import _one


def _over(p: Program, kind: str, x: Tensor, like: Op, **attributes: Attribute) -> Tensor:
    """A collective of the same ranks as another one."""
    if like.groups is None and not like.along:
        raise NoAdjoint(f"the ranks of `{like.name}` are not known")
    if like.along:
        return p.op(kind, x, along=[axis for axis, _ in like.along], attributes=attributes).result
    return p.op(kind, x, groups=[list(group) for group in like.groups or ()], attributes=attributes).result


def _ways(op: Op) -> int:
    return prod(size for _, size in op.along) if op.along else len((op.groups or [[0]])[0])


@vjp("all-reduce")
def all_reduce(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """The sum of all ranks' gradients; of an extreme, for the ranks that have it."""
    g, reducer = _one(gradients), op.symbols.get("reducer", [""])[0]
    total = _over(p, "all-reduce", g, op, reducer="sum")
    if reducer == "sum":
        return [total]
    if reducer in ("max", "min"):
        (x,) = op.operands
        hit = p.compare(x, op.result, direction="EQ")
        ones = p.select(hit, p.full(1, x.shape, x.dtype), p.full(0, x.shape, x.dtype))
        return [p.multiply(p.divide(total, _over(p, "all-reduce", ones, op, reducer="sum")), ones)]
    raise NoAdjoint(f"no backward is known of a {reducer} over ranks (`{op.name}`)")


@vjp("all-gather")
def all_gather(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Summed, and every rank keeps the block that it gave."""
    (dim,) = op.numbers["dimension"]
    return [_over(p, "reduce-scatter", _one(gradients), op, dimension=dim, reducer="sum")]


@vjp("reduce-scatter")
def reduce_scatter(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Gathered."""
    if op.symbols.get("reducer", [""])[0] != "sum":
        raise NoAdjoint(f"no backward is known of `{op.name}`, which is no sum")
    (dim,) = op.numbers["dimension"]
    return [_over(p, "all-gather", _one(gradients), op, dimension=dim)]


@vjp("all-to-all")
def all_to_all(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """With its dims exchanged."""
    (split,), (concat,) = op.numbers["split_dimension"], op.numbers["concat_dimension"]
    g = _one(gradients)
    return [_over(p, "all-to-all", g, op, split_dimension=concat, concat_dimension=split)]


@vjp("collective-permute")
def collective_permute(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Back to where it came from."""
    pairs = op.pairs or []
    if len({source for source, _ in pairs}) < len(pairs):
        raise NoAdjoint(f"`{op.name}` sends one rank's value to several")
    return [p.permute(_one(gradients), [(target, source) for source, target in pairs])]


@vjp("collective-broadcast")
def collective_broadcast(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """The sum of all, for the rank whose value it was."""
    g = _one(gradients)
    total = _over(p, "all-reduce", g, op, reducer="sum")
    roots = {group[0] for group in op.groups or ()}
    if not roots:
        raise NoAdjoint(f"the ranks of `{op.name}` are not known")
    mine = p.rank_constant({rank: int(rank in roots) for rank in range(p.mesh.size)})
    keep = p.compare(p.broadcast(mine, g.shape, ()), 1, direction="EQ")
    return [p.select(keep, total, p.full(0, g.shape, g.dtype))]
