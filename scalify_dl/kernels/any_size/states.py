"""Memory that a loop changes, as unknowns: what it holds at the beginning of an iteration, and after a maximum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from scalify_dl.algebra.extended import Cell, Masked
from scalify_dl.algebra.form import Element, Field, Form, Monomial
from scalify_dl.algebra.rebuilt import Rebuilt
from scalify_dl.algebra.sized import size_of
from scalify_dl.algebra.variables import Renamed, Variable

from ..domain import Undecided
from .places import Cut, Place

MARK = "state"


@dataclass(frozen=True, slots=True)
class Tile:
    """What a memory holds: one formula in the digits of its dims."""

    dims: tuple[tuple[Variable, ...], ...]
    cell: Cell

    @property
    def variables(self) -> list[Variable]:
        """All its digits."""
        return [v for dim in self.dims for v in dim]


Memory = dict[int, Tile | None]


@dataclass(slots=True)
class State:
    """Memory that a loop changes: the unknown that it holds at the beginning of an iteration, and a name for the new
    value of a running maximum."""

    tile: Tile
    """The unknown, as what the memory holds."""
    before: Form
    after: Form
    first: Tile | None
    """What it holds when the loop starts."""
    new: Cell | None = None
    """The running maximum that `after` stands for."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The iterations that a loop makes: what its variable counts from 0 on, the variables of that, and 1 where there is
    such an iteration."""

    count: Place
    variables: tuple[Variable, ...]
    shown: Form


class At(Rebuilt):
    """Forms with a value in the place of the unknown of a memory, at whatever place it stands."""

    def __init__(self, basis: Field, state: State, when: str, value: Form) -> None:
        super().__init__(basis, self._changed)
        self.state, self.when, self.value = state, when, value
        self.wanted = (*data_of(state.before)[0][:-1], when)

    def _changed(self, element: Element) -> Form | None:
        data: Any = element.data
        if element.kind != "input" or type(data) is not tuple or data[0] != self.wanted:
            return None
        names = dict(zip(self.state.tile.variables, data[1:], strict=True))
        return Renamed(self.field, names).form(self.value)

    def element(self, number: int) -> Form | None:
        """A changed element; a value is not looked into again."""
        if number not in self.known:
            found = self._changed(self.field.elements[number])
            self.known[number] = found if found is not None else self._element(self.field.elements[number], number)
        return self.known[number]


def without(monomial: Monomial, unknown: Monomial) -> Monomial | None:
    """A product without another one in it; None where it is not a factor."""
    left = dict(monomial)
    for number, exponent in unknown:
        if left.get(number) != exponent:
            return None
        del left[number]
    return tuple(sorted(left.items()))


def aligned(basis: Field, state: State) -> Cell | None:
    """What memory holds when the loop starts, in the variables of the unknown."""
    if state.first is None:
        return None
    mine, theirs = state.tile.variables, state.first.variables
    if len(mine) != len(theirs) or any(a.size != b.size for a, b in zip(mine, theirs, strict=True)):
        for a, b in zip(mine, theirs, strict=False):
            if a.size != b.size:
                raise Cut(a, size_of(b))
        return None
    found: Cell = Renamed(basis, dict(zip(theirs, mine, strict=True))).cell(state.first.cell)
    return found


def stateless(cell: Cell, what: str, of: Iterable[State] | None = None) -> None:
    """Undecided where a formula has an unknown of a loop in it (of these memories)."""
    forms = [cell.flag, cell.form] if isinstance(cell, Masked) else [cell]
    found = {name for form in forms for name, _ in states_in(form)}
    if found if of is None else found & {name_of(state.before) for state in of}:
        raise Undecided(what)


def data_of(x: Form) -> Any:
    """The data of the unknown that a formula is, or is a function of."""
    (found,) = {data for data in _inputs(x) if _is_state(data)}
    return found


def name_of(x: Form) -> str:
    name: str = data_of(x)[0][3]
    return name


def _is_state(data: Any) -> bool:
    return type(data) is tuple and type(data[0]) is tuple and data[0][:1] == (MARK,)


def states_in(form: Form) -> set[tuple[str, str]]:
    """The unknowns of loops in a formula, however deep: of which memory, and whether before or after."""
    return {(data[0][3], data[0][4]) for data in _inputs(form) if _is_state(data)}


def _inputs(form: Form) -> Iterator[Any]:
    """The data of all unknowns in a formula."""
    basis, seen = form.field, set()

    def of(what: Any) -> Iterator[Any]:
        if isinstance(what, Form):
            for monomial in what.terms:
                for number, _ in monomial:
                    yield from of_element(number)
        elif isinstance(what, (tuple, frozenset)):
            for part in what:
                yield from of(part)

    def of_element(number: int) -> Iterator[Any]:
        if number in seen:
            return
        seen.add(number)
        kind, data = basis.elements[number][:2]
        if kind == "input":
            yield data
        elif kind == "exp":
            for inner, _ in data:  # type: ignore[attr-defined]
                yield from of_element(inner)
        else:
            yield from of(data)

    yield from of(form)
