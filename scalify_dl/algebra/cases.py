"""Whether a form is zero in each case of signs, orders and integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

from .components import components
from .divided import divided
from .finite import Leaf
from .form import Field, Form, Monomial, Number, Undecided
from .huge import settled
from .known import AT_LEAST, AT_MOST, COMPARED, MINUS, PLUS, ZERO, Known, Row, is_place
from .laws import comparable
from .quotients import multiplied_out, numerator

SPLITS = 32
"""Four for each case inside another one, one where only one case is left."""
MOST_LEAF = 16
"""Most values of an integer that are looked at one by one."""


def is_zero(form: Form, known: Known | None = None, splits: int = SPLITS) -> bool:
    """Whether a form is zero for all inputs.

    Where it holds a maximum of a and b the cases are a ≥ b and a ≤ b; where it holds a flag of p they are p > 0, p < 0
    and p = 0, where the rest is to be zero with an unknown put in, or a multiple of p; where it holds the place of the
    greatest of a row, each of its places. Terms that share no unknown are looked at apart.
    """
    known = known or Known()
    form = known.simplified(settled(form))
    try:
        form = divided(multiplied_out(form))
        parts = components(form)
        if len(parts) > 1 and all(is_zero(part, known, splits) for part in parts):
            return True
        form = numerator(form)
    except Undecided:
        form.field.tick()  # of many terms over one denominator, perhaps, and of few in each case
    if not form.terms or _vanishes(form, known.zeros):
        return True
    if splits <= 0:
        return False
    form.field.tick()
    branches = _branches(form, known)
    if not branches:
        return False
    left = splits - (4 if len(branches) > 1 else 1)
    return all(is_zero(form, branch, left) for branch in branches)


def _branches(form: Form, known: Known) -> list[Known]:
    """What is known in each case of something that a form holds."""
    compared: list[tuple[Form, bool]] = []
    places: list[Leaf] = []
    truths: list[Any] = []
    leaves: list[Leaf] = []
    for kind, what in _undecided(form, set()):
        if kind == "place":
            places.append(what)
        elif kind == "truth":
            truths.append(what)
        elif kind == "leaf":
            leaves.append(what)
        elif kind == "flag" or not any(known.signs(what) <= decided for decided in (AT_LEAST, AT_MOST)):
            compared.append((what, kind == "flag"))
    if places:
        return list(_orders(min(places, key=_plainness), known))
    if compared:
        p = min((form for form, _ in compared), key=_has_maximum)  # what others are made of comes first
        flagged = any(flag for q, flag in compared if _ratio(q, p) is not None)
        return list(_by_sign(p, known, flagged))
    if truths:
        return [replace(known, truths=(*known.truths, (truths[0], n))) for n in (0, 1)]
    few = [leaf for leaf in leaves if leaf.hi - leaf.lo <= MOST_LEAF][:1]
    return [replace(known, leaves=(*known.leaves, (leaf, n))) for leaf in few for n in range(leaf.lo, leaf.hi)]


def _undecided(form: Form, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """What flags compare with zero, differences of members of maxima, places and truths, however deep."""
    for monomial in form.terms:
        for number, _ in monomial:
            if number in seen:
                continue
            seen.add(number)
            kind, data = form.field.elements[number][:2]
            parts: list[Form] = []
            if kind == "flag" and data[0] in COMPARED:  # type: ignore[index]
                parts = [data[1]]  # type: ignore[index]
                yield "flag", parts[0]
            elif kind == "flag":
                yield "truth", data
            elif kind == "equals" and is_place(data[0]):  # type: ignore[index]
                yield "place", data[0]  # type: ignore[index]
            elif kind == "equals":
                yield "leaf", data[0]  # type: ignore[index]
            elif kind == "maximum":
                meets: Any = data
                parts = sorted({form for meet in meets for form in meet}, key=lambda form: form.key)
                for first, second in combinations(parts, 2):
                    yield "maximum", first - second
            elif kind == "exp":
                parts = [Form(form.field, {data: 1})]  # type: ignore[dict-item]
            elif kind == "function":
                parts = [part for part in data if isinstance(part, Form)]  # type: ignore[attr-defined]
            elif isinstance(data, Form):
                parts = [data]
            for part in parts:
                yield from _undecided(part, seen)


def _by_sign(p: Form, known: Known, flagged: bool) -> Iterator[Known]:
    signs = known.signs(p)
    if not flagged:
        for sign in (PLUS, MINUS):
            if sign in signs:
                yield known.and_fact(p.scaled(sign), False)
        return
    for sign in (PLUS, MINUS):
        if sign in signs:
            yield known.and_fact(p.scaled(sign), True)
    if ZERO in signs and all(_ratio(needed, p) is None for needed in known.nonzero):
        yield known.where_zero(comparable(p))


def _plainness(leaf: Leaf) -> tuple[int, int]:
    """Rows without maxima first, and of these long ones: their order decides that of others."""
    name: Any = leaf.name
    return sum(_has_maximum(form) for form in name[1]), -len(name[1])


def _has_maximum(form: Form) -> bool:
    return any(form.field.elements[number].kind == "maximum" for monomial in form.terms for number, _ in monomial)


def _orders(leaf: Leaf, known: Known) -> Iterator[Known]:
    """The cases of which element of a row is the greatest of those whose places are not known."""
    name: Any = leaf.name
    row: Row = name[1]
    places = known.places(row)
    forms = [known.simplified(form) for form in row]
    free = [i for i in range(len(row)) if i not in places]
    for i in free:
        branch: Known | None = known
        for k in free:
            if k == i:
                continue
            difference, strict = forms[i] - forms[k], k < i
            if branch is None:
                break
            difference = branch.simplified(difference)
            signs = branch.signs(difference)
            possible = signs & ({PLUS} if strict else AT_LEAST)
            if not possible:
                branch = None
            elif possible == {ZERO} and difference.terms:
                branch = branch.where_zero(difference)
            elif signs != possible:
                branch = branch.and_fact(difference, strict)
        if branch is not None:
            others = tuple(entry for entry in branch.orders if entry[0] != row)
            yield replace(branch, orders=(*others, (row, (*places, i))))


def _ratio(q: Form, p: Form) -> Number | None:
    """c where q = c · p, c not 0."""
    if len(q.terms) != len(p.terms) or not p.terms:
        return None
    first = next(iter(p.terms))
    if first not in q.terms:
        return None
    ratio = Fraction(q.terms[first]) / Fraction(p.terms[first])
    return ratio if q == p.scaled(ratio) else None


def _vanishes(form: Form, zeros: tuple[Form, ...]) -> bool:
    """Whether a form is a sum of multiples of zeros, by forms that are defined wherever they are."""
    for p in zeros:
        form = _less_multiples(form, p)
    return not form.terms


def _less_multiples(form: Form, p: Form) -> Form:
    """What is left of a form by a division by p."""
    first: Monomial = max(p.terms)
    inverse = Form(form.field, {tuple((number, -exponent) for number, exponent in first): 1 / Fraction(p.terms[first])})
    for _ in range(4 * len(form.terms) + 4):
        whole = [monomial for monomial in form.terms if _holds(form.field, monomial, first)]
        if not whole:
            break
        last = max(whole)
        form = form - Form(form.field, {last: form.terms[last]}) * inverse * p
    return form


def _holds(field: Field, monomial: Monomial, first: Monomial) -> bool:
    """Whether a monomial is a multiple of another, by what is not divided by anything that may be zero."""
    exponents = dict(monomial)
    return all(
        exponent < 0 or field.elements[number].positive or exponents.get(number, 0) >= exponent
        for number, exponent in first
    )
