"""What a maximum is of: sets of minima (disjunctive normal form of a distributive lattice), and their simplest form.

`laws.py` makes forms of them. A factor that is not below zero stands outside of a maximum: for r ≥ 0,
r·max(x, y) = max(r·x, r·y).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from .form import Field, Form, Monomial, Number

Meets = frozenset[frozenset[Form]]
FEW_MEETS = 16
"""Most sets through which a maximum is also looked at as minus a maximum."""


def _is_no_less(field: Field, number: int, exponent: Number) -> bool:
    """Whether a power of an element is nothing below zero, wherever it is a number: even roots are. Flags stay."""
    element = field.elements[number]
    even = Fraction(exponent).denominator % 2 == 0
    return element.kind not in ("flag", "equals") and (element.nonnegative or even)


def _is_at_least(form: Form, constant: Form) -> bool:
    return (form - constant if constant.terms else form).is_nonnegative()


def sets_in(field: Field, monomial: Monomial) -> Meets | None:
    """The sets of a maximum, or of one times what is not below zero; None of other products."""
    maxima = [number for number, exponent in monomial if field.elements[number].kind == "maximum" and exponent == 1]
    others = tuple((number, exponent) for number, exponent in monomial if number not in maxima)
    if len(maxima) != 1 or not all(_is_no_less(field, *power) for power in others):
        return None
    meets: Meets = field.elements[maxima[0]].data  # type: ignore[assignment]
    factor = Form(field, {others: 1})
    return frozenset(frozenset(form * factor for form in meet) for meet in meets) if others else meets


def common_factor(field: Field, forms: list[Form]) -> Monomial:
    """What is not below zero and a factor of every term of all forms; what divides one is, with its lowest exponent."""
    monomials = [dict(monomial) for form in forms for monomial in form.terms]
    lowest: dict[int, Number] = {}
    for number in {number for monomial in monomials for number in monomial}:
        least = min(monomial.get(number, 0) for monomial in monomials)
        divides = least < 0 and field.elements[number].kind == "power"
        if (least > 0 or divides) and _is_no_less(field, number, least):
            lowest[number] = least
    return tuple(sorted(lowest.items()))


def reduced(field: Field, meets: Iterable[frozenset[Form]]) -> Meets:
    """Of constants the one that counts, and only where it may; no set that another makes superfluous."""
    reduced = set()
    for meet in _outweighed(meets) if field.huge else meets:
        values = [form.value for form in meet if form.value is not None]
        if not values:
            reduced.add(meet)
            continue
        least = field.constant(min(values))
        reduced.add(frozenset({f for f in meet if f.value is None and not _is_at_least(f, least)} | {least}))
    best = [form.value for meet in reduced if len(meet) == 1 for form in meet if form.value is not None]
    if best:
        most = max(best)
        kept = {m for m in reduced if not any(f.value is not None and f.value <= most for f in m)}
        top = field.constant(most)
        reduced = kept if any(all(_is_at_least(f, top) for f in meet) for meet in kept) else kept | {frozenset({top})}
    many = max(map(len, reduced), default=0)
    few = [meet for meet in reduced if len(meet) < many]  # a part of another has fewer
    return frozenset(meet for meet in reduced if not any(other < meet for other in few))


def _outweighed(meets: Iterable[frozenset[Form]]) -> Iterable[frozenset[Form]]:
    """A maximum of minima without members that a huge number decides not to count."""

    def less(a: Form, b: Form) -> bool:
        return (b - a).outweighed() > 0

    least = [frozenset(a for a in meet if not any(less(b, a) for b in meet)) for meet in meets]
    return [meet for meet in least if not any(all(any(less(b, a) for b in meet) for a in other) for other in least)]


def turned(field: Field, meets: Meets) -> Meets | None:
    """The sets whose maximum is minus that of these: max(−x, −y) for min(x, y). None where there are many."""
    found: set[frozenset[Form]] = {frozenset(-form for meet in meets if len(meet) == 1 for form in meet)}
    for meet in meets:
        if len(meet) == 1:
            continue
        found = {picked | {-form} for picked in found for form in meet}
        if len(found) > FEW_MEETS:
            return None
    return reduced(field, found)


def order(meets: Meets) -> tuple[int, list[list[object]]]:
    """Tells which of two ways to write a maximum is the normal one."""
    return sum(map(len, meets)), sorted(sorted(form.key for form in meet) for meet in meets)  # type: ignore[misc]
