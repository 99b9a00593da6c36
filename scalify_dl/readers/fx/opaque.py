"""Ops without a lowering: what of their arguments becomes operands and what attributes.

Tensors are operands, in order; numbers and words are attributes under the argument's name. Which argument each of them
is stands in the attribute `form`, the call with its values taken out: `f(x, None, [w, 2], mode="fast")` has the form
`(%, None, [%, int], mode=str)`. Two calls are the same only if forms, attributes and operands are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.texts import escaped

from .lowering import Context, Unsupported
from .reader import Module
from .sizes import Hidden
from .syntax import Item, Ref, Symbol, tensor_type

MAX_ITEMS = 1 << 16
Items = dict[tuple[int, ...], tuple[str, tuple[int, ...]] | None]
"""Types of items by index path: `x[0][1]` is at (0, 1); None where the text shows none."""

OWN_KEYS = re.compile(r"arg\d+|form|reason")
"""Attributes that are no keyword arguments: one of that name is stored with `keyword ` before it."""


def opaque(
    c: Context, kind: str, args: Sequence[Any], kwargs: Mapping[str, Any], items: Mapping[Any, Any], why: str | None
) -> Op:
    """Emits `unknown:…` or `custom:…`: tensors are operands, everything else attributes; `why` it is not lowered.

    `items` are the types of the results by their place among what the call gives.
    """
    call = _Arguments(c)
    form = [call.form(f"arg{i}", value) for i, value in enumerate(args)]
    for name, value in sorted(kwargs.items()):
        key = f"keyword {name}" if OWN_KEYS.fullmatch(name) else name
        form.append(f"{name}={call.form(key, value)}")
    places = [path if isinstance(path, tuple) else (path,) for path in items]
    taken = "" if places in ([()], [(i,) for i in range(len(places))]) else f" -> {places}"
    call.symbols["form"] = [f"({', '.join(form)}){taken}"]
    if why is not None:
        call.symbols["reason"] = [why]
    op = c.op(kind, call.operands, list(items.values()), call.numbers, call.symbols)
    for name in call.unseen:
        for result in op.results:
            c.graph.assume(result, f"the value `{name}` is the same on both sides", "the dump does not show it")
    return op


def _uninitialised(c: Context, x: Tensor) -> bool:
    while x in c.views:
        x = c.views[x][1]
    return x in c.producers and c.producers[x].kind == "empty"


class _Arguments:
    """Sorts the arguments of an opaque op into operands and attributes."""

    def __init__(self, c: Context) -> None:
        self.c = c
        self.operands: list[Tensor] = []
        self.numbers: dict[str, list[int]] = {}
        self.symbols: dict[str, list[str]] = {}
        self.unseen: list[str] = []

    def form(self, key: str, value: Any) -> str:
        """Stores an argument; what stands in its place in the form of the call."""
        if callable(value):
            try:
                value = value()
            except Unsupported as reason:
                value = Hidden(str(reason))
        if isinstance(value, Tensor):
            if _uninitialised(self.c, value):  # a buffer that it only writes
                return "empty"
            self.operands.append(value)
            return "%"
        if isinstance(value, Hidden):
            if not value.of:
                self.unseen.append(value.name)
            inner = [self.form(f"{key}.{i}", item) for i, item in enumerate(value.of)]
            self.symbols[key] = [escaped(value.name)]
            return f"hidden({', '.join(inner)})"
        if type(value) in (list, tuple):
            if value and all(type(item) is int and -(2**31) < item < 2**31 for item in value):
                self.numbers[key] = list(value)
                return f"[int x {len(value)}]"
            return f"[{', '.join(self.form(f'{key}.{i}', item) for i, item in enumerate(value))}]"
        if type(value) is dict:
            items = sorted((repr(name), name) for name in value)
            inner = [f"{shown}: {self.form(f'{key}.{shown}', value[name])}" for shown, name in items]
            return f"{{{', '.join(inner)}}}"
        if value is None:
            return "None"
        if type(value) in (int, bool) and -(2**31) < value < 2**31:
            self.numbers[key] = [int(value)]
            return type(value).__name__
        if isinstance(value, Module):
            self.symbols[key] = [digest(value)]
            return "module"
        self.symbols[key] = [escaped(value.path if isinstance(value, Symbol) else str(value))]
        return "name" if isinstance(value, Symbol) else type(value).__name__


def digest(module: Module) -> str:
    """A hash of what a sub-module computes, by its text without places."""

    def content(of: Module) -> Any:
        statements = [(s.names, s.type, s.value) for s in of.statements]
        inner = [(name, content(each)) for name, each in sorted(of.modules.items())]
        return of.parameters, statements, of.returned, inner

    return f"sha256:{hashlib.sha256(repr(content(module)).encode()).hexdigest()}"


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
        shown = None if type is None or type.shape is None else (type.dtype, type.shape)
        found.setdefault(root, {})[*path, value.index] = shown
    return found


def nested(items: Mapping[tuple[int, ...], Tensor | None]) -> Any:
    """Items by index path as nested tuples; None where nothing is taken, or no tensor."""
    if list(items) == [()]:
        return items[()]
    result: list[Any] = []
    for i in range(max((path[0] for path in items if path), default=-1) + 1):
        inner = {path[1:]: value for path, value in items.items() if path[:1] == (i,)}
        result.append(nested(inner) if inner else None)
    return tuple(result)
