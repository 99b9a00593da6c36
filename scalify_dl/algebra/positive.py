"""Sums with truths in them that are above zero in each case: of a row of exponentials of which masks hide some.

Normal forms hide it: Σ_j [j ≤ i]·a[j] is Σ_j a[j] − Σ_j [j > i]·a[j]. As one sum, of (1 − [j > i])·a[j], it is at least
zero where j > i and where not; and above zero where j is i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from itertools import product as choices_of

from .flagged import TRUTHS, where
from .form import Form, Undecided
from .variables import Renamed, Variable, counted, free

MOST_TRUTHS = 6
"""Truths that are looked at one by one."""
MOST_PLACES = 8
"""Places of the variables of a sum that are looked at."""

Sign = Callable[[Form], bool]


def above_zero(form: Form) -> bool:
    """Whether a form is known to be above zero, by cases of its truths, and of those in its sums."""
    try:
        bound, body = _as_one_sum(form.content(positive=True)[2])
        if _in_each_case(body, Form.is_positive):
            return True
        return _in_each_case(body, Form.is_nonnegative) and any(
            _in_each_case(there, Form.is_positive) for there in _places(body, bound)
        )
    except Undecided:
        return False


def at_least_zero(form: Form) -> bool:
    """Whether a form is known to be at least zero, by cases of its truths, and of those in its sums."""
    try:
        return _in_each_case(_as_one_sum(form.content(positive=True)[2])[1], Form.is_nonnegative)
    except Undecided:
        return False


def _as_one_sum(form: Form) -> tuple[tuple[Variable, ...], Form]:
    """Variables and what is summed over them. Undecided where terms are sums over others."""
    field = form.field
    sums = {n for m in form.terms for n, _ in m if field.elements[n].kind == "sum"}
    bounds = {field.elements[n].data[0] for n in sums}  # type: ignore[index]
    if len(bounds) > 1:
        raise Undecided("sums over other variables")
    bound: tuple[Variable, ...] = next(iter(bounds), ())
    body, times = field.zero, counted(field, bound).value
    for monomial, c in form.terms.items():
        inner = [(n, e) for n, e in monomial if n in sums]
        if len(inner) > 1 or any(e != 1 for _, e in inner) or not (inner or times):
            raise Undecided("a product of sums")
        outer = Form(field, {tuple(each for each in monomial if each not in inner): c})
        if not free(field, outer).isdisjoint(bound):
            raise Undecided("variables of the same name")
        for n, _ in inner:
            body = body + outer * field.elements[n].data[1]  # type: ignore[index]
        if not inner:
            body = body + outer.scaled(1 / Fraction(times or 1))
    return bound, body


def _in_each_case(form: Form, so: Sign, left: int = MOST_TRUTHS) -> bool:
    """Whether something is so of a form wherever its truths are so or not."""
    elements = form.field.elements
    truth = min((n for m in form.terms for n, _ in m if elements[n].kind in TRUTHS), default=None)
    if truth is None:
        return so(form)
    return left > 0 and all(_in_each_case(where(form, truth, value), so, left - 1) for value in (1, 0))


def _places(body: Form, bound: tuple[Variable, ...]) -> Iterator[Form]:
    """A summand where its variables are others of the formula."""
    others = sorted(free(body.field, body) - {*bound}, key=repr)
    choices = [[w for w in others if w.size == v.size] for v in bound]
    for chosen in islice(choices_of(*choices), MOST_PLACES):
        yield Renamed(body.field, dict(zip(bound, chosen, strict=True))).form(body)
