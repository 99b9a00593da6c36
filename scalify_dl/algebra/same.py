"""Whether two formulas are one: their difference, over a common denominator and in each case of signs, is zero."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from typing import Any

from . import laws
from .cells import as_cell
from .extended import Masked, NotANumber
from .form import Element, Field, Form, Monomial, Number, Undecided
from .rebuilt import Rebuilt

ROUNDS = 8
"""Times that a difference is multiplied by what divides it."""
SPLITS = 7
"""Signs that are split into cases, one inside the other."""


def same(field: Field, left: Any, right: Any) -> bool:
    """Whether two elements are equal for all inputs. False also where no law says so."""
    left, right = as_cell(field, left), as_cell(field, right)
    if isinstance(left, NotANumber) or isinstance(right, NotANumber):
        return False
    if isinstance(left, Masked) or isinstance(right, Masked):
        return (
            isinstance(left, Masked)
            and isinstance(right, Masked)
            and left.sign == right.sign
            and left.flag == right.flag
            and _differs_by_nothing(field, left.form * left.flag, right.form * left.flag)
        )
    return left == right or _differs_by_nothing(field, left, right)


def _differs_by_nothing(field: Field, left: Form, right: Form) -> bool:
    """Whether a difference is zero. What its cases need is so where what the two sides need is: they are equals."""
    needs = dict(field.needs)
    try:
        return is_zero(left - right)
    except Undecided:
        return False
    finally:
        field.needs = needs


def is_zero(form: Form, splits: int = SPLITS) -> bool:
    """Whether a form is zero for all inputs.

    A maximum of a and b is split by the sign of p = a − b: where p ≥ 0 it is a, where p ≤ 0 it is b, and forms of
    equals are equal. A flag of p has a case of its own, p = 0, where the rest is to be a multiple of p.
    """
    form = _without_denominators(form)
    if not form.terms:
        return True
    if splits == 0:
        return False
    form.field.tick()
    found = list(_signs(form, set()))
    if not found:
        return False
    p = found[0][0]
    flagged = any(flag for q, flag in found if _ratio(q, p) is not None)
    return (
        is_zero(_where(form, p, 1), splits - 1)
        and is_zero(_where(form, -p, 1), splits - 1)
        and (not flagged or _is_multiple(_where(form, p, 0), p))
    )


def _signs(form: Form, seen: set[int]) -> Iterator[tuple[Form, bool]]:
    """What flags compare with zero, and differences of members of maxima, however deep; and whether it is of a flag."""
    for monomial in form.terms:
        for number, _ in monomial:
            if number in seen:
                continue
            seen.add(number)
            kind, data = form.field.elements[number][:2]
            parts: list[Form] = []
            if kind == "flag" and data[0] in COMPARED:  # type: ignore[index]
                parts = [data[1]]  # type: ignore[index]
                yield parts[0], True
            elif kind == "maximum":
                meets: Any = data
                parts = sorted((form for meet in meets for form in meet), key=lambda form: form.key)
                yield parts[0] - parts[1], False
            elif kind == "exp":
                parts = [Form(form.field, {data: 1})]  # type: ignore[dict-item]
            elif kind == "function":
                parts = [part for part in data if isinstance(part, Form)]  # type: ignore[attr-defined]
            elif isinstance(data, Form):
                parts = [data]
            for part in parts:
                yield from _signs(part, seen)


COMPARED = ("above", "at")
"""Flags of a form: above zero, or zero; others are inputs."""


# ---- denominators ----
def _without_denominators(form: Form) -> Form:
    """The form times sums that it is divided by."""
    for _ in range(ROUNDS):
        denominators = _denominators(form)
        if not denominators:
            break
        form = _times(form, denominators)
    return form


def _denominators(form: Form) -> dict[int, Number]:
    """The sums that the form is divided by, with their lowest exponents."""
    elements = form.field.elements
    lowest: dict[int, Number] = {}
    for monomial in form.terms:
        for number, exponent in monomial:
            if exponent < 0 and elements[number].kind == "power":
                lowest[number] = min(lowest.get(number, 0), exponent)
    return lowest


def _times(form: Form, denominators: dict[int, Number]) -> Form:
    """The form times what divides it."""
    field = form.field
    result = field.zero
    for monomial, coefficient in form.terms.items():
        exponents = dict(monomial)
        factors: list[Form] = []
        for number, lowest in denominators.items():
            exponent = exponents.pop(number, 0) - lowest
            base = field.elements[number].data
            assert isinstance(base, Form)
            whole = exponent.__floor__()
            factors.append(base.whole_power(whole))
            if exponent != whole:
                exponents[number] = exponent - whole
        product = Form(field, {tuple(sorted(exponents.items())): coefficient})
        for factor in factors:
            product = product * factor
        result = result + product
    return result


# ---- cases ----
def _where(form: Form, p: Form, sign: int) -> Form:
    """The form where p is above zero (`sign` 1), or zero (0): flags and maxima that this decides are gone."""

    def changed(element: Element) -> Form | None:
        if element.kind == "flag" and element.data[0] in COMPARED:  # type: ignore[index]
            flag: Any = element.data
            what, q = flag
            ratio = _ratio(q, p)
            if ratio is None:
                return None
            holds = sign * ratio > 0 if what == "above" else sign == 0
            return form.field.one if holds else form.field.zero
        if element.kind == "maximum":
            return _lesser_ones_gone(form.field, element.data, p)
        return None

    return Rebuilt(form.field, changed).form(form)


def _lesser_ones_gone(field: Field, meets: Any, p: Form) -> Form | None:
    """A maximum of minima without what p ≥ 0 shows not to count; None where it shows nothing."""

    def at_least(a: Form, b: Form) -> bool:
        ratio = _ratio(a - b, p)
        return ratio is not None and ratio > 0

    least = [frozenset(a for a in meet if not any(at_least(a, b) for b in meet)) for meet in meets]
    kept = list(dict.fromkeys(least))
    for meet in least:
        others = [other for other in kept if other != meet]
        if meet in kept and any(all(any(a == b or at_least(a, b) for b in meet) for a in other) for other in others):
            kept.remove(meet)
    if set(kept) == set(meets):
        return None
    return laws.most([reduce(laws.minimum, sorted(meet, key=lambda form: form.key)) for meet in kept])


def _ratio(q: Form, p: Form) -> Number | None:
    """c where q = c · p, c not 0."""
    if len(q.terms) != len(p.terms) or not p.terms:
        return None
    first = next(iter(p.terms))
    if first not in q.terms:
        return None
    ratio = Fraction(q.terms[first]) / Fraction(p.terms[first])
    return ratio if q == p.scaled(ratio) else None


def _is_multiple(form: Form, p: Form) -> bool:
    """Whether a form is a multiple of p by a form that is defined wherever they are, so that it is zero where p is."""
    form = _without_denominators(form)
    first: Monomial = max(p.terms)
    inverse = Form(form.field, {tuple((number, -exponent) for number, exponent in first): 1 / Fraction(p.terms[first])})
    for _ in range(4 * len(form.terms) + 4):
        whole = [monomial for monomial in form.terms if _holds(form.field, monomial, first)]
        if not whole:
            break
        last = max(whole)
        form = form - Form(form.field, {last: form.terms[last]}) * inverse * p
    return not form.terms


def _holds(field: Field, monomial: Monomial, first: Monomial) -> bool:
    """Whether a monomial is a multiple of another, by what is not divided by anything that may be zero."""
    exponents = dict(monomial)
    return all(
        exponent < 0 or field.elements[number].positive or exponents.get(number, 0) >= exponent
        for number, exponent in first
    )
