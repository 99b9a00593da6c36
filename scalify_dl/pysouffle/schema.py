"""What a program declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Attribute:
    """A column: its name, its type, and the kind of that type: number, unsigned, float, symbol, record or adt."""

    name: str
    type: str
    kind: str


@dataclass(frozen=True)
class Relation:
    """A declared relation. `name` is qualified (`component.relation`)."""

    name: str
    attributes: tuple[Attribute, ...]
    eqrel: bool
    index: int


class Relations(Mapping[str, Relation]):
    """Relations by name, in order of declaration. There are many; each is put together when it is asked for."""

    def __init__(self, declared: Iterable[tuple[str, list[tuple[str, str, str]], bool]]) -> None:
        self._declared = {name: (attributes, eqrel, index) for index, (name, attributes, eqrel) in enumerate(declared)}
        self._made: dict[str, Relation] = {}

    def __getitem__(self, name: str) -> Relation:
        found = self._made.get(name)
        if found is None:
            attributes, eqrel, index = self._declared[name]
            found = self._made[name] = Relation(name, tuple(Attribute(*a) for a in attributes), eqrel, index)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    def named(self, wanted: Callable[[str], bool]) -> Relations:
        """Those whose names are wanted."""
        some = Relations(())
        some._declared = {name: declared for name, declared in self._declared.items() if wanted(name)}
        return some


@dataclass(frozen=True)
class Rule:
    """A rule or fact of a program: the relation of its head, its text, and where it stands."""

    relation: str
    text: str
    file: str
    line: int
