"""Roots of products, some factor of which a root was taken of elsewhere: √(x·y) = √x·√y.

That x is not below zero where √x is taken is listed already; it is used for no sign, and no comparison.
"""

from __future__ import annotations

from typing import NamedTuple

from .form import Form, Number


class Factor(NamedTuple):
    """base^exponent · rest."""

    base: Form
    exponent: Number
    rest: Form


def rooted_factor(form: Form) -> Factor | None:
    """A factor of a form, or minus it, that a root was taken of; None where there is none, or the form is one."""
    field = form.field
    if not field.rooted or not form.terms:
        return None
    for number, exponent in next(iter(form.terms)):
        element = field.elements[number]
        if element.kind not in ("power", "input") or exponent != int(exponent):
            continue
        if any((number, exponent) not in monomial for monomial in form.terms):
            continue
        base = element.data if isinstance(element.data, Form) else field.of(number)
        for sign in (1, -1):
            signed = base.scaled(sign)
            if signed.content(positive=True)[2] in field.rooted:
                rest = form * Form(field, {((number, -exponent),): sign ** (int(exponent) % 2)})
                return None if rest.value is not None and exponent == 1 else Factor(signed, exponent, rest)
    return None
