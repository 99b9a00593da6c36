"""How often a loop runs, by running the integers and truth values that its condition reads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from scalify_dl.ir.dtypes import integers_of, is_integer
from scalify_dl.ir.graph import Graph, Op, Tensor

from .regions import COMPARE, producers

MOST = 4096
"""Turns that are run at most."""
_MEANINGS: dict[str, Callable[..., int]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negate": operator.neg,
    "not": operator.invert, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "maximum": max, "minimum": min, "convert": int, "select": lambda test, x, y: x if test else y,
}  # fmt: skip


def turns(cond: Graph, body: Graph, carried: Sequence[Tensor], made: Mapping[Tensor, Op], said: int) -> int | None:
    """The number of turns, or `said` + 1 where there are more; None where that rests on other values, or takes long."""
    state = {i: value for i, t in enumerate(carried) if (value := _value(t, made, {})) is not None}
    tests, steps = producers(cond.ops), producers(body.ops)
    for turn in range(min(said, MOST) + 1):
        again = _value(cond.outputs[0].tensor, tests, {cond.inputs[i].tensor: v for i, v in state.items()})
        if not again:
            return again if again is None else turn
        known = {body.inputs[i].tensor: v for i, v in state.items()}
        state = {i: v for i in state if (v := _value(body.outputs[i].tensor, steps, known)) is not None}
    return said + 1 if said <= MOST else None


def _value(tensor: Tensor, made: Mapping[Tensor, Op], known: dict[Tensor, int]) -> int | None:
    """A scalar by those that are known; None where it is not of them, or no integer or truth value."""
    if tensor in known:
        return known[tensor]
    op = made.get(tensor)
    if op is None or tensor.shape or not (is_integer(tensor.dtype) or tensor.dtype == "pred"):
        return None
    if op.kind == "constant":
        number = tensor.literal.rational if tensor.literal is not None else None
        return int(number) if number is not None and number.denominator == 1 else None
    args = [_value(x, made, known) for x in op.operands]
    if None in args or (op.kind not in _MEANINGS and op.kind != "compare"):
        return None
    meaning = COMPARE[op.symbols["direction"][0]] if op.kind == "compare" else _MEANINGS[op.kind]
    value = int(meaning(*args))
    if tensor.dtype == "pred":
        known[tensor] = value & 1 if op.kind == "not" else int(value != 0)
    else:
        least = integers_of(tensor.dtype)[0]
        known[tensor] = (value - least) % (1 << int(tensor.dtype[1:])) + least
    return known[tensor]
