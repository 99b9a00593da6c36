"""Laws of truths (0 or 1): comparisons with zero, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.sizes import above

from .form import Field, Form, Number
from .laws import comparable, maximum_and_rest
from .maxima import Meets
from .whole import integer_bounds, is_whole


def greater(left: Form, right: Form) -> Form:
    """1 where left > right, else 0."""
    return _flag("above", left - right, lambda value: value > 0)


def equal(left: Form, right: Form) -> Form:
    """1 where they are equal, else 0."""
    return _flag("at", left - right, lambda value: value == 0)


FEW_TRUTHS = 5
"""Most truths in a form that is compared with zero which are looked at one by one."""
FEW_MEMBERS = 10
"""Most members of a maximum that is compared with zero which are looked at one by one."""


def _flag(name: str, form: Form, holds: Callable[[Number], bool]) -> Form:
    field = form.field
    value = form.value
    if value is not None:
        return field.one if holds(value) else field.zero
    form = comparable(form)
    if form.value is not None:
        return field.one if holds(form.value) else field.zero
    if form.is_positive():
        return field.one if name == "above" else field.zero
    if (-form).is_positive():
        return field.zero
    truths = sorted({n for monomial in form.terms for n, _ in monomial if field.elements[n].kind in ("flag", "equals")})
    if 0 < len(truths) <= FEW_TRUTHS:
        return _by_truth(name, form, holds, truths[0])
    parts = maximum_and_rest(form)
    if parts is not None and sum(map(len, parts[0])) <= FEW_MEMBERS:
        if name == "at":
            found = _of_clamped(*parts)
            return found if found is not None else field.one - greater(form, field.zero) - greater(field.zero, form)
        return _of_members(*parts)
    _, _, rest = form.content(positive=True)
    if name == "at" and rest.key > (-rest).key:
        rest = -rest
    if name == "above" and _is_of_ids(rest) and (other := field.one - rest).key < rest.key:
        return field.one - field.of(field.element("flag", (name, other), nonnegative=True))
    return field.of(field.element("flag", (name, rest), nonnegative=True))


def _is_of_ids(form: Form) -> bool:
    """Whether it is a whole number with an unknown integer in it: i > 0 and 1 - i > 0 are then each other's opposite,
    and one of them is a flag."""
    return "integer" in {form.field.elements[n].kind for m in form.terms for n, _ in m} and is_whole(form)


def _of_clamped(meets: Meets, rest: Form, factor: Number) -> Form | None:
    """Whether max(min(id, high), low) is a whole number: the id is, or that is an end and the id beyond it; None for
    other maxima."""
    field = rest.field
    unknown = {member for meet in meets for member in meet if member.value is None}
    if len(unknown) != 1 or abs(factor) != 1:
        return None
    (index,), wanted = unknown, rest.scaled(-factor)
    lows = [member.value for meet in meets if len(meet) == 1 for member in meet if member.value is not None]
    clipped = [meet for meet in meets if index in meet]
    highs = [member.value for meet in clipped for member in meet if member.value is not None]
    ends = [*lows, *highs]
    if len(clipped) != 1 or len(lows) + 1 != len(meets) or len(lows) > 1 or len(highs) > 1:
        return None
    if not (is_whole(index) and is_whole(wanted)) or any(end != int(end) for end in ends) or ends != sorted(ends):
        return None
    found, past = equal(index, wanted), field.zero
    for sign, end in [*((1, low) for low in lows), *((-1, high) for high in highs)]:
        at = field.constant(end)
        found = found * (field.one - _beyond((at - wanted).scaled(sign)))
        past = past + equal(wanted, at) * _beyond((at - index).scaled(sign))
    return found + past


def _beyond(form: Form) -> Form:
    """Whether a whole number is above zero, decided where the values that it may have decide it."""
    low, high = integer_bounds(form)
    if above(low) or above(1 - high):
        return form.field.one if above(low) else form.field.zero
    return greater(form, form.field.zero)


def _by_truth(name: str, form: Form, holds: Callable[[Number], bool], number: int) -> Form:
    """A flag of a form that has a truth in it: what it is where that is so, and where it is not."""
    field = form.field
    with_it = {m: c for m, c in form.terms.items() if any(n == number for n, _ in m)}
    without = Form(field, {m: c for m, c in form.terms.items() if m not in with_it})
    stripped = field.zero
    for monomial, c in with_it.items():
        stripped = stripped + Form(field, {tuple((n, e) for n, e in monomial if n != number): c})
    truth = field.of(number)
    return choose(truth, _flag(name, without + stripped, holds), _flag(name, without, holds))


def _of_members(meets: Meets, rest: Form, factor: Number) -> Form:
    """Whether factor · max(min(…), …) + rest is above zero."""
    field: Field = rest.field
    one = field.one
    none = one  # that no set has all its members (below zero: that each set has one) above zero
    for meet in meets:
        every = one
        for member in meet:
            scaled = member.scaled(factor) + rest
            above = greater(scaled, field.zero)
            every = every * (above if factor > 0 else one - above)
        none = none * (one - every)
    return one - none if factor > 0 else none


def both(left: Form, right: Form) -> Form:
    """Of two truths (0 or 1): whether both are so."""
    return left * right


def either(left: Form, right: Form) -> Form:
    """Of two truths: whether one is so."""
    return left + right - left * right


def choose(truth: Form, yes: Form, no: Form) -> Form:
    """One or the other, by a truth."""
    return truth * yes + (truth.field.one - truth) * no
