"""Exponentials of what a truth adds a large number to: masks that are written as sums or as choices.

Of a truth F (0 or 1), exp(x) is F·exp(x where F is 1) + (1 − F)·exp(x where F is 0). That is so of any x, and done of
those in which a number above all others (`huge.py`) stands beside F: what is masked is then a term of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from .form import Field, Form, Monomial

TRUTHS = ("flag", "equals")
MOST_TRUTHS = 5
"""Truths whose cases are looked at."""


def by_truths(form: Form, function: Callable[[Form], Form]) -> Form | None:
    """A function of a form by the truth that stands beside a huge number; None where none does."""
    field = form.field
    truth = min((n for m in form.terms if _is_huge(field, m) for n, _ in m if _is_truth(field, n)), default=None)
    if truth is None:
        return None
    shown = Form(field, {((truth, 1),): 1})
    return shown * function(where(form, truth, 1)) + (field.one - shown) * function(where(form, truth, 0))


def where(form: Form, truth: int, value: int) -> Form:
    """What a form is where a truth that is a factor of its terms is so, or is not."""
    found = form.field.zero
    for monomial, c in form.terms.items():
        if value or all(n != truth for n, _ in monomial):
            found = found + Form(form.field, {tuple((n, e) for n, e in monomial if n != truth): c})
    return found


def _is_huge(field: Field, monomial: Monomial) -> bool:
    return any(number in field.huge for number, _ in monomial) if field.huge else False


def _is_truth(field: Field, number: int) -> bool:
    return field.elements[number].kind in TRUTHS


def is_heavy(form: Form) -> bool:
    """Whether a huge number is added up in a form."""
    return any(_is_huge(form.field, monomial) for monomial in form.terms)


def absorbs(left: Form, right: Form) -> bool:
    """Whether a huge number may meet one of the other sign in a sum: rounded, what stood beside the first is lost."""
    field = left.field
    parts = [Form(field, {m: c for m, c in form.terms.items() if _is_huge(field, m)}) for form in (left, right)]
    return all(part.terms for part in parts) and _opposed(parts)


def _opposed(parts: list[Form], left: int = MOST_TRUTHS) -> bool:
    """Whether two sums of huge numbers are not of one sign in some case of their truths."""
    field = parts[0].field
    truth = min((n for part in parts for m in part.terms for n, _ in m if _is_truth(field, n)), default=None)
    if truth is not None:
        return not left or any(_opposed([where(part, truth, v) for part in parts], left - 1) for v in (0, 1))
    first, second = parts
    if not first.terms or not second.terms:
        return False
    return not any(all(_is_above(sign) for sign in (a, b)) for a, b in ((first, second), (-first, -second)))


def _is_above(form: Form) -> bool:
    """Whether huge numbers are above zero, each by itself."""
    elements = form.field.elements
    return all(c > 0 and all(elements[n].positive for n, _ in m) for m, c in form.terms.items())
