"""Index variables: one element that stands for all along a dim, and formulas with other variables in their place.

An element of x at every i is `x[i]`: an unknown whose data hold the variable i. What is shown of it is shown of each i.

    Σ_d q[i, d]·k[j, d]  has the variables i and j;  with j for i it is Σ_d q[j, d]·k[j, d]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .extended import Masked, NotANumber
from .finite import Leaf, Table
from .form import Element, Field, Form, Undecided
from .rebuilt import BOUND, Rebuilt

BINDING = ("sum", "most")
"""Kinds of elements whose data are variables of their own, and what they are of."""
UNKNOWNS = ("input", "flag", "integer", "constant", "position")
"""Kinds of elements that variables stand in."""


class AnySize(int):
    """A size that is a symbol: equal sizes are equal numbers, and nothing is computed with these. `worth` is what it
    is as a formula."""

    worth: Callable[[Field], Form]

    def _number(self, *_: Any) -> NoReturn:
        raise Undecided("a size that is a symbol, as a number")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _number
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _number
    __truediv__ = __rtruediv__ = __index__ = __int__ = __float__ = _number


def counted(field: Field, variables: Iterable[Variable]) -> Form:
    """How many values variables have together."""
    found = field.one
    for v in sorted(variables, key=repr):
        found = found * v.size.worth(field) if isinstance(v.size, AnySize) else found.scaled(v.size)
    return found


class Variable(NamedTuple):
    """A variable that runs through 0 … size − 1."""

    name: tuple[Hashable, ...]
    size: int


Variables = frozenset[Variable]
NONE: Variables = frozenset()


def free(field: Field, what: Any) -> Variables:
    """The variables of a form, of an element of a tensor, or of the data of an element."""
    if isinstance(what, Variable):
        return frozenset({what})
    if isinstance(what, Form):
        return frozenset().union(*(of_element(field, number) for monomial in what.terms for number, _ in monomial))
    if isinstance(what, Masked):
        return free(field, what.flag) | free(field, what.form)
    if isinstance(what, Leaf):
        return free(field, what.name)
    if isinstance(what, Table):
        return frozenset().union(*(free(field, leaf) for leaf in what.leaves))
    if isinstance(what, (tuple, frozenset)):
        return frozenset().union(*(free(field, part) for part in what))
    return NONE


def of_element(field: Field, number: int) -> Variables:
    """The variables of a basis element."""
    known: dict[int, Variables] = field.variables
    if number not in known:
        kind, data = field.elements[number][:2]
        content: Any = data
        if kind == "exp":
            known[number] = free(field, Form(field, {content: 1}))
        elif kind in BINDING:
            known[number] = free(field, content[1:]) - frozenset(content[0])
        else:
            known[number] = free(field, content)
    return known[number]


def fresh(field: Field, variables: tuple[Variable, ...]) -> dict[Variable, Variable]:
    """New variables for these."""
    field.made += 1
    return {v: Variable(("new", field.made, n), v.size) for n, v in enumerate(variables)}


class Renamed(Rebuilt):
    """Forms with other variables in the place of some."""

    def __init__(self, field: Field, names: Mapping[Variable, Variable]) -> None:
        super().__init__(field, self._changed)
        self.names = {old: new for old, new in names.items() if old != new}
        self.targets = frozenset(self.names.values())

    def _changed(self, element: Element) -> Form | None:
        if element.kind not in UNKNOWNS or (element.kind == "flag" and free(self.field, element.data) == NONE):
            return None
        if element.kind == "flag" and element.data[0] != "input":  # type: ignore[index]
            return None
        data = self._data(element.data)
        if data == element.data:
            return None
        signs = {"positive": element.positive, "nonnegative": element.nonnegative}
        return self.field.of(self.field.element(element.kind, data, **signs))

    def _data(self, data: Any) -> Any:
        if isinstance(data, Variable):
            return self.names.get(data, data)
        if isinstance(data, Form):  # a place that is a sum of positions
            return self.form(data)
        return tuple(self._data(part) for part in data) if type(data) is tuple else data

    def element(self, number: int) -> Form | None:
        """An element with other variables; None where it has none of those."""
        if number not in self.known:
            mine = of_element(self.field, number)
            new = self._renamed(number) if not mine.isdisjoint(self.names) else None
            if new is not None and not (free(self.field, new) <= (mine - self.names.keys()) | self.targets):
                raise Undecided("a formula in which variables cannot be renamed")
            self.known[number] = new
        return self.known[number]

    def _renamed(self, number: int) -> Form:
        element = self.field.elements[number]
        found = self._changed(element)
        if found is not None:
            return found
        if element.kind in BINDING:
            content: Any = element.data
            bound, parts = content[0], content[1:]
            if self.targets & frozenset(bound) or not self.names.keys().isdisjoint(bound):
                own = fresh(self.field, bound)
                bound, parts = tuple(own.values()), tuple(Renamed(self.field, own).form(part) for part in parts)
            return BOUND[element.kind](self.field, bound, tuple(self.form(part) for part in parts))
        new = self._element(element, number)
        if new is None:
            raise Undecided("a formula in which variables cannot be renamed")
        return new

    def cell(self, cell: Any) -> Any:
        """An element of a tensor with other variables."""
        if isinstance(cell, Form):
            return self.form(cell)
        if isinstance(cell, Masked):
            return Masked(self.form(cell.flag), self.form(cell.form), cell.sign)
        if isinstance(cell, (bool, int, float, np.generic, Fraction, NotANumber)):
            return cell
        if isinstance(cell, Table) and not free(self.field, cell):
            return cell
        raise Undecided("a value in which variables cannot be renamed")
