"""Rows that are put in an order and back: what is known of all places of a row together.

A sort has a place for each element, so of the leaves `place of the j-th` of one row each value is met once:
Σ_j [place_j = u] = 1, as Σ_u [place_j = u] = 1. So tokens that are sorted by expert, and put back, are what they were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from .extended import finite
from .finite import Leaf, Table, indicator
from .form import Field, Form, Undecided
from .known import elements_of, is_place

MOST_VALUES = 64
"""Most values of an integer that are told apart by formulas."""
MOST_READ = 40
"""Most elements that a place may read, if a function of what it reads is told for each."""
MOST_CASES = 400
"""Most cases of other integers in which it has these."""


def places_in(form: Form) -> dict[Any, dict[int, Leaf]]:
    """The rows in whose order a form has places: by row, the leaf of each place."""
    found: dict[Any, dict[int, Leaf]] = defaultdict(dict)
    for number in elements_of(form, set()):
        kind, data = form.field.elements[number][:2]
        content: Any = data
        if kind == "equals" and is_place(content[0]):
            _, row, j = content[0].name
            found[row][j] = content[0]
    return found


def each_once(form: Form) -> Form:
    """The form without what the places before the last one say of the last: [last = u] = 1 − Σ_j [place_j = u]."""
    field = form.field
    for row, leaves in places_in(form).items():
        if len(leaves) == len(row) > 1:
            form = _without(field, form, leaves)
    return form


def _without(field: Field, form: Form, leaves: dict[int, Leaf]) -> Form:
    last = leaves[max(leaves)]
    others = [leaf for leaf in leaves.values() if leaf is not last]
    kept: dict[Any, Any] = {}
    beside: dict[int, dict[Any, Any]] = defaultdict(dict)  # by value of the last one
    for monomial, coefficient in form.terms.items():
        value = next((n for n, _ in monomial if field.leaves.get(n) == field.of_leaf[last]), None)
        if value is None:
            kept[monomial] = coefficient
        else:
            rest = tuple(factor for factor in monomial if factor[0] != value)
            beside[field.elements[value].data[1]][rest] = coefficient  # type: ignore[index]
    result = Form(field, kept)
    for value, terms in beside.items():
        said = sum((indicator(field, leaf, value) for leaf in others), field.zero)
        result = result + Form(field, terms) * (field.one - said)
    return result


def different(leaves: Sequence[tuple[Leaf, ...]]) -> bool:
    """Whether each of several integers is another place of one row."""
    rows: set[Any] = set()
    found: set[int] = set()
    for each in leaves:
        if len(each) != 1 or not is_place(each[0]):
            return False
        name: Any = each[0].name
        rows.add(name[1])
        found.add(name[2])
    return len(rows) == 1 and len(found) == len(leaves)


def turned_back(keys: Sequence[Any]) -> list[Leaf] | None:
    """Where each value is among integers that are all places of one row: a sort of them turns the row back."""
    leaves = [key.leaves for key in keys if isinstance(key, Table)]
    if len(leaves) < len(keys) or not different(leaves):
        return None
    row: Any = leaves[0][0].name[1]  # type: ignore[index]
    same = all(list(key.values) == list(range(len(keys))) for key in keys)
    if not same or len(row) != len(keys) or [leaf.name[2] for (leaf,) in leaves] != [*range(len(keys))]:  # type: ignore[index]
        return None
    return [Leaf(("turned", row, value), 0, len(keys)) for value in range(len(keys))]


def by_places(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of what is read at places of rows: f(Σ [place = u]·x_u) is Σ [place = u]·f(x_u). As it is where the
    places are many, or where f is not known of all that might be read."""

    def applied(x: Any) -> Any:
        if not isinstance(x, Form) or not any(_is_place(x.field, n) for m in x.terms for n, _ in m):
            return function(x)
        try:
            parts = [*islice(_read(x, x.field.one), MOST_READ + 1)]
            if len(parts) <= MOST_READ:
                made = [(finite(function(part), "what is read"), flag) for part, flag in parts]
                return sum((part * flag for part, flag in made), x.field.zero)
        except Undecided:
            pass
        return function(x)

    return applied


def _is_place(field: Field, number: int) -> bool:
    kind, data = field.elements[number][:2]
    return kind == "equals" and is_place(data[0])  # type: ignore[index]


def _read(form: Form, beside: Form) -> Iterator[tuple[Form, Form]]:
    """What a form is for each value of the places that its products have for factors, with the indicator of that."""
    field = form.field
    field.tick()
    count: dict[Leaf, int] = defaultdict(int)
    for monomial in form.terms:
        for number, _ in monomial:
            if _is_place(field, number):
                count[field.elements[number].data[0]] += 1  # type: ignore[index]
    if not count:
        yield form, beside
        return
    leaf = max(count, key=lambda leaf: (count[leaf], repr(leaf.name)[:80]))
    for value in range(leaf.lo, leaf.hi):
        flag = beside * indicator(field, leaf, value)
        if flag.terms:
            yield from _read(_where(field, form, leaf, value), flag)


def values_of(form: Form) -> dict[int, Form]:
    """When an integer of few values is each of them: indicators that add up to 1. Undecided where it has others."""
    found: dict[int, Form] = {}
    for n, (value, flag) in enumerate(_values(form)):
        found[value] = found.get(value, form.field.zero) + flag
        if len(found) > MOST_VALUES or n > MOST_CASES:
            raise Undecided("an integer of many values")
    return found


def truth_of(form: Form, holds: Callable[[int], bool]) -> Form | None:
    """When something holds of an integer of few values; None where it has others."""
    try:
        return sum((flag for value, flag in values_of(form).items() if holds(value)), form.field.zero)
    except Undecided:
        return None


def _values(form: Form) -> Iterator[tuple[int, Form]]:
    field = form.field
    field.tick()
    if form.value is not None:
        if form.value != int(form.value):
            raise Undecided("an index that is no integer")
        yield int(form.value), field.one
        return
    leaf = _commonest(form)
    for value in range(leaf.lo, leaf.hi):
        flag = indicator(field, leaf, value)
        for inner, beside in _values(_where(field, form, leaf, value)):
            yield inner, flag * beside


def _commonest(form: Form) -> Leaf:
    """The leaf that stands in most products: told first, it leaves least."""
    count: dict[Leaf, int] = defaultdict(int)
    for monomial in form.terms:
        for number, _ in monomial:
            kind, data = form.field.elements[number][:2]
            content: Any = data
            if kind != "equals":
                raise Undecided("an access at an index of unknown range")
            count[content[0]] += 1
    return max(count, key=lambda leaf: (count[leaf], repr(leaf.name)[:80]))


def _where(field: Field, form: Form, leaf: Leaf, value: int) -> Form:
    """The form where a leaf has a value."""
    terms: dict[Any, Any] = {}
    for monomial, coefficient in form.terms.items():
        mine = [n for n, _ in monomial if field.elements[n].kind == "equals" and field.elements[n].data[0] == leaf]  # type: ignore[index]
        if any(field.elements[n].data[1] != value for n in mine):  # type: ignore[index]
            continue
        left = tuple(factor for factor in monomial if factor[0] not in mine)
        terms[left] = terms.get(left, 0) + coefficient
    return Form(field, {m: c for m, c in terms.items() if c})
