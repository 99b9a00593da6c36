"""Comparisons of places as truths of the algebra, whose steps are those of whole numbers with symbols for sizes.

c·u + r > 0,  |r| below c    is    u > 0, or u = 0 and r > 0          (digits are compared from the highest on)
u > 0                        is    not  1 − u > 0
"""

from __future__ import annotations

from collections import Counter

from scalify_dl.algebra import truths
from scalify_dl.algebra.form import Element, Field, Form
from scalify_dl.algebra.rebuilt import Rebuilt
from scalify_dl.algebra.sized import size_of
from scalify_dl.algebra.variables import Variable
from scalify_dl.sizes import above, made, quotient

from .places import Place

FAR = 1 << 200
_MORE = {"GT": 0, "GE": 1, "LT": 0, "LE": 1}


def compared(field: Field, kind: str, one: Place, other: Place) -> Form:
    """A comparison; what is known of all values is 0 or 1."""
    if kind in ("LT", "LE"):
        one, other = other, one
    difference = one + other.scaled(-1)
    if kind in ("EQ", "NE"):
        found = same(field, difference)
        return found if kind == "EQ" else field.one - found
    return positive(field, difference + Place.number(_MORE[kind]))


def positive(field: Field, place: Place) -> Form:
    """Whether a place is above 0."""
    if above(least(place)):
        return field.one
    return field.zero if above(1 - most(place)) else truths.greater(place.form(field), field.zero)


def negated(truth: Form) -> Form:
    """The opposite of a comparison, as one comparison where it is of places."""
    field = truth.field
    ((monomial, c), *others) = truth.terms.items() or [((), 0)]
    if not others and len(monomial) == c == 1:
        place = _above(field.elements[monomial[0][0]])
        if place is not None:
            return positive(field, Place.number(1) + place.scaled(-1))
    return field.one - truth


def _above(element: Element) -> Place | None:
    """The place that a comparison says to be above 0."""
    kind, data = element[:2]
    return place_of(data[1]) if kind == "flag" and data[0] == "above" else None  # type: ignore[index]


def same(field: Field, place: Place) -> Form:
    """Whether a place is 0."""
    if above(least(place)) or above(-most(place)):
        return field.zero
    return truths.equal(place.form(field), field.zero)


def least(place: Place) -> int:
    """No more than it is anywhere; far below 0 where that is not known."""
    low = place.start
    for v, stride in place.parts:
        if above(1 - stride):
            low = low + stride * (size_of(v) - 1)
        elif not above(stride + 1):
            return -FAR
    return low


def most(place: Place) -> int:
    """No less than it is anywhere; far above 0 where that is not known."""
    return -least(place.scaled(-1))


def place_of(form: Form) -> Place | None:
    """The place that a form is of; None where it is of none."""
    parts: dict[Variable | None, Counter[tuple[str, ...]]] = {}
    for monomial, c in form.terms.items():
        variable: Variable | None = None
        names: list[str] = []
        for number, exponent in monomial:
            kind, data = form.field.elements[number][:2]
            if exponent != int(exponent) or exponent < 1 or not isinstance(data, tuple):
                return None
            if kind == "position" and variable is None and exponent == 1:
                variable = data[0]
            elif kind == "input" and data[0] == "size":
                names += [data[1]] * int(exponent)
            else:
                return None
        if c != int(c):
            return None
        parts.setdefault(variable, Counter())[tuple(sorted(names))] += int(c)
    start = made(parts.pop(None, Counter()))
    return Place(tuple((v, made(terms)) for v, terms in parts.items() if v is not None), start)


def nowhere_below_zero(form: Form) -> bool:
    """Whether a form of places is so for all values."""
    place = place_of(form)
    if place is None:
        return False
    return above(least(place) + 1) is True


def apart(field: Field, form: Form) -> Form:
    """A form in which places are compared digit by digit, and each of two opposite comparisons is said by one."""
    return Rebuilt(field, lambda each: _digit_by_digit(field, each)).form(form)


def _digit_by_digit(field: Field, element: Element) -> Form | None:
    place = _above(element)
    if place is None:
        return None
    for _, stride in place.parts:
        size = stride if above(stride) else -stride
        if size == 1 or not above(size):
            continue
        found = _split(place, size)
        if found is not None:
            upper, rest = found
            return positive(field, upper) + same(field, upper) * positive(field, rest)
    opposite = Place.number(1) + place.scaled(-1)
    other = opposite.form(field)
    if other.key < place.form(field).key:
        return field.one - positive(field, opposite)
    return None


def _split(place: Place, by: int) -> tuple[Place, Place] | None:
    """u and r of a place that is by · u + r, with r above −by and not above by."""
    upper, rest = [], []
    for v, stride in place.parts:
        whole = quotient(stride, by)
        if whole is None:
            rest.append((v, stride))
        else:
            upper.append((v, whole))
    start = quotient(place.start, by)
    found = Place(tuple(rest), 0 if start is not None else place.start)
    if not rest or not above(least(found) + by) or not above(by - most(found) + 1):
        return None
    return Place(tuple(upper), start or 0), found
