"""Ops without a lowering: what of their arguments becomes operands and what attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalify_dl.frontends.graph import Op, Tensor

from .lowering import Context

Types = Sequence[tuple[str, tuple[int, ...]]]


def opaque(c: Context, kind: str, args: Sequence[Any], kwargs: Mapping[str, Any], types: Types, why: str | None) -> Op:
    """Emits `unknown:…` or `custom:…`: tensors are operands, everything else attributes; `why` it is not lowered."""
    operands: list[Tensor] = []
    numbers: dict[str, list[int]] = {}
    symbols: dict[str, list[str]] = {}
    for key, value in [*((f"arg{i}", v) for i, v in enumerate(args)), *kwargs.items()]:
        _collect(key, value, operands, numbers, symbols)
    operands = [x for x in operands if not _uninitialised(c, x)]  # a buffer that it only writes
    if why is not None:
        symbols["reason"] = [why]
    return c.op(kind, operands, types, numbers, symbols)


def _uninitialised(c: Context, x: Tensor) -> bool:
    while x in c.views:
        x = c.views[x][1]
    return x in c.producers and c.producers[x].kind == "empty"


def _collect(
    key: str, value: Any, operands: list[Tensor], numbers: dict[str, list[int]], symbols: dict[str, list[str]]
) -> None:
    """Sorts an argument of an opaque op into operands and attributes."""
    if isinstance(value, Tensor):
        operands.append(value)
    elif type(value) in (list, tuple):
        if value and all(isinstance(v, int) and -(2**31) < v < 2**31 for v in value):
            numbers[key] = [int(v) for v in value]
        else:
            for i, item in enumerate(value):
                _collect(f"{key}.{i}", item() if callable(item) else item, operands, numbers, symbols)
    elif isinstance(value, int) and -(2**31) < value < 2**31:
        numbers[key] = [int(value)]
    elif value is not None:
        symbols[key] = [_word(value)]


def _word(value: Any) -> str:
    text = (
        value if isinstance(value, str) else getattr(value, "path", None) or getattr(value, "name", None) or repr(value)
    )
    return str(text).replace("\t", " ").replace("\n", " ")
