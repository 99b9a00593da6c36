"""What the checker knows of rules and values: terms, literals, clauses.

Values are ints, strs and `Cell`s: records (`nil` is None), and values of an algebraic data type as the pair of their
branch's name and its fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


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
    declared: dict[str, str] = field(default_factory=dict)
    """Relation → the file that declares it."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Relation that is read from the facts → name of its file."""
    choices: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    """Relation with a choice domain → its keys, by position: of several rows with one key only one may be there."""
    clauses: list[Clause] = field(default_factory=list)
    files: dict[Path, str] = field(default_factory=dict)
    """The files, resolved, in the order in which they were read, and their hashes."""


class RuleError(Exception):
    """Rules that the checker does not understand, and therefore does not accept."""


def parts(node: Any, *, aggregates: bool = True) -> list[Any]:
    """All terms and literals in a term, a literal or a tuple of them; perhaps without those inside aggregates."""
    out, todo = [], [node]
    while todo:
        node = todo.pop()
        if node.__class__ is not tuple:
            out.append(node)
        if aggregates or node.__class__ is not Aggregate:
            todo += [part for part in node if isinstance(part, tuple)]
    return out


def atoms(node: Any) -> list[Atom]:
    """All atoms of a body, those inside aggregates too."""
    return [part for part in parts(node) if part.__class__ is Atom]


def names_in(node: Any, *, aggregates: bool = True) -> set[str]:
    """The variables that have a name."""
    return {part.name for part in parts(node, aggregates=aggregates) if part.__class__ is Var} - {"_"}


LOCAL = "'"
"""Ends the names of variables that belong to an aggregate: they occur nowhere outside it."""


def own_variables(node: Any, outside: set[str], inside: bool = False) -> Any:
    """With the variables that occur only inside an aggregate renamed, to tell them from the others."""
    if node.__class__ is Var:
        return Var(node.name + LOCAL) if inside and node.name not in outside and node.name != "_" else node
    if not isinstance(node, tuple):
        return node
    items = [own_variables(part, outside, inside or node.__class__ is Aggregate) for part in node]
    return tuple(items) if node.__class__ is tuple else node.__class__(*items)
