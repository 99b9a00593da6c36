"""Rows that are put in an order of which nothing is known, but that it has each element of the row at one place.

A truth says that the element at a place of the new row was at a place of the old one. Two of one row exclude each
other where they have one place in common; those of one place add up to 1. So what is put in an order, computed and put
back is what it was, and a function of what is read at a place is the function of each, where the place is that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

from .forms import Atoms, Form, Product, Unknown

MOST_CASES = 200
"""So often a function is followed for what is read at places."""


def placed(atoms: Atoms, row: Any, size: int) -> list[dict[int, Form]]:
    """For each place of the new row, where its element was; rows of one name are put in one order."""
    if size == 1:
        return [{0: atoms.number(1)}]
    atoms.has_places = True
    return [{i: atoms.atom("placed", (row, size, j, i)) for i in range(size)} for j in range(size)]


def turned_back(atoms: Atoms, places: Sequence[dict[int, Form]]) -> list[dict[int, Form]] | None:
    """If some integers are all that `placed` gives, for each value which of them has it: a sort of them."""
    size = len(places)
    found = [atom for form in places[0].values() for product in form.terms for atom, _ in product][:1]
    if not found or atoms.kinds[found[0]][0] != "placed":
        return None
    row = atoms.kinds[found[0]][1][0]
    if [{i: form.key for i, form in cases.items()} for cases in places] != [
        {i: form.key for i, form in cases.items()} for cases in placed(atoms, row, size)
    ]:
        return None
    return [{j: cases[i] for j, cases in enumerate(places)} for i in range(size)]


def each_once(form: Form) -> Form:
    """The form with what is said of first places put in terms of the others: what was at each of them adds up to 1, and
    so does where each is now."""
    return _without_first(_without_first(form, 2), 3) if form.atoms.has_places else form


def _without_first(form: Form, end: int) -> Form:
    """Without truths whose place at one end is the first."""
    atoms = form.atoms
    while True:
        terms: dict[Product, Fraction] = {}
        beside: dict[int, dict[Product, Fraction]] = defaultdict(dict)
        for product, factor in form.terms.items():
            first = next((a for a, _ in product if atoms.kinds[a][0] == "placed" and atoms.kinds[a][1][end] == 0), None)
            if first is None:
                terms[product] = factor
            else:
                beside[first][tuple(p for p in product if p[0] != first)] = factor
        form = Form(atoms, terms)
        if not beside:
            return form
        for first, inner in beside.items():
            data = list(atoms.kinds[first][1])
            rest = atoms.number(1)
            for k in range(1, data[1]):
                rest = rest - atoms.atom("placed", (*data[:end], k, *data[end + 1 :]))
            form = form + Form(atoms, inner) * rest


def by_places(atoms: Atoms, function: Callable[[list[Any]], Any], xs: list[Any]) -> Any:
    """A function of what is read at places: of what stands at each, where that is read."""
    left = count()

    def whole(xs: list[Any]) -> Any:
        at = _place(atoms, xs) if atoms.has_places else None
        if at is None:
            if next(left) > MOST_CASES:
                raise Unknown("a function of what is read at many places")
            return function(xs)
        row, size, j = at
        total = atoms.number(0)
        for i in range(size):
            truth = atoms.atom("placed", (row, size, j, i))
            found = whole([_where(atoms, x, row, j, i) for x in xs])
            if not isinstance(found, Form | int):
                raise Unknown("what is no number at some place")
            total = total + (truth * found if isinstance(found, Form) else truth.times(Fraction(found)))
        return total

    return whole(xs)


def _place(atoms: Atoms, xs: list[Any]) -> tuple[Any, int, int] | None:
    """A place at which some are read."""
    for x in xs:
        for product in x.terms if isinstance(x, Form) else ():
            for atom, _ in product:
                kind, data = atoms.kinds[atom]
                if kind == "placed":
                    row, size, j, _ = data
                    return row, size, j
    return None


def _where(atoms: Atoms, x: Any, row: Any, j: int, i: int) -> Any:
    """What it is where the element at place j was at place i."""
    if not isinstance(x, Form):
        return x
    terms: dict[Product, Fraction] = {}
    for product, factor in x.terms.items():
        mine = {a: atoms.kinds[a][1][2:] for a, _ in product if atoms.kinds[a][0] == "placed"}
        mine = {a: at for a, at in mine.items() if atoms.kinds[a][1][0] == row and (at[0] == j or at[1] == i)}
        if all(at == (j, i) for at in mine.values()):
            kept = tuple(p for p in product if p[0] not in mine)
            terms[kept] = terms.get(kept, Fraction(0)) + factor
    return Form(atoms, {product: factor for product, factor in terms.items() if factor})
