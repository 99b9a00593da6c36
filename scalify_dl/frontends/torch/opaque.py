"""Ops without a lowering: what of their arguments becomes operands and what attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.frontends.graph import Op, Tensor

from .lowering import Context
from .reader import Module
from .syntax import Item, Ref, tensor_type

MAX_ITEMS = 1 << 16
Items = dict[tuple[int, ...], tuple[str, tuple[int, ...]]]
"""Types of items by index path: `x[0][1]` is at (0, 1)."""

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


def items_taken(module: Module, file: str | None) -> dict[str, Items]:
    """Printed types of the items that are taken of each value, by their index path."""
    places: dict[str, tuple[str, tuple[int, ...]]] = {}
    found: dict[str, Items] = {}
    for statement in module.statements:
        value = statement.value
        if not (isinstance(value, Item) and isinstance(value.value, Ref) and isinstance(value.index, int)):
            continue
        if not 0 <= value.index < MAX_ITEMS:
            raise InputError(f"item {value.index} of a value", file=file, line=statement.line)
        root, path = places.get(value.value.name, (value.value.name, ()))
        places[statement.names[0]] = root, (*path, value.index)
        try:
            type = tensor_type(statement.type)
        except ValueError as error:
            raise InputError(str(error), file=file, line=statement.line) from None
        if type is not None and type.shape is not None:
            found.setdefault(root, {})[*path, value.index] = (type.dtype, type.shape)
    return found


def nested(items: dict[tuple[int, ...], Tensor]) -> Any:
    """Items by index path as nested tuples; None where nothing is taken."""
    if () in items:
        return items[()]
    result: list[Any] = []
    for i in range(max((path[0] for path in items), default=-1) + 1):
        inner = {path[1:]: value for path, value in items.items() if path[0] == i}
        result.append(nested(inner) if inner else None)
    return tuple(result)
