"""HLO types: `f32[8,16]{1,0}`, tuples, tokens."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from scalify_dl.ir.vocabulary import DTYPES

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\](?:\{([^{}]*)\})?")
_COMMENT = re.compile(r"/\*.*?\*/")
_SPACE = re.compile(r"S\(\d+\)")
NESTING_LIMIT = 64


class ArrayType(NamedTuple):
    """An array: element type, sizes, and how it lies in memory: the minor-to-major order of its dims (None: row-major),
    and what the layout says behind it (`T(8,128)(2,1)`: tiles; memory spaces `S(1)` are dropped)."""

    dtype: str
    shape: tuple[int, ...]
    minor_to_major: tuple[int, ...] | None = None
    packing: str = ""


Type = ArrayType | tuple["Type", ...]
"""An array type, or the types of a tuple's elements."""


@lru_cache(maxsize=65536)
def parse_type(text: str) -> Type:
    """Reads a type; ValueError with what is wrong."""
    text = _COMMENT.sub("", text).strip()
    parsed, end = _parse(text, 0, 0)
    if end != len(text):
        raise ValueError(f"`{text[end : end + 40]}` after a type")
    return parsed


def _parse(text: str, at: int, depth: int) -> tuple[Type, int]:
    if depth > NESTING_LIMIT:
        raise ValueError(f"tuple types nested deeper than {NESTING_LIMIT}")
    if text[at : at + 1] != "(":
        match = _ARRAY.match(text, at)
        if not match:
            raise ValueError(f"`{text[at : at + 40]}` is no type such as f32[8,16]")
        return _array(match[1], match[2], match[3]), match.end()
    elements: list[Type] = []
    at += 1
    while True:
        while text[at : at + 1] in (" ", ","):
            at += 1
        if text[at : at + 1] == ")":
            return tuple(elements), at + 1
        if at >= len(text):
            raise ValueError("tuple type without `)`")
        element, at = _parse(text, at, depth + 1)
        elements.append(element)


def _array(dtype: str, dims: str, layout: str | None) -> ArrayType:
    if dtype not in DTYPES and dtype != "opaque":
        raise ValueError(f"unknown element type `{dtype}`")
    try:
        shape = tuple(map(int, dims.split(","))) if dims.strip() else ()
    except ValueError:
        raise ValueError(f"dims [{dims}] are not numbers (dynamic shapes are not supported)") from None
    if any(n < 0 or n >= 2**31 for n in shape):
        raise ValueError(f"dims [{dims}] outside of 0 … 2^31")
    order, packing = None, ""
    if layout:
        head, _, rest = layout.partition(":")
        packing = _SPACE.sub("", "".join(rest.split()))
        if head.strip():
            order = tuple(map(int, head.split(",")))
            if sorted(order) != list(range(len(shape))):
                raise ValueError(f"layout {{{layout}}} does not order the dims of [{dims}]")
    return ArrayType(dtype, shape, order, packing)


def type_text(parsed: Type) -> str:
    """The text of a type, as `parse_type` reads it."""
    if isinstance(parsed, ArrayType):
        order = ",".join(map(str, parsed.minor_to_major or ()))
        layout = f"{order}:{parsed.packing}" if parsed.packing else order
        braces = "" if parsed.minor_to_major is None and not layout else f"{{{layout}}}"
        return f"{parsed.dtype}[{','.join(map(str, parsed.shape))}]{braces}"
    return f"({', '.join(map(type_text, parsed))})"


def flatten(parsed: Type) -> list[ArrayType]:
    """The arrays of a type, tuples opened depth first."""
    if isinstance(parsed, ArrayType):
        return [parsed]
    return [array for element in parsed for array in flatten(element)]
