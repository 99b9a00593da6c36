"""What a program declares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attribute:
    """A column: its name, the name of its type, and what kind of type that is (number, unsigned, float, symbol, record, adt)."""

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
