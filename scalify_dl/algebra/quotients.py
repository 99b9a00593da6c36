"""Sums over one denominator."""

from __future__ import annotations

from .form import Field, Form, Number

ROUNDS = 8
"""Times that a sum is multiplied by what divides it."""
FEW_TERMS, FEW_DENOMINATORS, MOST_AFTER = 24, 3, 160
"""Terms and denominators of sums that are brought over one denominator wherever they occur, and terms afterwards."""


def denominators(form: Form) -> dict[int, Number]:
    """The sums that the form is divided by, with their lowest exponents."""
    elements = form.field.elements
    lowest: dict[int, Number] = {}
    for monomial in form.terms:
        for number, exponent in monomial:
            if exponent < 0 and elements[number].kind == "power":
                lowest[number] = min(lowest.get(number, 0), exponent)
    return lowest


def times(form: Form, divisors: dict[int, Number]) -> Form:
    """The form times what divides it."""
    field = form.field
    result = field.zero
    for monomial, coefficient in form.terms.items():
        exponents = dict(monomial)
        factors: list[Form] = []
        for number, lowest in divisors.items():
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


def numerator(form: Form) -> Form:
    """The form times sums that it is divided by."""
    for _ in range(ROUNDS):
        divisors = denominators(form)
        if not divisors:
            break
        form = times(form, divisors)
    return form


def quotient(form: Form) -> tuple[Form, dict[int, Number]] | None:
    """A small sum with denominators as a numerator and powers (exponents below 0) of sums; None where it is not one."""
    if not 1 < len(form.terms) <= FEW_TERMS:
        return None
    above, below = form, dict[int, Number]()
    for _ in range(ROUNDS):
        divisors = denominators(above)
        if not divisors:
            return (above, below) if below else None
        for number, exponent in divisors.items():
            below[number] = below.get(number, 0) + exponent
        if len(below) > FEW_DENOMINATORS:
            return None
        above = times(above, divisors)
        if len(above.terms) > MOST_AFTER:
            return None
    return None


def multiplied_out(form: Form) -> Form:
    """The form with whole powers of sums multiplied out (members of maxima keep them)."""
    elements = form.field.elements
    if not any(e >= 1 and elements[n].kind == "power" for monomial in form.terms for n, e in monomial):
        return form
    result = form.field.zero
    for monomial, coefficient in form.terms.items():
        product = Form(form.field, {(): coefficient})
        for n, e in monomial:
            product = product * _power(form.field, n, e)
        result = result + product
    return result


def _power(field: Field, number: int, exponent: Number) -> Form:
    """A power of an element, multiplied out where it is one of a sum."""
    base = field.elements[number].data
    whole = exponent.__floor__()
    if field.elements[number].kind != "power" or whole < 1:
        return field.of(number, exponent)
    assert isinstance(base, Form)
    rest = exponent - whole
    return base.whole_power(whole) * (field.of(number, rest) if rest else field.one)
