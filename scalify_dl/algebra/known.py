"""What is known in a case of signs and orders, and what forms are in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any

from scalify_dl.sizes import above

from . import laws
from .finite import Leaf
from .form import Element, Field, Form, Number
from .maxima import Meets
from .rebuilt import BOUND, Rebuilt
from .whole import integer_bounds, is_whole

DEEP = 4
"""How often a form is looked at again."""
FEW_FACTS = 12
"""Facts that are added up to find a sign."""
COMPARED = ("above", "at")
"""Flags of a form: above zero, or zero; others are inputs."""
UNKNOWN = ("input", "integer")
"""Elements that may be put in for others, where a form that they are in is zero."""
PLUS, ZERO, MINUS = 1, 0, -1
ANY = frozenset({PLUS, ZERO, MINUS})
AT_LEAST, AT_MOST = frozenset({PLUS, ZERO}), frozenset({MINUS, ZERO})

Signs = frozenset[int]
Row = tuple[Form, ...]


@dataclass(frozen=True)
class Known:
    """What is so in a case: forms that are at least (or, if true, above) zero, forms that are zero, the places of the
    greatest ones of some rows, and truths that are inputs."""

    facts: tuple[tuple[Form, bool], ...] = ()
    zeros: tuple[Form, ...] = ()
    orders: tuple[tuple[Row, tuple[int, ...]], ...] = ()
    truths: tuple[tuple[Any, int], ...] = ()
    values: tuple[tuple[Element, Form], ...] = ()
    """What unknowns are."""
    nonzero: tuple[Form, ...] = ()
    """What both sides need to be other than zero, in all cases."""
    leaves: tuple[tuple[Leaf, int], ...] = ()
    """What integers of few values are."""

    def and_fact(self, form: Form, strict: bool) -> Known:
        """Also: a form is at least, or above, zero."""
        more = replace(self, facts=(*self.facts, (laws.comparable(form), strict)))
        return replace(more, facts=tuple((more._bare(fact), strict) for fact, strict in more.facts))

    def where_zero(self, p: Form) -> Known:
        """Also: a form is zero, so that an unknown in it is known, where it has one by itself."""
        field = p.field
        for monomial, coefficient in p.terms.items():
            if len(monomial) == 1 and monomial[0][1] == 1 and field.elements[monomial[0][0]].kind in UNKNOWN:
                number = monomial[0][0]
                rest = (p - Form(field, {monomial: coefficient})).scaled(-1 / Fraction(coefficient))
                if number in elements_of(rest, set()):
                    continue
                unknown = field.elements[number]
                rebuilt = Rebuilt(field, lambda element, u=unknown, r=rest: r if element == u else None)  # type: ignore[misc]
                return replace(
                    self,
                    facts=tuple((rebuilt.form(fact), strict) for fact, strict in self.facts),
                    zeros=tuple(zero for zero in map(rebuilt.form, self.zeros) if zero.terms),
                    values=(*self.values, (unknown, rest)),
                )
        return replace(self, zeros=(*self.zeros, p))

    def signs(self, form: Form, depth: int = 2) -> Signs:
        """The signs that a form may have."""
        value = form.value
        if value is not None:
            return frozenset({(value > 0) - (value < 0)})
        form.field.tick()  # signs in signs in signs: many, where a case is long
        form = self._bare(laws.comparable(form))
        found = _signs_alone(form) & _signs_of_whole(form) & self._of_members(form, depth)
        if depth == 0 or len(found) == 1:
            return found
        for fact in self.facts[:FEW_FACTS]:
            fewer = replace(self, facts=tuple(other for other in self.facts if other is not fact))
            for ratio in _ratios(form, fact[0]):
                rest = fewer.signs(form - fact[0].scaled(ratio), depth - 1)
                found &= _added(rest, PLUS if ratio > 0 else MINUS, fact[1])
        for zero in self.zeros:
            fewer = replace(self, zeros=tuple(other for other in self.zeros if other is not zero))
            for ratio in _ratios(form, zero):
                found &= fewer.signs(form - zero.scaled(ratio), depth - 1)
        return found

    def _bare(self, form: Form) -> Form:
        """A form of several terms without the factors of all of them whose signs are known, but for the sign."""
        if len(form.terms) < 2:
            return form
        for fact, strict in self.facts:
            (monomial, coefficient), *others = fact.terms.items() or [((), 0)]
            if others or not strict or len(monomial) != 1 or monomial[0][1] != 1:
                continue
            number = monomial[0][0]
            if all((number, 1) in term for term in form.terms):
                inverse = form.field.of(number, -1)
                form = laws.comparable((form if coefficient > 0 else -form) * inverse)
        return form

    def _of_members(self, form: Form, depth: int) -> Signs:
        """Of a maximum and something else: the greatest sign of its members, with that added."""
        parts = laws.maximum_and_rest(form)
        if parts is None:
            return ANY
        meets, rest, factor = parts
        added, highs, lows = rest.scaled(1 if factor > 0 else -1), [], []
        for meet in meets:
            signs = [self.signs(member.scaled(factor if factor > 0 else -factor) + added, depth) for member in meet]
            lows.append(min(min(s, default=MINUS) for s in signs))
            highs.append(min(max(s, default=PLUS) for s in signs))
        found = frozenset(range(max(lows), max(highs) + 1))
        return found if factor > 0 else frozenset(-sign for sign in found)

    def places(self, row: Row) -> tuple[int, ...]:
        """The places of the greatest ones of a row, as far as they are known."""
        return dict(self.orders).get(row, ())

    # ---- what becomes of forms ----
    def simplified(self, form: Form) -> Form:
        """The form without flags, maxima and places that are decided."""
        if self == Known(nonzero=self.nonzero):
            return form
        for _ in range(DEEP):  # what is made anew of simpler parts may be decided, too
            before, form = form, Rebuilt(form.field, self._changed(form.field)).form(form)
            if form == before:
                break
        return form

    def _changed(self, field: Field) -> Any:
        truths, values, leaves = dict(self.truths), dict(self.values), dict(self.leaves)

        def changed(element: Element) -> Form | None:
            data: Any = element.data
            if element.kind in UNKNOWN:
                return values.get(element)
            if element.kind == "flag":
                if data[0] not in COMPARED:
                    return field.constant(truths[data]) if data in truths else None
                signs = self.signs(data[1])
                wanted = PLUS if data[0] == "above" else ZERO
                if wanted not in signs:
                    return field.zero
                return field.one if signs == {wanted} else None
            if element.kind == "equals" and is_place(data[0]):
                _, row, j = data[0].name
                places = self.places(row)
                if j < len(places):
                    return field.constant(int(places[j] == data[1]))
                return field.zero if data[1] in places else None
            if element.kind == "equals" and data[0] in leaves:
                return field.constant(int(leaves[data[0]] == data[1]))
            if element.kind == "maximum":
                return self._lesser_ones_gone(data)
            return None

        return changed

    def _lesser_ones_gone(self, meets: Meets) -> Form | None:
        """A maximum of minima without what is known not to count; None where nothing is."""

        def at_least(a: Form, b: Form) -> bool:
            return self.signs(a - b) <= AT_LEAST

        least: list[frozenset[Form]] = []
        for meet in meets:
            kept_members = list(meet)
            for a in list(kept_members):
                if any(b is not a and at_least(a, b) for b in kept_members):
                    kept_members.remove(a)
            least.append(frozenset(kept_members))
        kept = list(dict.fromkeys(least))
        for meet in list(kept):
            others = [other for other in kept if other is not meet]
            if any(all(any(a == b or at_least(a, b) for b in meet) for a in other) for other in others):
                kept.remove(meet)
        if set(kept) == set(meets):
            return None
        return laws.most([reduce(laws.minimum, sorted(meet, key=lambda form: form.key)) for meet in kept])


def is_place(leaf: Any) -> bool:
    """Whether a leaf is a place in the order of a row."""
    return isinstance(leaf, Leaf) and leaf.is_made("order")


def _signs_alone(form: Form) -> Signs:
    if form.is_positive():
        return frozenset({PLUS})
    if (-form).is_positive():
        return frozenset({MINUS})
    if form.is_nonnegative():
        return frozenset({PLUS, ZERO})
    return frozenset({MINUS, ZERO}) if (-form).is_nonnegative() else ANY


def _signs_of_whole(form: Form) -> Signs:
    """The signs of a whole number, by what its places and integers may be."""
    if not is_whole(form):
        return ANY
    low, high = integer_bounds(form)
    if above(low) or above(-high):
        return frozenset({PLUS if above(low) else MINUS})
    ends = {PLUS: above(high), MINUS: above(-low)}
    return frozenset({ZERO, *(sign for sign, told in ends.items() if told is not False)})


def _ratios(form: Form, other: Form) -> list[Number]:
    """Numbers c such that form − c·other has fewer terms."""
    found: set[Number] = {Fraction(c) / Fraction(other.terms[m]) for m, c in form.terms.items() if m in other.terms}
    return sorted(found)[:4]


def _added(rest: Signs, sign: int, strict: bool) -> Signs:
    """The signs of a sum of something and what has a sign (or, if not strict, may be zero)."""
    if not rest:
        return frozenset()
    if all(s * sign >= 0 for s in rest):
        return frozenset({sign}) if strict or ZERO not in rest else frozenset({sign, ZERO})
    return ANY


def elements_of(form: Form, seen: set[int]) -> set[int]:
    """All elements of a form, however deep."""
    for monomial in form.terms:
        for number, _ in monomial:
            if number not in seen:
                seen.add(number)
                for part in parts_of(form.field, number):
                    elements_of(part, seen)
    return seen


def parts_of(field: Field, number: int) -> list[Form]:
    """The forms that an element is made of."""
    kind, data = field.elements[number][:2]
    content: Any = data
    if kind == "exp":
        return [Form(field, {content: 1})]
    if kind == "maximum":
        return [form for meet in content for form in meet]
    if kind == "equals":
        return list(content[0].name[1]) if is_place(content[0]) else []
    if kind in BOUND:
        return list(content[1:])
    if isinstance(content, Form):
        return [content]
    return [part for part in content if isinstance(part, Form)] if isinstance(content, tuple) else []
