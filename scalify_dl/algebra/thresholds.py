"""What libraries leave out beyond a threshold: log(1 + eˣ) is x there, 1/(1 + e⁻ˣ) is 1.

Of real numbers it is not. Where it differs by less than rounding changes it (e⁻²⁰ in f32), the choice is taken for the
function alone, and this is listed as precision. From a threshold t on, log(1 + eʸ) − y ≤ e⁻ᵗ, less than that part of y,
and 1 − 1/(1 + e⁻ʸ) ≤ e⁻ᵗ; both are compared with half a place of the last digit of the type, f32 at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from scalify_dl.oracle.dtypes import precision
from scalify_dl.oracle.inputs import thresholds
from scalify_dl.oracle.program import Program

from . import laws
from .form import Form

BENT = frozenset({"softplus", "log-plus-one", "log", "logistic"})
"""Functions of which thresholds leave something out."""
FAR = 4.0
BITS_OF_E = Fraction(144, 100)
"""Less than log₂ e: e⁻ᵗ is below 2 to minus so many t."""


def asked_of(program: Program) -> bool:
    """Whether numbers are compared with one far from zero, beside functions that are nearly linear, or 1, there."""
    kinds = {op.kind for role in ("base", "dist") for graph in program.top(role) for op in graph.ops}
    far = max(map(abs, thresholds(program)[1]), default=0) > FAR
    return far and "select" in kinds and not kinds.isdisjoint(BENT)


def beyond(truth: Form, yes: Form, no: Form, dtype: str) -> Form | None:
    """A choice by a comparison with a threshold as the one of its sides that the other leaves something out of."""
    least = (max(precision(dtype), precision("f32")) + 1) / BITS_OF_E
    one = truth.field.one
    for chosen, short, whole in ((truth, yes, no), (one - truth, no, yes)):
        above = _above(chosen)
        if above is None:
            continue
        for y in _arguments(whole):
            start = _start(above, y)
            if start is not None and start >= least and _is_left_out(short, whole, y):
                truth.field.need("threshold", whole)
                return whole
    return None


def _above(truth: Form) -> Form | None:
    """What is above zero, or at least zero, where a truth is so that is one comparison, or not one."""
    field = truth.field
    for form, sign in ((truth, 1), (field.one - truth, -1)):
        if len(form.terms) == 1:
            ((monomial, coefficient),) = form.terms.items()
            elements = [field.elements[number] for number, _ in monomial]
            if coefficient == 1 and [element.kind for element in elements] == ["flag"]:
                what, p = elements[0].data[:2]  # type: ignore[index]
                return p.scaled(sign) if what == "above" else None
    return None


def _arguments(form: Form) -> Iterator[Form]:
    """Each y of an 1 + exp(y) that it is made of, of either sign."""
    field = form.field
    for number in sorted({number for monomial in form.terms for number, _ in monomial}):
        inner = field.elements[number].data
        power = inner - field.one if isinstance(inner, Form) else field.zero
        if len(power.terms) == 1 and power.is_positive():
            y = laws.logarithm(power)
            yield from (y, -y)


def _start(above: Form, y: Form) -> Fraction | None:
    """The least y where a form is above zero: it is a number above zero times y − t."""
    factor = _ratio(above, y)
    if factor is None or factor <= 0:
        return None
    rest = above - y.scaled(factor)
    return None if rest.value is None else -Fraction(rest.value) / factor


def _ratio(form: Form, y: Form) -> Fraction | None:
    """How often a form has the first term of y that is no number."""
    monomial = min((m for m in y.terms if m), default=None)
    if monomial is None or monomial not in form.terms:
        return None
    return Fraction(form.terms[monomial]) / Fraction(y.terms[monomial])


def _is_left_out(short: Form, whole: Form, y: Form) -> bool:
    field = y.field
    factor = _ratio(short, y)
    if factor is not None and short == y.scaled(factor):
        return whole == laws.logarithm(field.one + laws.exponential(y)).scaled(factor)
    return whole == short * laws.power(field.one + laws.exponential(-y), -1)
