"""Sums of which a comparison selects one term: Σ_v [v = e]·f(v), v an index variable.

Where e is another variable w of as many values it is f(w) (a diagonal, an access at an `iota`). Where nothing else
depends on v it is 1, if e is known to be one of the values of v, and else whether it is (of blocks of a dim one has
it). Then functions go inside, too: exp(Σ_v [v = e]·f(v)) is Σ_v [v = e]·exp(f(v)). Several variables may be the digits
of one position: [16·u + v = e].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from math import prod
from typing import Any

from scalify_dl.sizes import above

from .form import Field, Form, Monomial, Number, Undecided
from .laws import within
from .rebuilt import Rebuilt
from .sized import size_of, worth
from .truths import greater
from .variables import AnySize, Renamed, Variable, free
from .whole import integer_bounds, is_whole


@dataclass(frozen=True)
class Selection:
    """[Σ stride·digit = wanted], by the number of the flag; digits from the lowest one on, of which all values are
    told apart."""

    flag: int
    digits: tuple[Variable, ...]
    wanted: Form

    @property
    def values(self) -> int:
        """How many values the position has."""
        return prod(map(size_of, self.digits))

    def in_range(self) -> bool:
        """Whether it is known that one of the values is the one that is wanted."""
        found = self.among()
        return found is not None and found.value == 1

    def among(self) -> Form | None:
        """Whether one of the values is the one that is wanted, 1 or 0; None where that need not be a whole number."""
        field, values = self.wanted.field, self.values
        try:
            low, high = integer_bounds(self.wanted)
            truth = field.one if above(low + 1) else greater(self.wanted + field.one, field.zero)
            if not above(values - high):
                truth = truth * (field.one - greater(self.wanted + field.one, worth(field, values)))
        except Undecided:
            return None
        return decided(truth)


def selections(field: Field, number: int, bound: frozenset[Variable]) -> list[Selection]:
    """What a flag selects of some variables: once, or twice where it compares two of them."""
    kind, data = field.elements[number][:2]
    content: Any = data
    if kind != "flag" or content[0] != "at":
        return []
    form: Form = content[1]
    strides: dict[Variable, Number] = {}
    for monomial, coefficient in form.terms.items():
        if len(monomial) == 1 and monomial[0][1] == 1 and field.elements[monomial[0][0]].kind == "position":
            strides[field.elements[monomial[0][0]].data[0]] = coefficient  # type: ignore[index]
    found = []
    for sign in (1, -1):
        digits = sorted((v for v, c in strides.items() if v in bound and c * sign > 0), key=lambda v: strides[v] * sign)
        if not digits:
            continue
        if any(isinstance(v.size, AnySize) for v in digits[:-1]):
            continue
        lowest = strides[digits[0]] * sign
        if any(strides[v] * sign != lowest * prod(w.size for w in digits[:n]) for n, v in enumerate(digits)):
            continue
        mine = Form(field, {((field.numbers["position", (v,)], 1),): strides[v] for v in digits})
        wanted = (form - mine).scaled(Fraction(-sign) / Fraction(lowest))
        if free(field, wanted).isdisjoint(digits):
            found.append(Selection(number, tuple(digits), wanted))
    return found


def selected(field: Field, factors: Monomial, bound: frozenset[Variable]) -> tuple[Form, frozenset[Variable]] | None:
    """A product that is to be summed over variables, without a flag that selects, and the variables that are left."""
    for number, exponent in factors:
        for selection in selections(field, number, bound):
            others = tuple(factor for factor in factors if factor != (number, exponent))
            rest, left = Form(field, {others: 1}), bound - frozenset(selection.digits)
            same = _digits(field, selection)
            if same is not None:
                return Renamed(field, dict(zip(selection.digits, same, strict=True))).form(rest), left
            if free(field, rest).isdisjoint(selection.digits) and (truth := selection.among()) is not None:
                return rest * truth, left
    return None


def _digits(field: Field, selection: Selection) -> list[Variable] | None:
    """The variables that are the digits of what is wanted, where it is made of as many, of the same sizes."""
    by_stride: dict[Number, Variable] = {}
    for monomial, coefficient in selection.wanted.terms.items():
        if len(monomial) != 1 or monomial[0][1] != 1 or field.elements[monomial[0][0]].kind != "position":
            return None
        by_stride[coefficient] = field.elements[monomial[0][0]].data[0]  # type: ignore[index]
    found, stride = [], 1
    for digit in selection.digits:
        other = by_stride.pop(stride, None)
        if other is None or other.size != digit.size:
            return None
        found.append(other)
        if digit != selection.digits[-1]:
            stride *= digit.size
    return None if by_stride else found


@within("sum")
def inside(field: Field, number: int, function: Callable[[Form], Form]) -> Form | None:
    """A function of a sum of one selected term as the sum of that function of it; None for other elements."""
    kind, data = field.elements[number][:2]
    content: Any = data
    if kind != "sum":
        return None
    bound, form = content
    if len(form.terms) != 1:
        return None
    ((factors, coefficient),) = form.terms.items()
    for at, exponent in factors:
        for selection in selections(field, at, frozenset(bound)):
            if frozenset(selection.digits) != frozenset(bound) or not selection.in_range():
                continue
            rest = Form(field, {tuple(factor for factor in factors if factor != (at, exponent)): coefficient})
            from .sums import summed  # which reads this module

            return summed(field, field.of(at) * function(rest), bound)
    return None


def absorbed(field: Field, factors: Monomial) -> Monomial | None:
    """A product without comparisons that others of it decide: [p > 0] where [p − c > 0] is a factor, c above zero, or
    one that `implies` it, or of an id that is equal to a place. None where two exclude each other: [p > 0] and
    [c − p > 0], c not above zero."""
    compared: list[tuple[int, Form]] = []
    places: list[tuple[int, Form]] = []
    for number, _ in factors:
        kind, data = field.elements[number][:2]
        if kind == "flag" and data[0] in ("above", "at"):  # type: ignore[index]
            (compared if data[0] == "above" else places).append((number, data[1]))  # type: ignore[index]
    gone: set[int] = set()
    for index, place in chain.from_iterable(_told(field, form) for _, form in places) if compared else ():
        for number, form in compared:
            truth = _at_place(form, index, place) if number not in gone else None
            if truth is False:
                return None
            if truth:
                gone.add(number)
    compared = [(number, form) for number, form in compared if number not in gone]
    for number, form in compared:
        for other, stricter in compared:
            difference, total = (form - stricter).value, (form + stricter).value
            if total is not None and total <= 0:
                return None
            if other == number or other in gone:
                continue
            if (difference is not None and difference > 0) or implies(field, stricter, form):
                gone.add(number)
    return tuple(factor for factor in factors if factor[0] not in gone)


def _told(field: Field, form: Form) -> Iterator[tuple[int, Form]]:
    """Integers that a comparison with a place tells, where it is so, and what they are then."""
    if not is_whole(form):
        return
    for monomial, c in form.terms.items():
        if len(monomial) == 1 and monomial[0][1] == 1 == abs(c) and field.elements[monomial[0][0]].kind == "integer":
            yield monomial[0][0], (Form(field, {monomial: c}) - form).scaled(c)


def _at_place(form: Form, index: int, place: Form) -> bool | None:
    """Whether a whole number in which an integer is this place is above zero; None where that is not known."""
    if not is_whole(form) or not any(index == number for monomial in form.terms for number, _ in monomial):
        return None
    found = form.field.zero
    for monomial, c in form.terms.items():
        term = form.field.constant(c)
        for number, exponent in monomial:
            for _ in range(int(exponent)):
                term = term * (place if number == index else form.field.of(number))
        found = found + term
    low, high = integer_bounds(found)
    return True if above(low) else False if above(1 - high) else None


def implies(field: Field, one: Form, other: Form) -> bool:
    """Whether another form of positions is above zero where one is: r · other − one is nowhere below zero, r > 0."""
    return any(field.nowhere_below_zero(other * r - one * s) for r, s in _scales(field, one, other))


def _scales(field: Field, one: Form, other: Form) -> Iterator[tuple[Form, Form]]:
    """Factors above zero with which a position counts alike in both; 1 first."""
    yield field.one, field.one
    for v in sorted(free(field, one) & free(field, other), key=repr):
        counts = [_count(field, form, v) for form in (one, other)]
        if counts[0] != counts[1] and all(c.is_positive() for c in counts):
            yield counts[0], counts[1]
        elif counts[0] != counts[1] and all((-c).is_positive() for c in counts):
            yield -counts[0], -counts[1]


def _count(field: Field, form: Form, v: Variable) -> Form:
    """What the position of a variable is multiplied by."""
    number = field.numbers.get(("position", (v,)))
    found = field.zero
    for monomial, c in form.terms.items():
        if (number, 1) in monomial:
            found = found + Form(field, {tuple(factor for factor in monomial if factor[0] != number): c})
    return found


def decided(form: Form) -> Form:
    """A form of truths without those in a product that others of it decide."""
    found = form.field.zero
    for monomial, c in form.terms.items():
        left = absorbed(form.field, monomial)
        found = found if left is None else found + Form(form.field, {left: c})
    return found


def at_first(field: Field, form: Form, variables: Collection[Variable]) -> Form | None:
    """A form of positions where those of these variables are 0; None where it depends on them otherwise."""
    gone = Rebuilt(field, lambda each: field.zero if each.kind == "position" and each.data[0] in variables else None)  # type: ignore[index]
    found = gone.form(form)
    return found if free(field, found).isdisjoint(variables) else None
