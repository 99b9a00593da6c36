"""Sums over the same variables, of which the cases are looked at term by term.

Σ_i f(i) − Σ_i g(i) + c is Σ_i (f(i) − g(i) + c/n), i of n values: zero where what is summed is, in each case of i's own
signs. So a mean of Huber losses, chosen by |x| < 1 or made of x clipped, is one.
"""

from __future__ import annotations

from typing import Any

from . import laws
from .form import Form
from .variables import Renamed, counted, fresh


def summand(form: Form) -> Form | None:
    """What is added up, where a form is one sum over some variables, times numbers and what does not depend on them;
    None where it is not."""
    field = form.field
    found, names, sizes = field.zero, {}, None
    alone = field.zero
    for monomial, c in form.terms.items():
        sums = [(n, e) for n, e in monomial if field.elements[n].kind == "sum"]
        if not sums:
            alone = alone + Form(field, {monomial: c})
            continue
        ((number, exponent), *others) = sums
        if others or exponent != 1:
            return None
        content: Any = field.elements[number].data
        bound, part = content
        mine = tuple(v.size for v in bound)
        if sizes is None:
            sizes, names = mine, fresh(field, bound)
        if mine != sizes:
            return None
        inside = Renamed(field, dict(zip(bound, names.values(), strict=True))).form(part)
        found = found + Form(field, {tuple(factor for factor in monomial if factor != (number, 1)): c}) * inside
    if sizes is None:
        return None
    return found + alone * laws.power(counted(field, names.values()), -1)
