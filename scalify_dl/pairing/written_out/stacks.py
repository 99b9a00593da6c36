"""Stacks: values that a loop wrote part by part, or that are padded with zeros, as gradients of stacked weights are.

What is made of them element by element is made part by part, and put together anew: dw[0] of all turns is one sum then,
though each turn writes it beside dw[1], and which rank has which layers does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Op, Tensor

if TYPE_CHECKING:
    from .emitter import Emitter

__all__ = ["Parts", "Stacks", "of_shape", "side_by_side"]

Parts = list[tuple[int, int, Tensor]]
"""Elements lo … hi along a dim, and the value that they are."""
PART_BY_PART = frozenset(("add", "subtract", "multiply", "divide", "negate", "convert", "all-reduce"))


class Stacks:
    """The stacks among the values of a graph that grows."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self._known: set[Tensor] = set()

    def add(self, x: Tensor) -> None:
        """A value that has parts is a stack."""
        self._known.add(x)

    def note_padded(self, op: Op) -> None:
        """A value padded with zeros along one dim is a stack."""
        low, high = op.numbers["low"], op.numbers["high"]
        dims = [d for d, ends in enumerate(zip(low, high, strict=True)) if any(ends)]
        zero = self.emitter.is_zero(op.operands[1])
        if len(dims) != 1 or any(op.numbers["interior"]) or min(*low, *high) < 0 or not zero:
            return
        (dim,), x = dims, op.operands[0]
        before, behind = (
            self.emitter.zeros(Tensor(x.dtype, (*x.shape[:dim], n, *x.shape[dim + 1 :]))) for n in (low[dim], high[dim])
        )
        self.emitter.parts[op.result] = side_by_side([before, x, behind], dim)
        self.add(op.result)

    def of(self, x: Tensor) -> tuple[int, list[Tensor]] | None:
        """The dim of a stack, and its parts; None where a value is none."""
        if x not in self._known:
            return None
        dim, parts = self.emitter.parts[x]
        return dim, [part for _, _, part in parts]

    def joined(self, rows: Sequence[Tensor], dim: int, like: Op | None) -> Tensor:
        """Values side by side along a dim; a stack if one of them is one along it."""
        stacks = [self.of(x) or (dim, [x]) for x in rows]
        parts = [parts if along == dim else [x] for x, (along, parts) in zip(rows, stacks, strict=True)]
        if not any(x in self._known and along == dim for x, (along, _) in zip(rows, stacks, strict=True)):
            return self.emitter.emit_new("concatenate", rows, like, dimension=dim)
        return self.stack([part for some in parts for part in some], dim, like)

    def stack(self, parts: Sequence[Tensor], dim: int, like: Op | None) -> Tensor:
        """The stack of some parts."""
        whole = self.emitter.emit_new("concatenate", parts, like, dimension=dim)
        self.add(whole)
        return whole

    def part_by_part(self, op: Op, xs: Sequence[Tensor]) -> Tensor | None:
        """What an op makes of stacks along one dim, and of numbers that are everywhere; None where there are others.

        Only sums and factors are looked for part by part: a product of two stacks (the squares of a gradient, for an
        optimiser) is one of whole values in the other program, too.
        """
        stacks = [x for x in xs if x in self._known]
        if len(stacks) > 1 and op.kind in ("multiply", "divide"):
            return None
        dims = {self.emitter.parts[x][0] for x in stacks}
        if op.kind not in PART_BY_PART or len(dims) != 1 or not all(x in self._known or self._number(x) for x in xs):
            return None
        (dim,) = dims
        found = []
        for lo, hi in pairwise(sorted({0, *(hi for x in stacks for _, hi, _ in self.emitter.parts[x][1])})):
            first, last = [0] * len(op.result.shape), list(op.result.shape)
            first[dim], last[dim] = lo, hi
            part = of_shape(op, tuple(b - a for a, b in zip(first, last, strict=True)))
            found += self.emitter.emit(part, [self.emitter.cut(x, first, last, op) for x in xs])
        return self.stack(found, dim, op)

    def _number(self, x: Tensor) -> bool:
        """Whether a value is one number everywhere."""
        made = self.emitter.made.get(x)
        return made is not None and made.kind == "broadcast" and not made.operands[0].shape


def of_shape(op: Op, shape: tuple[int, ...]) -> Op:
    """An op like that one, whose result has that shape."""
    return replace(op, results=[Tensor(op.result.dtype, shape, op.result.name)])


def side_by_side(xs: Sequence[Tensor], dim: int) -> tuple[int, Parts]:
    """The parts of values that are put together along a dim."""
    ends = list(accumulate(x.shape[dim] for x in xs))
    return dim, [(lo, hi, x) for lo, hi, x in zip([0, *ends], ends, xs, strict=False) if lo < hi]
