"""Rows in order: which element of a row is its j-th greatest, and how great that is.

The place of the j-th greatest (of equals the first) is an integer of known range, a leaf whose name holds the row.
Rows that are ordered alike are one row: sums in common, positive factors and exp do not matter.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import combinations
from math import comb, gcd, lcm

from . import laws
from .extended import Masked
from .finite import Leaf, indicator
from .form import Form, Monomial, Number

MOST_SETS = 80
"""Most sets of elements through which the j-th greatest is followed."""


def place(row: list[Form], j: int) -> Leaf:
    """Where the j-th greatest of a row is."""
    return Leaf(("order", ordered_alike(tuple(row)), j), 0, len(row))


def hidden(row: list[Masked]) -> int | None:
    """How many of a row are −∞, where these are its greatest, found before; None where others are."""
    field = row[0].flag.field
    left = [field.one - cell.flag for cell in row]
    if not any(field.elements[n].kind == "equals" for form in left for m in form.terms for n, _ in m):
        return None
    alike = ordered_alike(tuple(cell.form for cell in row))
    for count in range(len(row)):
        if all(form.value == 0 for form in left):
            return count
        here = Leaf(("order", alike, count), 0, len(row))
        left = [form - indicator(field, here, i) for i, form in enumerate(left)]
    return None


def ordered_alike(row: tuple[Form, ...]) -> tuple[Form, ...]:
    """The simplest row known that has the same order."""
    field = row[0].field
    shared = _common_factor(row)
    if shared:
        inverse = Form(field, {tuple((number, -exponent) for number, exponent in shared): 1})
        row = tuple(form * inverse for form in row)
    if all(len(form.terms) == 1 and form.is_positive() for form in row) and any(_has_exp(form) for form in row):
        row = tuple(laws.logarithm(form) for form in row)
    row = tuple(form - row[0] for form in row)
    coefficients = [Fraction(c) for form in row for c in form.terms.values()]
    if not coefficients:
        return row
    scale = Fraction(gcd(*(c.numerator for c in coefficients)), lcm(*(c.denominator for c in coefficients)))
    return tuple(form.scaled(1 / scale) for form in row)


def _has_exp(form: Form) -> bool:
    return any(form.field.elements[number].kind == "exp" for monomial in form.terms for number, _ in monomial)


def _common_factor(row: tuple[Form, ...]) -> Monomial:
    """What is above zero and a factor of every element."""
    monomials = [dict(monomial) for form in row for monomial in form.terms]
    if not monomials:
        return ()
    common: dict[int, Number] = {}
    for number in set.intersection(*(set(monomial) for monomial in monomials)):
        element = row[0].field.elements[number]
        if element.positive and element.kind != "root":
            common[number] = min(monomial[number] for monomial in monomials)
    return tuple(sorted(common.items()))


def greatest(row: list[Form], j: int) -> Form | None:
    """The j-th greatest element: the greatest of the least of j + 1, or, where these are less, minus the same of minus
    the elements. None where these sets are many."""
    if 2 * j >= len(row):
        found = greatest([-form for form in row], len(row) - 1 - j)
        return None if found is None else -found
    if comb(len(row), j + 1) > MOST_SETS:
        return None
    chosen = [*combinations(row, j + 1)]
    if all(laws.sets_of(form) == {frozenset({form})} for form in row):
        return laws.of_sets(row[0].field, frozenset(map(frozenset, chosen)))
    return laws.most([reduce(laws.minimum, forms) for forms in chosen])
