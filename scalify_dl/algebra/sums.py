"""Sums and maxima over index variables, in normal form.

A sum is taken of each product by itself: what does not depend on the variables stands outside, sums within become part
of it, and what shares no variable is a sum of its own. The variables of what is left are numbered in one order, so that

    Σ_i a[i]·(Σ_j b[i, j]·c[j]),  Σ_j (Σ_i a[i]·b[i, j])·c[j]   are one element;   Σ_i 1  is the number of values of i.

Of a maximum, what does not depend on the variables, added or (above zero) multiplied, stands outside, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice, permutations
from itertools import product as choices_of
from typing import Any
from zlib import crc32

from . import laws
from .extended import Cell, Masked, NotANumber, masked
from .form import Field, Form, Monomial, Number, Undecided
from .rebuilt import bound_by
from .selecting import absorbed, at_first, decided, selected
from .variables import BINDING, Renamed, Variable, counted, free, fresh, of_element

MOST_ORDERS = 120
"""Orders of variables that nothing else tells apart; beyond it the first is taken (what is one may look like two)."""
MOST_COPIES = 4
"""Greatest power of a sum that is multiplied out within another sum."""

Bound = tuple[Variable, ...]


def summed(field: Field, form: Form, variables: Iterable[Variable]) -> Form:
    """The sum of a form over all values of these variables."""
    bound = frozenset(variables)
    if not bound:
        return form
    field.tick()
    result = field.zero
    for monomial, coefficient in form.terms.items():
        outside = tuple((n, e) for n, e in monomial if bound.isdisjoint(of_element(field, n)))
        inside = tuple(factor for factor in monomial if factor not in outside)
        result = result + Form(field, {outside: coefficient}) * _product(field, inside, bound)
    return result


def _product(field: Field, inside: Monomial, bound: frozenset[Variable]) -> Form:
    """The sum of a product in which all factors depend on the variables."""
    left = absorbed(field, inside)
    if left is None:
        return field.zero
    if left != inside:
        return summed(field, Form(field, {left: 1}), bound)
    found = selected(field, inside, bound)
    if found is not None:
        return summed(field, *found)
    used = frozenset().union(*(of_element(field, n) for n, _ in inside)) & bound
    count = counted(field, bound - used)
    inner = [(n, e) for n, e in inside if field.elements[n].kind == "sum" and e == int(e) and 0 < e <= MOST_COPIES]
    if inner:
        product = Form(field, {tuple(factor for factor in inside if factor not in inner): 1})
        for number, exponent in inner:
            for _ in range(int(exponent)):
                names, part = opened(field, number)
                product, used = product * part, used.union(names)
        return count * summed(field, product, used)
    result = count
    for factors, variables in _components(field, inside, used):
        result = result * _element(field, "sum", (Form(field, {factors: 1}),), variables)
    return result


def opened(field: Field, number: int) -> tuple[Bound, Form]:
    """What a sum is of, with variables that nothing else has."""
    content: Any = field.elements[number].data
    bound, form = content
    names = fresh(field, bound)
    return tuple(names.values()), Renamed(field, names).form(form)


def _components(
    field: Field, factors: Monomial, used: frozenset[Variable]
) -> Iterator[tuple[Monomial, frozenset[Variable]]]:
    """The factors in groups that share no variable."""
    left = {factor: of_element(field, factor[0]) & used for factor in factors}
    while left:
        first = next(iter(left))
        group, variables = [first], left.pop(first)
        grown = True
        while grown:
            more = [factor for factor, mine in left.items() if mine & variables]
            grown = bool(more)
            for factor in more:
                group.append(factor)
                variables |= left.pop(factor)
        yield tuple(sorted(group)), variables


def greatest(field: Field, form: Form, variables: Iterable[Variable], shown: Form) -> Form:
    """The maximum of a form over those values of the variables for which a truth is so; there is one for all inputs."""
    bound = frozenset(variables) & (free(field, form) | free(field, shown))
    field.tick()
    outside = Form(field, {m: c for m, c in form.terms.items() if bound.isdisjoint(free(field, Form(field, {m: 1})))})
    rest = form - outside
    if not rest.terms:
        return outside
    scale, shared, core = rest.content(positive=True)
    kept = tuple((n, e) for n, e in shared if bound.isdisjoint(of_element(field, n)))
    factor = Form(field, {kept: scale})
    core = core * Form(field, {tuple(each for each in shared if each not in kept): 1})
    return outside + factor * _greatest(field, core, bound, shown)


def _greatest(field: Field, core: Form, bound: frozenset[Variable], shown: Form) -> Form:
    """The maximum of a form of which nothing stands outside."""
    ((monomial, coefficient), *others) = core.terms.items()
    if not others and len(monomial) == 1 and monomial[0][1] == coefficient == 1:
        kind, data = field.elements[monomial[0][0]][:2]
        content: Any = data
        if kind == "maximum" and all(len(meet) == 1 for meet in content):
            return laws.most([greatest(field, part, bound, shown) for (part,) in content])
        if kind == "most" and not bound & free(field, content[2]) and shown == field.one == content[2]:
            names = fresh(field, content[0])
            return greatest(field, Renamed(field, names).form(content[1]), bound | {*names.values()}, shown)
    return _element(field, "most", (core, shown), bound)


def greatest_cell(cell: Cell, variables: Iterable[Variable]) -> Cell:
    """The maximum of a value that may be masked; Undecided where all of a row may be, unless
    that is where its first element is."""
    if isinstance(cell, Form):
        return greatest(cell.field, cell, variables, cell.field.one)
    if isinstance(cell, NotANumber):
        raise Undecided("a constant that is not a number")
    field = cell.form.field
    bound = tuple(v for v in sorted(variables, key=repr) if v in free(field, cell.flag))
    if cell.sign > 0:
        raise Undecided("the maximum of values that may be infinite")
    if not bound:
        return Masked(cell.flag, greatest(field, cell.form, variables, field.one), -1)
    others = free(field, cell.flag) - frozenset(bound)
    choices = [[w for w in sorted(others, key=repr) if w.size == v.size] for v in bound]
    for chosen in islice(choices_of(*choices), MOST_ORDERS):
        if Renamed(field, dict(zip(bound, chosen, strict=True))).form(cell.flag).value == 1:
            return greatest(field, cell.form, variables, cell.flag)
    first = at_first(field, cell.flag, bound)
    if first is not None and (first.value == 1 or decided(cell.flag * first) == cell.flag):  # where any is, it is
        return masked(first, greatest(field, cell.form, variables, cell.flag), -1)
    raise Undecided("the maximum of a row of which all may be masked")


# ---- elements, their variables numbered in one order ----
def _element(field: Field, kind: str, parts: tuple[Form, ...], variables: Iterable[Variable]) -> Form:
    """A sum or maximum as an element, times a number."""
    field.tick()
    own = frozenset(variables)
    tied = [list(group) for group in _tied(field, parts, own)]
    level = 1 + max(_level(field, part) for part in parts)
    others = {v.name[:2] for part in parts for v in free(field, part) - own}
    while ("bound", level) in others:  # of a sum around this one
        level += 1
    found: list[tuple[Bound, tuple[Form, ...]]] = []
    for orders in islice(choices_of(*map(permutations, tied)), MOST_ORDERS):
        order = [v for group in orders for v in group]
        names = {v: Variable(("bound", level, n), v.size) for n, v in enumerate(order)}
        renamed = Renamed(field, names)
        found.append((tuple(names.values()), tuple(renamed.form(part) for part in parts)))
    bound, (first, *rest) = min(found, key=lambda one: [part.key for part in one[1]])
    if not frozenset(bound) <= frozenset().union(*(free(field, part) for part in (first, *rest))):
        raise Undecided("a formula in which variables cannot be renamed")
    scale: Number = 1
    if kind == "sum" and len(first.terms) == 1:
        (scale,) = first.terms.values()
        first = first.scaled(1 / Fraction(scale))
    number = field.element(
        kind, (bound, first, *rest), positive=first.is_positive(), nonnegative=first.is_nonnegative()
    )
    return field.of(number).scaled(scale)


def _tied(field: Field, parts: tuple[Form, ...], variables: Iterable[Variable]) -> list[list[Variable]]:
    """The variables in an order that does not depend on their names, where their parts in the form tell them apart."""
    bound = sorted(variables, key=lambda v: (v.size, repr(v.name)))  # no order of a set decides which are tried
    roles = {v: ("other", v.size) for v in bound}
    by_role: dict[tuple[int, int], list[Variable]] = {}
    for v in bound:
        text = repr([_outline(field, part, {**roles, v: ("this", v.size)}, {}) for part in parts])
        by_role.setdefault((v.size, crc32(text.encode())), []).append(v)
    return [by_role[key] for key in sorted(by_role)]


def _outline(field: Field, what: Any, roles: dict[Variable, Any], known: dict[int, Any]) -> Any:
    """What is made of what, with roles in the place of variables."""
    if isinstance(what, Variable):
        return roles.get(what, what)
    if isinstance(what, Form):
        return sorted(
            (sorted((_drawn(field, n, roles, known), str(e)) for n, e in m), str(c)) for m, c in what.terms.items()
        )
    if isinstance(what, tuple):
        return [_outline(field, part, roles, known) for part in what]
    if isinstance(what, frozenset):
        return sorted(repr(_outline(field, part, roles, known)) for part in what)
    return repr(what)


def _drawn(field: Field, number: int, roles: dict[Variable, Any], known: dict[int, Any]) -> str:
    if of_element(field, number).isdisjoint(roles):
        return str(number)
    if number not in known:
        kind, data = field.elements[number][:2]
        content: Any = Form(field, {data: 1}) if kind == "exp" else data  # type: ignore[dict-item]
        known[number] = repr((kind, _outline(field, content, roles, known)))
    text: str = known[number]
    return text


def _level(field: Field, what: Any) -> int:
    """How deep sums and maxima stand in one another."""
    if isinstance(what, Form):
        return max((_level_of(field, n) for m in what.terms for n, _ in m), default=0)
    if isinstance(what, (tuple, frozenset)):
        return max((_level(field, part) for part in what), default=0)
    return 0


def _level_of(field: Field, number: int) -> int:
    known = field.levels
    if number not in known:
        kind, data = field.elements[number][:2]
        content: Any = Form(field, {data: 1}) if kind == "exp" else data  # type: ignore[dict-item]
        known[number] = _level(field, content) + (kind in BINDING)
    return known[number]


@bound_by("sum")
def _sum_again(field: Field, bound: Bound, parts: tuple[Form, ...]) -> Form:
    return summed(field, parts[0], bound)


@bound_by("most")
def _most_again(field: Field, bound: Bound, parts: tuple[Form, ...]) -> Form:
    return greatest(field, parts[0], bound, parts[1])
