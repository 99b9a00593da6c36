"""Whether two formulas are one: their difference, over a common denominator, is zero."""

from __future__ import annotations

from typing import Any

from .cells import as_cell
from .extended import Masked, NotANumber
from .form import Field, Form, Number

ROUNDS = 8


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
            and is_zero((left.form - right.form) * left.flag)
        )
    return left == right or is_zero(left - right)


def is_zero(form: Form) -> bool:
    """Whether a form is zero once denominators are gone."""
    for _ in range(ROUNDS):
        if not form.terms:
            return True
        denominators = _denominators(form)
        if not denominators:
            return False
        form = _times(form, denominators)
    return False


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
