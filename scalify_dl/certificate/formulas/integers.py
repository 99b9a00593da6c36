"""Integers that depend on inputs: those of which all that they may be is known, and those that only become real
numbers.

An integer of a small range is a table: for each value that it may have a form that is 1 where it has it, and else 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from .elementwise import Elementwise
from .forms import Atoms, Form, Unknown

MOST_VALUES = 64
"""Values that an integer may have, if each is looked at."""


class Table:
    """What an integer may be, and where it is that: exactly one of the forms is 1, all others are 0."""

    __slots__ = ("cases",)

    def __init__(self, cases: dict[int, Form]) -> None:
        if len(cases) > MOST_VALUES:
            raise Unknown("an integer that may be much")
        self.cases = cases


class Whole:
    """An integer of which nothing is known but its bounds."""

    __slots__ = ("form", "high", "low")

    def __init__(self, form: Form, low: int, high: int) -> None:
        self.form, self.low, self.high = form, low, high


def unknown_integer(atoms: Atoms, name: Any, low: int, high: int) -> Table | Whole:
    """An unknown that is at least `low` and at most `high`."""
    if high - low >= MOST_VALUES:
        return Whole(atoms.atom("input", name), low, high)
    atoms.choices[name] = high - low + 1
    later = {low + n: atoms.atom("chosen", (name, n)) for n in range(1, high - low + 1)}
    first = atoms.number(1)
    for form in later.values():
        first = first - form
    return Table({low: first, **later})


def table(atoms: Atoms, x: Any) -> Table:
    """An integer as a table."""
    if isinstance(x, Table):
        return x
    if isinstance(x, int):
        return Table({x: atoms.number(1)})
    raise Unknown("integers that depend on inputs")


def combined(atoms: Atoms, function: Callable[..., int], xs: Iterable[Any]) -> Any:
    """A function of integers: an integer, or a table."""
    xs = list(xs)
    if all(isinstance(x, int) for x in xs):
        return function(*xs)
    tables = [table(atoms, x).cases.items() for x in xs]
    if prod(map(len, tables)) > MOST_VALUES**2:
        raise Unknown("integers that may be much")
    cases: dict[int, Form] = {}
    for parts in product(*tables):
        where = atoms.number(1)
        for _, form in parts:
            where = where * form
        if where.terms:
            found = function(*(value for value, _ in parts))
            cases[found] = cases[found] + where if found in cases else where
    return Table(cases)


def where(atoms: Atoms, which: Any, yes: Any, no: Any) -> Any:
    """One of two integers, by a truth."""
    if isinstance(which, int):
        return yes if which else no
    cases: dict[int, Form] = {}
    for truth, x in ((which, yes), (atoms.number(1) - which, no)):
        for value, form in table(atoms, x).cases.items():
            if (now := truth * form).terms:
                cases[value] = cases[value] + now if value in cases else now
    return Table(cases)


def compared(of: Elementwise, direction: str, x: Any, y: Any) -> Any:
    """A comparison of integers: 1 or 0, or a form that is one of them."""
    found = combined(of.atoms, lambda a, b: int(of.compare(direction, a, b)), [x, y])
    if isinstance(found, int):
        return found
    if len(found.cases) == 1:
        return next(iter(found.cases))
    return found.cases[1]


def as_real(atoms: Atoms, x: Table | Whole, most: int) -> Form:
    """An integer as a real number of a type that holds all whole numbers up to `most`."""
    ends = [x.low, x.high] if isinstance(x, Whole) else [*x.cases]
    if max(map(abs, ends)) > most:
        raise Unknown("integers that are rounded")
    if isinstance(x, Whole):
        return x.form
    total = atoms.number(0)
    for value, form in x.cases.items():
        total = total + form.times(Fraction(value))
    return total


def mixed(of: Elementwise, cases: dict[int, Form], elements: Sequence[Any]) -> Any:
    """The element of which the truth is 1; exactly one is."""
    if len(cases) == 1:
        return elements[next(iter(cases))]
    if not all(isinstance(elements[i], int | Table) for i in cases):
        total = of.atoms.number(0)
        for i, truth in cases.items():
            total = total + truth * of.form(elements[i])
        return total
    found: dict[int, Form] = {}
    for i, truth in cases.items():
        for value, form in table(of.atoms, elements[i]).cases.items():
            if (now := truth * form).terms:
                found[value] = found[value] + now if value in found else now
    return Table(found)
