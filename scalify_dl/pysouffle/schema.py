"""What a program declares."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Rule:
    """A rule or fact of a program: the relation of its head, its text, and where it stands."""

    relation: str
    text: str
    file: str
    line: int
