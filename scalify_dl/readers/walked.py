"""How often a loop runs, by running the integers and truth values that its condition reads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from scalify_dl.ir.dtypes import integers_of, is_integer
from scalify_dl.ir.graph import Graph, Op, Tensor

from .regions import COMPARE, producers

MOST = 4096
"""Turns that are run at most."""
WORK = 400_000
"""Scalars that are computed at most."""
Known = dict[Tensor, int | None]
"""Scalars, and None for what is not known."""
_MEANINGS: dict[str, Callable[..., int]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negate": operator.neg,
    "not": operator.invert, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "maximum": max, "minimum": min, "convert": int, "select": lambda test, x, y: x if test else y,
}  # fmt: skip


def turns(cond: Graph, body: Graph, carried: Sequence[Tensor], made: Mapping[Tensor, Op], said: int) -> int | None:
    """The number of turns, or `said` + 1 where there are more; None where that rests on other values, or takes long."""
    before: Known = {}
    state = {i: value for i, t in enumerate(carried) if (value := _value(t, made, before)) is not None}
    tests, steps = producers(cond.ops), producers(body.ops)
    most = min(MOST, WORK // (1 + sum(map(_followed, [*tests, *steps]))))
    for turn in range(min(said, most) + 1):
        again = _value(cond.outputs[0].tensor, tests, {cond.inputs[i].tensor: v for i, v in state.items()})
        if not again:
            return again if again is None else turn
        known: Known = {body.inputs[i].tensor: v for i, v in state.items()}
        state = {i: v for i in state if (v := _value(body.outputs[i].tensor, steps, known)) is not None}
    return said + 1 if said <= most else None


def _followed(tensor: Tensor) -> bool:
    """Whether it is a scalar, and an integer or a truth value."""
    return not tensor.shape and (is_integer(tensor.dtype) or tensor.dtype == "pred")


def _value(tensor: Tensor, made: Mapping[Tensor, Op], known: Known) -> int | None:
    """A scalar by those that are known; None where it is not of them, or no integer or truth value."""
    pending = [tensor]
    while pending:
        at = pending[-1]
        op = made.get(at) if at not in known and _followed(at) else None
        if op is not None and (missing := [x for x in op.operands if x not in known]):
            pending += missing
            continue
        known.setdefault(at, _result(op, at, known) if op is not None else None)
        pending.pop()
    return known[tensor]


def _result(op: Op, tensor: Tensor, known: Known) -> int | None:
    """What an op makes of operands that are known, or known not to be."""
    if op.kind == "constant":
        number = tensor.literal.rational if tensor.literal is not None else None
        return int(number) if number is not None and number.denominator == 1 else None
    args = [known[x] for x in op.operands]
    if None in args or (op.kind not in _MEANINGS and op.kind != "compare"):
        return None
    meaning = COMPARE[op.symbols["direction"][0]] if op.kind == "compare" else _MEANINGS[op.kind]
    value = int(meaning(*args))
    if tensor.dtype == "pred":
        return value & 1 if op.kind == "not" else int(value != 0)
    least = integers_of(tensor.dtype)[0]
    return (value - least) % (1 << int(tensor.dtype[1:])) + least
