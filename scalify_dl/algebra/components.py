"""Sums in parts that share no unknown: each may be zero by itself, and has cases of its own."""

from __future__ import annotations

from collections.abc import Hashable

from .form import Form, Monomial, Number
from .known import parts_of


def components(form: Form) -> list[Form]:
    """Sums of terms, of which no two have an unknown in common; the form is their sum."""
    known: dict[int, frozenset[Hashable]] = {}
    groups: list[tuple[set[Hashable], dict[Monomial, Number]]] = []
    for monomial, coefficient in form.terms.items():
        names: set[Hashable] = set()
        for number, _ in monomial:
            names |= _unknowns(form, number, known)
        terms = {monomial: coefficient}
        apart = []
        for group in groups:
            if group[0].isdisjoint(names):
                apart.append(group)
            else:
                names |= group[0]
                terms |= group[1]
        groups = [*apart, (names, terms)]
    return [Form(form.field, terms) for _, terms in groups]


def _unknowns(form: Form, number: int, known: dict[int, frozenset[Hashable]]) -> frozenset[Hashable]:
    """What an element is made of, however deep, that is made of nothing else."""
    if number not in known:
        element = form.field.elements[number]
        parts = parts_of(form.field, number)
        inner = {n for part in parts for monomial in part.terms for n, _ in monomial}
        found: set[Hashable] = set()
        for n in inner:
            found |= _unknowns(form, n, known)
        if element.kind == "equals" and not parts:
            found = {element.data[0]}  # type: ignore[index]
        elif element.kind not in ("root", "number") and not parts:
            found = {number}
        known[number] = frozenset(found)
    return known[number]
