"""Which values are numbers where the inputs are: neither infinite nor NaN; and which are above, or not below, zero.

As everywhere, reals do not overflow. What is not known here is taken for possibly infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.vocabulary import words

__all__ = ["Sign", "Signs"]


class Sign(IntEnum):
    """What is known of a value, in the order of how much; each number is also what comes before."""

    UNKNOWN = 0
    NUMBER = 1
    NOT_NEGATIVE = 2
    POSITIVE = 3


NUMBERS = words(
    """add subtract multiply negate tanh sine cosine erf atan2 gelu gelu-tanh gelu-backward gelu-tanh-backward floor
    ceil sign round-nearest-even round-nearest-afz trunc dot minimum collective-permute all-reduce"""
)
"""Ops that make numbers of numbers."""
MOVES = words(
    "reshape transpose broadcast slice dynamic-slice reverse convert copy all-gather all-to-all reduce-scatter"
)
"""Ops whose results are elements of the first operand, or sums of them."""
KEEPS = words("select concatenate dynamic-update-slice pad add clamp")
"""Ops whose result is as positive as the least of its operands (a choice: of what is chosen from)."""


class Signs:
    """Signs of the values of a graph that grows: `made` says which op makes a tensor."""

    def __init__(self, made: Mapping[Tensor, Op]) -> None:
        self.made = made
        self._found: dict[Tensor, Sign] = {}

    def of(self, tensor: Tensor) -> Sign:
        """What is known of a value, where the inputs are numbers."""
        stack = [tensor]
        while stack:
            x = stack[-1]
            if x in self._found:
                stack.pop()
                continue
            op = self.made.get(x)
            waiting = [] if op is None else [y for y in op.operands if y not in self._found]
            if waiting:
                stack.extend(waiting)
                continue
            self._found[x] = Sign.NUMBER if op is None else _sign(op, x, [self._found[y] for y in op.operands])
            stack.pop()
        return self._found[tensor]


def _sign(op: Op, result: Tensor, given: Sequence[Sign]) -> Sign:
    kind = op.kind
    if result.dtype == "pred" or result.dtype[0] in "su":
        return Sign.NUMBER
    if kind == "constant":
        value = result.literal.rational if result.literal is not None else None
        if value is None:
            return Sign.UNKNOWN
        return Sign.POSITIVE if value > 0 else Sign.NOT_NEGATIVE if value == 0 else Sign.NUMBER
    if kind == "iota":
        return Sign.NOT_NEGATIVE
    if op.regions or not given or len(op.results) > 1 or min(given) is Sign.UNKNOWN:
        return Sign.UNKNOWN
    if kind == "convert" and (op.operands[0].dtype == "pred" or op.operands[0].dtype[0] == "u"):
        return Sign.NOT_NEGATIVE
    if kind in MOVES:
        return given[0]
    if kind in ("exponential", "logistic"):
        return Sign.POSITIVE
    if kind == "abs":
        return Sign.POSITIVE if given[0] is Sign.POSITIVE else Sign.NOT_NEGATIVE
    if kind == "multiply":
        return Sign.NOT_NEGATIVE if op.operands[0] is op.operands[1] and min(given) < 2 else min(given)
    if kind == "divide":
        return _divided(op, given)
    if kind == "sqrt":
        return given[0] if given[0] >= Sign.NOT_NEGATIVE else Sign.UNKNOWN
    if kind in ("rsqrt", "log"):
        return Sign.UNKNOWN if given[0] is not Sign.POSITIVE else Sign.POSITIVE if kind == "rsqrt" else Sign.NUMBER
    if kind == "maximum":
        return max(given)
    if kind == "reduce":
        return _reduced(op, given[0])
    if kind in KEEPS:
        return min(given[1:] if kind == "select" else given) if kind != "add" else _added(given)
    return Sign.NUMBER if kind in NUMBERS else Sign.UNKNOWN


def _added(given: Sequence[Sign]) -> Sign:
    return max(given) if min(given) >= Sign.NOT_NEGATIVE else Sign.NUMBER


def _divided(op: Op, given: Sequence[Sign]) -> Sign:
    return min(given) if given[1] is Sign.POSITIVE else Sign.UNKNOWN


def _reduced(op: Op, given: Sign) -> Sign:
    (reducer,) = op.symbols.get("reducer", [""])
    if 0 in op.operands[0].shape or reducer not in ("sum", "max", "min", "prod"):
        return Sign.UNKNOWN
    return given
