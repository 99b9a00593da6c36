"""In which statements the programs of two ranks differ, whatever they call what these give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import compress, count
from operator import is_not
from typing import Any

from .liveness import names_in
from .reader import Module, Statement
from .syntax import Call, Infix, Item, Ref

__all__ = ["Named", "differing"]


def differing(first: Module, other: Module) -> dict[int, Statement] | None:
    """By position, the statements of another rank's program that are others; None where more than statements differ."""
    if first is other:
        return {}
    same = (
        len(first.statements) == len(other.statements)
        and first.returned is other.returned
        and first.parameters is other.parameters
        and first.outputs is other.outputs
        and first.keys is other.keys
        and first.modules.keys() == other.modules.keys()
        and all(differing(first.modules[name], other.modules[name]) == {} for name in first.modules)
    )
    if not same:
        return None
    return {at: other.statements[at] for at in compress(count(), map(is_not, first.statements, other.statements))}


class Named:
    """The names in a program: where each is mentioned."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @cached_property
    def mentioned(self) -> dict[str, list[int]]:
        """By name, positions of statements; -1 for what is returned."""
        found: dict[str, list[int]] = {}
        for at, statement in enumerate(self.module.statements):
            for name in names_in(statement.value):
                found.setdefault(name, []).append(at)
        for name in names_in(self.module.returned):
            found.setdefault(name, []).append(-1)
        return found

    @cached_property
    def defined(self) -> set[str]:
        """All names of values."""
        names = {parameter.name for parameter in self.module.parameters}
        return names.union(*(statement.names for statement in self.module.statements))

    def aligned(self, others: dict[int, Statement]) -> dict[int, Statement] | None:
        """Statements of another rank with the names that this program has for what they give; those left out that are
        the same then. None where a name stands for something else in the two."""
        ours = {at: self.module.statements[at] for at in others}
        if any(len(ours[at].names) != len(other.names) for at, other in others.items()):
            return None
        both = [pair for at, other in others.items() for pair in zip(ours[at].names, other.names, strict=True)]
        names = {b: a for a, b in both if a != b}
        if names:
            gone = {at for name in names.values() for at in self.mentioned.get(name, ())}
            if not gone <= others.keys() or names.keys() & self.defined or len({*names.values()}) < len(names):
                return None
            if any(set(names_in(other.value)) & {*names.values()} for other in others.values()):
                return None
            others = {at: replace(other, names=ours[at].names, value=_renamed(other.value, names))
                      for at, other in others.items()}  # fmt: skip
        taken = {name for at, other in others.items() if ours[at] != other for name in _taken(ours[at], other)}
        if any(len(self.mentioned.get(name, ())) != 1 for name in taken):
            return None  # of a value of which another item is taken, nothing else is; nor an item of another value
        return {at: other for at, other in others.items() if ours[at] != other}


def _taken(one: Statement, other: Statement) -> Iterator[str]:
    """Of what two statements take items."""
    for value in (one.value, other.value):
        if isinstance(value, Item):
            yield from names_in(value)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """A value with other names in it."""
    if isinstance(value, Ref):
        return Ref(names.get(value.name, value.name))
    if isinstance(value, Call):
        kwargs = {key: _renamed(each, names) for key, each in value.kwargs.items()}
        return value._replace(args=_renamed(value.args, names), kwargs=kwargs)
    if isinstance(value, Item):
        return value._replace(value=_renamed(value.value, names), index=_renamed(value.index, names))
    if isinstance(value, Infix):
        return value._replace(left=_renamed(value.left, names), right=_renamed(value.right, names))
    if type(value) in (list, tuple):
        return type(value)(_renamed(each, names) for each in value)
    if isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    return value
