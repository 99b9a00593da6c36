"""Values that are the same along a dim: any part of that dim is any rank's, so no violation rests on where it lies.

The lift knows such dims where a value is spread (`Held.free`); behind contractions, reversals and look-ups a run tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Digit, Layout, Repl
from scalify_dl.ir.vocabulary import ELEMENTWISE

from .expected import Boundary
from .held import Held, tidy
from .lift import Lifted, Stopped

if TYPE_CHECKING:
    from .numbers import Run

LINE = frozenset(
    """add all-reduce broadcast concatenate convert divide dot multiply negate reduce reshape slice subtract
    transpose""".split()  # noqa: SIM905
)
"""Kinds of ops that a sum may come through."""
FAR = 64
"""So many of them are looked at."""
Alike = Callable[[Tensor], frozenset[int]]
"""The dims along which a value is the same."""


def alike_by(run: Callable[[], Run], ids: Mapping[Tensor, str]) -> Alike:
    """As a run says."""
    return lambda tensor: run().alike(ids[tensor])


def lies_anywhere(stop: Stopped, lifted: Lifted, makers: Mapping[Tensor, Op], alike: Alike) -> bool:
    """Whether an op stopped at no more than where values lie, or how many there are, along dims along which they are
    the same."""
    op = stop.op
    if stop.kind == "multiple":
        return any(counts_more(t, lifted, makers, alike) for t in op.operands)
    if stop.kind == "gathers-replicated":
        (dim,) = op.numbers.get("concat_dimension") or op.numbers["dimension"]
        return dim in alike(op.operands[0])
    if stop.kind != "placed-differently":
        return False
    helds = [(t, lifted.held[t]) for t in dict.fromkeys(op.operands) if t in lifted.held]
    if op.kind in ELEMENTWISE and all(held.aligned for _, held in helds):
        return _meet(op, helds, alike)
    return any(
        isinstance(mine, Repl) and isinstance(theirs, Digit) and any(not held.cut(d) for d in alike(t))
        for t, held in helds for _, other in helds for mine, theirs in zip(held.mesh, other.mesh, strict=True)
    )  # fmt: skip


def _meet(op: Op, helds: Sequence[tuple[Tensor, Held]], alike: Alike) -> bool:
    """Whether operands differ along dims alone along which all but those that lie in one way are the same."""
    apart = [d for d in range(len(op.result.shape)) if len({_along(held, d) for _, held in helds}) > 1]
    return bool(apart) and all(
        len({_along(held, d) for t, held in helds if d not in alike(t)}) < 2 for d in apart
    )


def _along(held: Held, dim: int) -> tuple[object, ...]:
    """How a value lies along a dim."""
    cut = tuple((p, held.mesh[p]) for p in held.cut(dim))
    return held.base.shape[dim], cut, tidy(held.local[dim])


def counts_more(tensor: Tensor, lifted: Lifted, makers: Mapping[Tensor, Op], alike: Alike) -> bool:
    """Whether what was counted several times is a sum of values that are the same, or a number: as many of them on
    every rank may be the rank's block of so many times as many."""
    counted, summed = set[Op](), set[Op]()
    _above(tensor, makers, counted, lambda op: op in lifted.counted)
    for one in counted & lifted.counted.keys():
        if lifted.fixed.issuperset(one.operands):
            return True
        for t in one.operands:
            _above(t, makers, summed, lambda op: False)
    return any(_sums_alike(op, alike) for op in summed)


def _above(tensor: Tensor, makers: Mapping[Tensor, Op], found: set[Op], last: Callable[[Op], bool]) -> None:
    """The ops that a value came through that are linear, up to those that are the last."""
    stack = [tensor]
    while stack and len(found) < FAR:
        op = makers.get(stack.pop())
        if op is not None and op not in found and (op.kind in LINE or last(op)):
            found.add(op)
            stack += op.operands if not last(op) else ()


def _sums_alike(op: Op, alike: Alike) -> bool:
    """Whether an op adds up what is the same."""
    if op.kind == "reduce" and op.symbols.get("reducer") == ["sum"]:
        return not alike(op.operands[0]).isdisjoint(op.numbers["dimensions"])
    pairs = zip(*(op.numbers.get(f"{side}_contracting_dims", ()) for side in ("lhs", "rhs")), strict=True)
    return any(a in alike(op.operands[0]) and b in alike(op.operands[1]) for a, b in pairs)


def fits_anywhere(end: Boundary, alike: Alike) -> bool:
    """Whether an output has another shape than is asked for along dims alone along which it is the same."""
    want, mine = Layout.parse(end.wanted).local_shape, end.port.tensor.shape
    apart = {d for d, (n, m) in enumerate(zip(want, mine, strict=False)) if n != m}
    return len(want) == len(mine) and apart <= alike(end.port.tensor)
