"""Integers and truths that depend on inputs with few values: tables of what they are for each of them.

An id below 32 is one of 32 numbers. What a program computes of it, with the integer arithmetic of its type, is a table
of 32 values; as a real number that is Σ value · [id = k]: an indicator each, of which one is 1.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .form import Field, Form, Undecided

Array = np.ndarray[Any, Any]
MOST = 4096
"""Most entries of a table."""
FEW = 81
"""Entries up to which what an integer chooses among integers is a table; else it is a sum of indicators."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An integer input element that is one of lo … hi − 1."""

    name: Hashable
    lo: int
    hi: int

    def is_made(self, what: str) -> bool:
        """Whether it is a place of a row (what, row, which): the element of an input is (tensor, which), whatever the
        tensor is called."""
        return isinstance(self.name, tuple) and len(self.name) == 3 and self.name[0] == what


@dataclass(frozen=True, eq=False)
class Table:
    """A value for each combination of the leaves' values: `values` has one dim a leaf."""

    leaves: tuple[Leaf, ...]
    values: Array

    def __bool__(self) -> bool:
        raise Undecided("a value that depends on inputs decides what is computed")

    def __int__(self) -> int:
        raise Undecided("a value that depends on inputs decides what is computed")

    def spread(self, leaves: tuple[Leaf, ...]) -> Array:
        """The values over more leaves."""
        shape = [leaf.hi - leaf.lo if leaf in self.leaves else 1 for leaf in leaves]
        return self.values.reshape(shape)

    def simplified(self) -> Table:
        """Without the leaves that do not matter."""
        leaves, values = list(self.leaves), self.values
        for axis in reversed(range(len(leaves))):
            if values.shape[axis] and (values == values.take([0], axis)).all():
                values = values.take(0, axis)
                del leaves[axis]
        return Table(tuple(leaves), values)


def leaf_table(leaf: Leaf, dtype: np.dtype[Any]) -> Table:
    """The input element itself."""
    return Table((leaf,), np.arange(leaf.lo, leaf.hi).astype(dtype))


def together(tables: list[Table], most: int = MOST) -> tuple[tuple[Leaf, ...], list[Array]]:
    """All leaves of some tables, and each one's values over them; Undecided where these are many."""
    leaves = tuple(sorted({leaf for table in tables for leaf in table.leaves}, key=repr))
    shape = tuple(leaf.hi - leaf.lo for leaf in leaves)
    if np.prod(shape, dtype=float) > most:
        raise Undecided("integers that depend on many inputs")
    return leaves, [np.broadcast_to(table.spread(leaves), shape) for table in tables]


def indicator(field: Field, leaf: Leaf, value: int) -> Form:
    """[leaf = value]; the last one is 1 less all others, so that all of them add up to 1."""
    if leaf.hi - leaf.lo == 1:
        return field.one
    if leaf.is_made("turned"):  # where a value is among the places of a row
        made: Any = leaf.name
        _, row, found = made
        return indicator(field, Leaf(("order", row, value), leaf.lo, leaf.hi), found)
    if value < leaf.hi - 1:
        return field.of(field.element("equals", (leaf, value), nonnegative=True))
    rest = field.one
    for other in range(leaf.lo, leaf.hi - 1):
        rest = rest - indicator(field, leaf, other)
    return rest


def cases(field: Field, leaves: tuple[Leaf, ...]) -> list[tuple[tuple[int, ...], Form]]:
    """Each combination of values (as positions), with the indicator of it."""
    known: list[tuple[tuple[int, ...], Form]] | None = field.cases.get(leaves)
    if known is None:
        each = [[indicator(field, leaf, value) for value in range(leaf.lo, leaf.hi)] for leaf in leaves]
        known = [((), field.one)]
        for flags in each:
            known = [((*at, n), so_far * flag) for at, so_far in known for n, flag in enumerate(flags)]
        field.cases[leaves] = known
    return known


def as_form(field: Field, table: Table) -> Form:
    """The table as a real number."""
    table = table.simplified()
    total = field.zero
    for at, flag in cases(field, table.leaves):
        value = int(table.values[at])
        if value:
            total = total + flag.scaled(value)
    return total
