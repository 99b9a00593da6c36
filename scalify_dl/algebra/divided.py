"""Forms divided by what they are divided by: x/(x + y) is 1 − y/(x + y), so that nothing is multiplied out.

Of each sum q below a line one term leads. A term that holds it, over q, is a multiple of q less the others: rewritten
so, for one q after the other, quotients with different sums below them stay apart, and Σ exp(xᵢ)/Σ exp(xₖ) is 1.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from .cells import total
from .form import Field, Form, Monomial, Number
from .quotients import denominators

ROUNDS = 32
"""Times that all terms are looked at for one divisor."""


def divided(form: Form) -> Form:
    """The form, no term of which holds the leading term of what it is divided by."""
    for number in sorted(denominators(form)):
        form = _by(form, number)
    return form


def _by(form: Form, number: int) -> Form:
    field = form.field
    base = field.elements[number].data
    assert isinstance(base, Form)
    leading: Monomial = max(base.terms, key=ORDER)
    first = base.terms[leading]
    others = Form(field, {m: c for m, c in base.terms.items() if m != leading})
    for _ in range(ROUNDS):
        field.tick()
        kept: dict[Monomial, Number] = {}
        changed: list[Any] = []
        for monomial, coefficient in form.terms.items():
            rest = _without(field, monomial, leading, number)
            if rest is None:
                kept[monomial] = coefficient
                continue
            part = Form(field, {tuple(sorted(rest.items())): Fraction(coefficient) / Fraction(first)})
            changed.append(part * field.of(number) - part * others)
        if not changed:
            break
        form = total(field, [Form(field, kept), *changed])  # type: ignore[assignment]
    return form


def _without(field: Field, monomial: Monomial, leading: Monomial, number: int) -> dict[int, Number] | None:
    """A term over q (that element) without its factor `leading`; None where it has none."""
    exponents = dict(monomial)
    if exponents.get(number, 0) >= 0:
        return None
    for n, exponent in leading:
        here = exponents.get(n, 0)
        if (here < exponent) if exponent > 0 else (here > exponent):
            return None
        exponents[n] = here - exponent
        if not exponents[n]:
            del exponents[n]
    return exponents


def _compared(left: Monomial, right: Monomial) -> int:
    """An order that products keep: by the exponent of the first element in which they differ."""
    mine, others = dict(left), dict(right)
    for number in sorted({*mine, *others}):
        a, b = mine.get(number, 0), others.get(number, 0)
        if a != b:
            return 1 if a > b else -1
    return 0


ORDER = cmp_to_key(_compared)
