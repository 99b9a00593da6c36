"""What functors mean to the checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .terms import RuleError


def quotient(a: int, b: int) -> int:
    """Division towards zero."""
    if b == 0:
        raise RuleError("division by zero")
    out = abs(a) // abs(b)
    return out if (a < 0) == (b < 0) else -out


def whole(value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise RuleError(f"{value} is not a 32-bit number")
    return value


INFIX = {"+": "+", "-": "-", "*": "*", "band": "&", "bor": "|", "bxor": "^"}
FUNCTORS: dict[str, Callable[..., Any]] = {
    "/": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
    "bshl": lambda a, b: whole(a << (b if 0 <= b < 32 else 32)),
    "max": max,
    "min": min,
    "to_string": str,
    "to_number": int,
    "strlen": len,
    "substr": lambda text, start, count: text[start : start + count],
}
