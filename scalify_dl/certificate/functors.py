"""What functors mean to the checker."""

from __future__ import annotations

import re
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
    """The value, if it is a number of stock Soufflé."""
    if not -(2**31) <= value < 2**31:
        raise RuleError(f"{value} is too large a number")
    return value


def number(text: str) -> int:
    """The number that a text is."""
    if not re.fullmatch("-?[0-9]+", text):
        raise RuleError(f"{text[:80]!r} is not a number")
    return int(text)


def part(text: str, start: int, count: int) -> str:
    """Part of a text, counted in bytes; nothing where it begins beyond the text, all the rest for a negative count."""
    data = text.encode("utf-8", "surrogateescape")
    taken = data[start : start + count if count >= 0 else None] if start >= 0 else b""
    return taken.decode("utf-8", "surrogateescape")


INFIX = {"+": "+", "-": "-", "*": "*", "band": "&", "bor": "|", "bxor": "^"}
FUNCTORS: dict[str, Callable[..., Any]] = {
    "/": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
    "bshl": lambda a, b: whole(a << (b if 0 <= b < 32 else 32)),
    "max": max,
    "min": min,
    "to_string": str,
    "to_number": number,
    "strlen": lambda text: len(text.encode("utf-8", "surrogateescape")),
    "substr": part,
}
