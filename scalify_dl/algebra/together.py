"""Differences of sums as sums of differences: Σ_k a − Σ_k b is zero where a − b is zero for each k.

A sum is an element of a form, so Σ_k h/(1 + e⁻ᵘ) and Σ_k h − Σ_k h/(1 + eᵘ) are two of which nothing is known; what
they are of is one, by the laws of quotients.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any

from .form import Field, Form, Monomial
from .known import parts_of
from .sums import MOST_COPIES, Bound, opened
from .variables import Renamed, Variable, of_element

Opened = tuple[Bound, Form]


def zero_together(form: Form, is_zero: Callable[[Form], bool]) -> bool:
    """Whether what sums over variables alike are of adds up to zero, and so does what is no sum."""
    field = form.field
    groups: dict[tuple[Monomial, tuple[int, ...]], list[Opened]] = defaultdict(list)
    rest = field.zero
    for monomial, coefficient in form.terms.items():
        sums = [(n, e) for n, e in monomial if field.elements[n].kind == "sum" and e == int(e) and 0 < e <= MOST_COPIES]
        outside = tuple(factor for factor in monomial if factor not in sums)
        if not sums:
            rest = rest + Form(field, {monomial: coefficient})
            continue
        bound: Bound = ()
        product = field.constant(coefficient)
        for number, exponent in sums:
            for _ in range(int(exponent)):
                names, part = opened(field, number)
                bound, product = bound + names, product * part
        groups[outside, tuple(sorted(v.size for v in bound))].append((bound, product))
    if all(len(group) == 1 for group in groups.values()):
        return False
    return is_zero(rest) and all(is_zero(_added(field, group)) for group in groups.values())


def _added(field: Field, group: list[Opened]) -> Form:
    """The sum of what sums are of, those variables taken for one that stand at the same places."""
    (own, total), *others = group
    places = {v: _places(field, total, v) for v in own}
    for bound, form in others:
        names: dict[Variable, Variable] = {}
        for v in bound:
            mine = _places(field, form, v)
            free = [w for w in own if w.size == v.size and w not in names.values()]
            names[v] = max(free, key=lambda w: len(mine & places[w]))
            places[names[v]] = places[names[v]] | mine
        total = total + Renamed(field, names).form(form)
    return total


def _places(field: Field, form: Form, variable: Variable) -> frozenset[Hashable]:
    """Where a variable stands: in which unknowns, at which of their dims."""
    found: set[Hashable] = set()
    seen: set[int] = set()

    def look(form: Form) -> None:
        for number in {n for monomial in form.terms for n, _ in monomial} - seen:
            seen.add(number)
            if variable not in of_element(field, number):
                continue
            parts = parts_of(field, number)
            if not parts:
                kind, data = field.elements[number][:2]
                found.add((kind, _marked(data, variable)))
            for part in parts:
                look(part)

    look(form)
    return frozenset(found)


def _marked(data: Any, variable: Variable) -> Hashable:
    if isinstance(data, Variable):
        return "this" if data == variable else data.size
    return tuple(_marked(part, variable) for part in data) if type(data) is tuple else repr(data)
