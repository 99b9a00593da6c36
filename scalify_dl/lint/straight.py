"""Values whose dims lie in another order on ranks than on one device, and come to lie in theirs again: the blocks of a
gather on a new dim, moved to where they were cut; what an all-to-all exchanged on a dim of chunks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Digit

from .held import Held, groups, renumbered, tidy

if TYPE_CHECKING:
    from .lift import Lifter


def straightened(lifter: Lifter, op: Op, x: Held) -> Held:
    """The value as one with the dims that the ranks have, in their order, where each of these is of one dim of one
    device's; as it is, where it is not. A dim that ranks alone tell apart (each has one element) is merged with the one
    that it was split from: with another one the ranks would be a dim of the program.
    """
    order = _order(x)
    if order is None:
        return x
    shape = x.base.shape
    apart = {_split_from(lifter, x.base, d): d for d, n in enumerate(shape) if n > 1 and d not in order}
    if not apart.keys() <= {*order} - {None} or len(apart) < sum(n > 1 and d not in order for d, n in enumerate(shape)):
        return x
    way = [() if d is None else (apart[d], d) if d in apart else (d,) for d in order]
    dims = [d for group in way for d in group]
    ones = [d for d, n in enumerate(shape) if n == 1 and d not in dims]
    base = _put_in_order(lifter, op, x.base, [*dims, *ones])
    sizes = [1] * len(x.local)
    inner = [1] * len(shape)
    where: list[int | None] = [None] * len(shape)
    for n, group in enumerate(way):
        for d in reversed(group):
            inner[d], where[d] = sizes[n], n
            sizes[n] *= shape[d]
    made = lifter.base.add("reshape", [base], [(base.dtype, tuple(sizes))], name=op.name, source=op.source, at=op.at)
    mesh = tuple(Digit(e.dim, e.stride * inner[e.dim], e.size) if isinstance(e, Digit) else e for e in x.mesh)
    local = tuple(renumbered(digits, n) for n, digits in enumerate(x.local))
    return replace(x, mesh=mesh).moved(where, made.result, local)


def _order(x: Held) -> list[int | None] | None:
    """The dim of the base that each local dim is of (None for one of size 1); None where some are of several, or in
    their order already."""
    found: list[int | None] = []
    for digits in x.local:
        dims = {digit.dim for digit in digits if digit.size > 1}
        if len(dims) > 1 or len(tidy(digits)) > 1:
            return None
        found.append(next(iter(dims), None))
    used = [d for d in found if d is not None]
    return found if x.along is None and not x.aligned and len({*used}) == len(used) else None


def _split_from(lifter: Lifter, base: Tensor, dim: int) -> int | None:
    """The dim behind one in the dim that a reshape split; None where it was not split so."""
    at = list(range(len(base.shape)))  # of every dim, which it is in the value that is looked at
    while True:
        op = next((o for o in reversed(lifter.base.ops) if base in o.results), None)
        if op is None or op.kind not in ("reshape", "transpose"):
            return None
        (source,) = op.operands
        if op.kind == "reshape":
            here = at[dim]
            run = next(after for _, after in groups(source.shape, base.shape) if here in after)
            return at.index(here + 1) if here + 1 in run else None
        at, base = [op.numbers["dimensions"][d] for d in at], source


def _put_in_order(lifter: Lifter, op: Op, base: Tensor, dims: list[int]) -> Tensor:
    if dims == sorted(dims):
        return base
    shape = tuple(base.shape[d] for d in dims)
    return lifter.base.add("transpose", [base], [(base.dtype, shape)], name=op.name, source=op.source, at=op.at,
                           numbers={"dimensions": dims}).result  # fmt: skip
