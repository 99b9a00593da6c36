"""What the checker knows of rules and values: terms, literals, clauses.

Values are ints, strs and `Cell`s: records (`nil` is None), and values of an algebraic data type as the pair of their
branch's name and its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Cell:
    """A record. Equal records are one object: they share parts, and comparing or hashing them by content would take
    exponential time."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Value, ...]) -> None:
        self.items = items


Value = int | str | Cell | None
_CELLS: dict[tuple[Value, ...], Cell] = {}


def cell(items: tuple[Value, ...]) -> Cell:
    """The record of these items."""
    found = _CELLS.get(items)
    if found is None:
        found = _CELLS[items] = Cell(items)
    return found


class Var(NamedTuple):
    """A variable; `_` is the name of the unnamed one."""

    name: str


class Const(NamedTuple):
    """A number, a text or nil."""

    value: Value


class Record(NamedTuple):
    """`[a, b]`"""

    items: tuple[Term, ...]


class Apply(NamedTuple):
    """A functor: an operator or a function by name."""

    name: str
    args: tuple[Term, ...]


class Aggregate(NamedTuple):
    """`count : { … }`, `min x : { … }`"""

    kind: str
    target: Term | None
    body: tuple[Literal, ...]


class Atom(NamedTuple):
    """`relation(args)`, or its negation."""

    relation: str
    args: tuple[Term, ...]
    negated: bool = False


class Compare(NamedTuple):
    """`left op right` with op one of = != < <= > >=, or `contains`: left is part of right."""

    op: str
    left: Term
    right: Term


Term = Var | Const | Record | Apply | Aggregate
Literal = Atom | Compare


@dataclass(frozen=True, eq=False)
class Clause:
    """One rule (or fact, with no body), where it stands and its text without layout."""

    head: Atom
    body: tuple[Literal, ...]
    file: str
    line: int
    text: str


@dataclass
class RuleSet:
    """Everything that the checker knows of the rules."""

    relations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Relation → types of its attributes (`number`, `symbol` or the name of another type)."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Relation that is read from the facts → name of its file."""
    choices: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    """Relation with a choice domain → its keys, by position: of several rows with one key only one may be there."""
    clauses: list[Clause] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


class RuleError(Exception):
    """Rules that the checker does not understand, and therefore does not accept."""


LOCAL = "'"
"""Ends the names of variables that belong to an aggregate: they occur nowhere outside it."""


def own_variables(head: Atom, body: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """The body with the variables that occur only inside an aggregate renamed, to tell them from the others."""
    outside: set[str] = set()

    def collect(term: Term) -> None:
        if isinstance(term, Var):
            outside.add(term.name)
        elif isinstance(term, Record | Apply):
            for item in term.items if isinstance(term, Record) else term.args:
                collect(item)

    def rename(term: Term, inside: bool) -> Term:
        if isinstance(term, Var):
            return Var(term.name + LOCAL) if inside and term.name not in outside and term.name != "_" else term
        if isinstance(term, Record):
            return Record(tuple(rename(item, inside) for item in term.items))
        if isinstance(term, Apply):
            return Apply(term.name, tuple(rename(item, inside) for item in term.args))
        if isinstance(term, Aggregate):
            target = None if term.target is None else rename(term.target, True)
            return Aggregate(term.kind, target, tuple(literal(x, True) for x in term.body))
        return term

    def literal(one: Literal, inside: bool) -> Literal:
        if isinstance(one, Atom):
            return one._replace(args=tuple(rename(term, inside) for term in one.args))
        return Compare(one.op, rename(one.left, inside), rename(one.right, inside))

    for one in (head, *body):
        for term in one.args if isinstance(one, Atom) else (one.left, one.right):
            collect(term)
    return tuple(literal(one, False) for one in body)


def atoms(body: Iterable[Literal]) -> Iterator[Atom]:
    """All atoms of a body, those inside aggregates too."""
    for literal in body:
        if isinstance(literal, Atom):
            yield literal
        for term in literal.args if isinstance(literal, Atom) else (literal.left, literal.right):
            yield from _inner(term)


def _inner(term: Term) -> Iterator[Atom]:
    if isinstance(term, Aggregate):
        yield from atoms(term.body)
    elif isinstance(term, Apply | Record):
        for item in term.args if isinstance(term, Apply) else term.items:
            yield from _inner(item)
