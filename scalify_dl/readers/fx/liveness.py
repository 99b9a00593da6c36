"""Which names of a module anything reads in the end, and whether a module may write memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .aliases import effect_of
from .compute import EFFECTS, lowering_of, packet_of
from .reader import Module
from .syntax import Call, Infix, Item, Ref

__all__ = ["live_names", "may_write", "names_in", "sources"]


def live_names(module: Module) -> set[str]:
    """Names that a returned value, or an op that may write, depends on."""
    live = set(names_in(module.returned))
    for statement in reversed(module.statements):
        if any(name in live for name in statement.names) or not _pure(statement.value):
            live.update(names_in(statement.value))
    return live


def sources(value: Any, plain: Mapping[str, Any]) -> set[str]:
    """The names that a value depends on, those of what only rearranges (`plain`) by what it rearranges."""
    found, waiting, seen = set[str](), [*names_in(value)], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in plain:
            found.add(name)
        elif name not in seen:
            seen.add(name)
            waiting += names_in(plain[name])
    return found


def may_write(module: Module) -> bool:
    """Whether some op of a module, or of its sub-modules, writes memory or may do so."""
    inner = any(may_write(each) for each in module.modules.values())
    return inner or any(not _pure(statement.value) for statement in module.statements)


def _pure(value: Any) -> bool:
    """Whether a statement certainly writes nothing."""
    if not isinstance(value, Call):
        return True
    name = value.function.removeprefix("torch.ops.")
    space, packet = name.partition(".")[0], packet_of(name)
    if space in ("operator", "_operator", "device", "torch") or packet in EFFECTS or space in EFFECTS:
        return True
    effect = effect_of(name, value.kwargs)
    if effect is None:
        return lowering_of(name) is not None
    return not effect.written


def names_in(value: Any) -> Iterator[str]:
    """Names in an expression."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, Item):
        yield from names_in(value.value)
        yield from names_in(value.index)
    elif isinstance(value, Infix):
        yield from names_in(value.left)
        yield from names_in(value.right)
    elif isinstance(value, Call):
        yield from names_in(value.args)
        yield from names_in(value.kwargs)
    elif type(value) in (list, tuple):
        for item in value:
            yield from names_in(item)
    elif type(value) is dict:
        for item in value.values():
            yield from names_in(item)
