"""Values that are no tensors: sizes that are computed with, and what the text does not show."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

INFIX: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "/": operator.truediv,
    "%": operator.mod, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "**": operator.pow, "&": operator.and_, "|": operator.or_,
}  # fmt: skip
OPERATOR_NAMES = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "pow": "**", "and_": "&", "or_": "|",
}  # fmt: skip


SIZE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sym_min": min, "sym_max": max, "sym_not": operator.not_, "sym_float": float, "sym_int": int,
    "sym_sum": sum, "sym_ite": lambda condition, a, b: a if condition else b,
}  # fmt: skip
"""Functions of sizes, below `torch.`."""
MAX_POWER = 64


class Hidden(NamedTuple):
    """A value that is no tensor and that the text does not show: an input (a size, a device mesh), or what `name` makes
    `of` other values; a tensor among those stands for the number that an op gave."""

    name: str
    of: tuple[Any, ...] = ()


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    """`left sign right` of sizes; hidden where a side is. InputError for what is no arithmetic of sizes."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        raise InputError(f"`{sign}` of tensors is written as an op in FX text", expected="torch.ops.aten.…")
    if isinstance(left, int | float) and isinstance(right, int | float):
        if sign == "**" and not abs(right) <= MAX_POWER:
            raise InputError(f"`{left} ** {right}` of sizes")
        if sign not in INFIX or (sign in ("/", "//", "%") and right == 0):
            raise InputError(f"`{left} {sign} {right}` of sizes")
        return INFIX[sign](left, right)
    return Hidden(sign, (left, right))


def size_function(name: str, args: Sequence[Any]) -> Any:
    """`torch.sym_min(a, b)` and the like; hidden where an argument is."""
    if any(isinstance(arg, Hidden) for arg in args):
        return Hidden(name, tuple(args))
    try:
        return SIZE_FUNCTIONS[name](*args)
    except TypeError:
        raise InputError(f"`torch.{name}` of {len(args)} arguments that are no sizes") from None
