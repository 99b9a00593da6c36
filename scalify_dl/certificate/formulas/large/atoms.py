"""Atoms with variables: sums and maxima over variables, elements at places, places as numbers, comparisons of places.

A variable of a sum or maximum is named by how deeply sums and maxima are nested in what it stands in: so none has the
name of one in whose range it stands, and what differs by names alone is one atom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import groupby, permutations, product
from math import factorial, prod
from typing import Any

from ..forms import TRUTHS, Atoms, Form, Product, Unknown
from .places import BOUND, OTHER, Place, Variable, alone, reduced, within

MOST_NAMES = 720
"""In how many ways the variables of a sum are named, to find the one that it is kept by."""
MOST_PARTS = 100_000
"""In so many products places are put, in all."""
Values = Mapping[Variable, Place]
Member = tuple[tuple[Variable, ...], Any, Any]
"""Of a maximum: variables, a truth that is 1 where it is one of them, and what it is, for all values of the
variables."""


class Spread(Atoms):
    """The atoms of one comparison of large programs."""

    def __init__(self) -> None:
        super().__init__()
        self._variables: dict[int, frozenset[Variable]] = {}
        self._depths: dict[int, int] = {}
        self._known: dict[Any, Form] = {}
        self.left = MOST_PARTS

    # ---- what atoms are made of ----
    def _inner(self, kind: str, data: Any) -> Iterator[Form]:
        """The forms that an atom is made of."""
        if kind == "exp":
            yield Form(self, {data: Fraction(1)})
        elif kind == "total":
            yield Form(self, {data[1]: Fraction(1)})
        elif kind in ("sum", "log", "truth"):
            yield self.of(data)
        elif kind == "most":
            yield from (self.of(key) for key in data)
        elif kind == "peak":
            yield from (self.of(key) for member in data for key in member[1:])
        elif kind == "function":
            yield from (self.of(part) for part in data[1:] if isinstance(part, tuple))

    @staticmethod
    def _own(kind: str, data: Any) -> list[Variable]:
        """The variables of a sum or maximum."""
        return [*data[0]] if kind == "total" else [v for m in data for v in m[0]] if kind == "peak" else []

    def variables_of(self, atom: int) -> frozenset[Variable]:
        """The variables that stand in an atom, other than those of its own sums and maxima."""
        if atom not in self._variables:
            kind, data = self.kinds[atom]
            found: set[Variable] = set()
            if kind == "input":
                found = {v for place in data[1] for v in place.variables}
            elif kind in ("order", "position"):
                found = {*data.variables}
            else:
                own = self._own(kind, data)
                found = {v for form in self._inner(kind, data) for v in self.variables(form)} - {*own}
            self._variables[atom] = frozenset(found)
        return self._variables[atom]

    def variables(self, form: Form) -> frozenset[Variable]:
        """The variables that stand in a form."""
        return frozenset(v for part in form.terms for atom, _ in part for v in self.variables_of(atom))

    def depth(self, form: Form) -> int:
        """How deeply sums and maxima are nested in a form."""
        return max((self._depth(atom) for part in form.terms for atom, _ in part), default=0)

    def _depth(self, atom: int) -> int:
        if atom not in self._depths:
            kind, data = self.kinds[atom]
            inner = max(map(self.depth, self._inner(kind, data)), default=0)
            self._depths[atom] = max([inner, *(v[1] for v in self._own(kind, data))])
        return self._depths[atom]

    # ---- new kinds ----
    def element(self, tensor: str, places: tuple[Place, ...]) -> Form:
        """An element of an unknown tensor."""
        return self.atom("input", (tensor, places))

    def at_least_zero(self, place: Place) -> Form:
        """1 where a place is at least zero, else 0."""
        if place.least >= 0:
            return self.number(1)
        if place.most < 0:
            return self.number(0)
        if place.terms[0][1] < 0:
            return self.number(1) - self.at_least_zero(Place(-1).plus(place, -1))
        return self.atom("order", reduced(place))

    def position(self, place: Place) -> Form:
        """A place as a real number."""
        total = self.number(place.start)
        for v, factor in place.terms:
            total = total + self.atom("position", alone(v)).times(Fraction(factor))
        return total

    def reduced(self, merged: dict[int, Fraction]) -> tuple[Product, Fraction, list[tuple[Form, int]]]:
        """Of two places that differ by a number, both are at least zero where the less is."""
        least: dict[Any, int] = {}
        for atom in [a for a, exponent in merged.items() if exponent and self.kinds[a][0] == "order"]:
            place = self.kinds[atom][1]
            other = least.setdefault(place.terms, atom)
            if other != atom:
                more, less = sorted((atom, other), key=lambda a: -self.kinds[a][1].start)
                least[place.terms] = less
                merged = {a: e for a, e in merged.items() if a != more}
        return super().reduced(merged)

    # ---- sums over variables ----
    def total(self, form: Form, over: Iterable[Variable]) -> Form:
        """The sum of a form over variables."""
        result, over = self.number(0), tuple(over)
        for part, factor in form.terms.items():
            result = result + self._summed(part, over).times(factor)
        return result

    def _summed(self, part: Product, over: tuple[Variable, ...]) -> Form:
        for n, (atom, exponent) in enumerate(part):
            kind, data = self.kinds[atom]
            if kind != "total" or exponent.denominator != 1 or not 1 <= exponent <= 4:
                continue
            if self.variables_of(atom).isdisjoint(over):
                continue
            opened, rest = Form(self, {part[:n] + part[n + 1 :]: Fraction(1)}), list(over)
            for _ in range(int(exponent)):  # a sum within a sum is one over all variables
                used = {*rest} | self.variables(opened) | self.variables_of(atom)
                names, inner = self._opened(data[0], data[1], used)
                opened, rest = opened * inner, rest + names
            return self.total(opened, rest)
        result = self.number(1)
        left = {*part}
        groups: list[tuple[set[Variable], list[tuple[int, Fraction]]]] = []
        for item in part:
            own = {*self.variables_of(item[0])} & {*over}
            if own:
                left.remove(item)
                joined = [group for group in groups if group[0] & own]
                groups = [group for group in groups if not group[0] & own]
                merged = (own.union(*(g[0] for g in joined)), [item] + [i for g in joined for i in g[1]])
                groups.append(merged)
        result = Form(self, {tuple(sorted(left)): Fraction(1)})
        seen = {v for names, _ in groups for v in names}
        result = result.times(Fraction(prod(v[3] for v in over if v not in seen)))
        for group, items in groups:
            result = result * self._closed(group, tuple(sorted(items)))
        return result

    def _opened(
        self, names: tuple[Variable, ...], part: Product, used: Iterable[Variable]
    ) -> tuple[list[Variable], Form]:
        """What a sum adds up, with variables that are used nowhere."""
        first = 1 + max((v[1] for v in used if v[0] == OTHER), default=0)
        new = [(OTHER, first + n, 0, v[3]) for n, v in enumerate(names)]
        inner = Form(self, {part: Fraction(1)})
        return new, self.put(inner, {v: alone(w) for v, w in zip(names, new, strict=True)})

    def _closed(self, names: set[Variable], part: Product) -> Form:
        """The sum of a product, all of whose factors hang together by these variables."""
        body = Form(self, {part: Fraction(1)})
        found, depth = [], self.depth(body)
        for new, values in self._namings(names, depth):
            named = self.put(body, values)
            if len(named.terms) == 1 and self.depth(named) <= depth:
                ((renamed, factor),) = named.terms.items()
                if factor == 1:
                    found.append((renamed, new))
        if not found:
            raise Unknown("a sum whose variables have no names")
        renamed, new = min(found)
        return self.atom("total", (new, renamed))

    @staticmethod
    def _namings(names: Iterable[Variable], depth: int) -> Iterator[tuple[tuple[Variable, ...], dict[Variable, Place]]]:
        """All ways to name variables: those of one size in any order."""
        groups = [[*group] for _, group in groupby(sorted(names, key=lambda v: v[3]), key=lambda v: v[3])]
        if prod(factorial(len(group)) for group in groups) > MOST_NAMES:
            raise Unknown("a sum over many variables")
        for order in product(*(permutations(group) for group in groups)):
            old = [v for group in order for v in group]
            new = tuple((BOUND, depth + 1, n, v[3]) for n, v in enumerate(old))
            yield new, {v: alone(w) for v, w in zip(old, new, strict=True)}

    # ---- maxima over variables ----
    def peak(self, members: Iterable[tuple[Iterable[Variable], Form, Form]]) -> Form:
        """The greatest of what is shown; of something that is sure to be shown."""
        found: set[Member] = set()
        for names, shown, value in members:
            if shown.terms:
                found.add(self._member(names, shown, value))
        if not any(self.is_shown(names, self.of(shown)) for names, shown, _ in found):
            raise Unknown("a maximum of what may be nothing")
        if all(not names and shown == self.number(1).key for names, shown, _ in found):
            return self.most([self.of(value) for _, _, value in found])
        return self.atom("peak", frozenset(found))

    def members(self, form: Form) -> list[tuple[tuple[Variable, ...], Form, Form]]:
        """Those of a maximum, or what is the only one; their variables are used nowhere else."""
        if len(form.terms) == 1:
            (((*items,), factor),) = form.terms.items()
            if factor == 1 and len(items) == 1 and items[0][1] == 1 and self.kinds[items[0][0]][0] == "peak":
                return [(names, self.of(s), self.of(v)) for names, s, v in self.kinds[items[0][0]][1]]
        return [((), self.number(1), form)]

    def _member(self, names: Iterable[Variable], shown: Form, value: Form) -> Member:
        within_it = self.variables(shown) | self.variables(value)
        depth = max(self.depth(shown), self.depth(value))
        found = []
        for new, values in self._namings([v for v in names if v in within_it], depth):
            named = self.put(shown, values), self.put(value, values)
            if max(map(self.depth, named)) <= depth:
                found.append((new, named[0].key, named[1].key))
        if not found:
            raise Unknown("a maximum whose variables have no names")
        return min(found)

    def is_shown(self, names: Iterable[Variable], shown: Form) -> bool:
        """Whether a truth is 1 for some values of variables, whatever the others are."""
        return any(found.value == 1 for found in self._tried(shown, tuple(names), 2))

    def _tried(self, form: Form, names: tuple[Variable, ...], depth: int) -> Iterator[Form]:
        """A form with some values in the place of variables."""
        yield form
        for v in names if depth else ():
            if v not in self.variables(form):
                continue
            ends = [Place(0), Place(v[3] - 1)]
            others = [alone(w) for w in self.variables(form) if w != v and w[3] <= v[3]]
            for place in (*ends, *others):
                yield from self._tried(self.put(form, {v: place}), tuple(w for w in names if w != v), depth - 1)

    # ---- signs ----
    def above(self, atom: int) -> bool:
        kind, data = self.kinds[atom]
        if kind == "total":
            flags = [(a, e) for a, e in data[1] if self.kinds[a][0] in TRUTHS]
            rest = tuple(item for item in data[1] if item not in flags)
            shown = Form(self, {tuple(flags): Fraction(1)})
            return self.signs(rest)[0] and self.is_shown(data[0], shown)
        if kind == "peak":
            return any(
                self.of(value).positive() and self.is_shown(names, self.of(shown)) for names, shown, value in data
            )
        return super().above(atom)

    def signs(self, part: Product) -> tuple[bool, bool]:
        above = at_least = True
        for atom, exponent in part:
            kind, data = self.kinds[atom]
            if kind == "total":
                found = self.above(atom), self.above(atom) or self.signs(data[1])[1]
                found = found[0], found[1] or (exponent.denominator == 1 and exponent % 2 == 0)
            else:
                found = super().signs(((atom, exponent),))
            above, at_least = above and found[0], at_least and found[1]
        return above, at_least

    # ---- other places in the place of variables ----
    def put(self, form: Form, values: Values) -> Form:
        """A form where some variables are other places, each within what the variable may be: what was needed for all
        values is so for these."""
        values = {v: within(v, place) for v, place in values.items() if place != alone(v)}
        if not values or self.variables(form).isdisjoint(values):
            return form
        needs = dict(self.needs)
        try:
            return self._put(form, values)
        finally:
            self.needs = needs

    def _put(self, form: Form, values: Values) -> Form:
        self.left -= len(form.terms)
        if self.left < 0:
            raise Unknown("formulas of many parts")
        result = self.number(0)
        for part, factor in form.terms.items():
            made, same = self.number(factor), []
            for atom, exponent in part:
                if self.variables_of(atom).isdisjoint(values):
                    same.append((atom, exponent))
                else:
                    made = made * self.power(self._atom(atom, values), exponent)
            result = result + made * Form(self, {tuple(same): Fraction(1)})
        return result

    def _atom(self, atom: int, values: Values) -> Form:
        own = {v: place for v, place in values.items() if v in self.variables_of(atom)}
        key = atom, tuple(sorted(own.items()))
        if key not in self._known:
            self._known[key] = self._other(*self.kinds[atom], own)
        return self._known[key]

    def _other(self, kind: str, data: Any, values: Values) -> Form:
        def one(part: Product) -> Form:
            return self._put(Form(self, {part: Fraction(1)}), values)

        if kind == "input":
            return self.element(data[0], tuple(place.put(values) for place in data[1]))
        if kind == "order":
            return self.at_least_zero(data.put(values))
        if kind == "position":
            return self.position(data.put(values))
        if kind == "exp":
            return self.exponential(one(data))
        if kind == "sum":
            return self._put(self.of(data), values)
        if kind == "log":
            return self.logarithm(self._put(self.of(data), values))
        if kind == "truth":
            return self.above_zero(self._put(self.of(data), values))
        if kind == "most":
            return self.most([self._put(self.of(key), values) for key in data])
        if kind == "function":
            name, *parts = data
            return self.function(name, *(self._put(self.of(p), values) if isinstance(p, tuple) else p for p in parts))
        if kind == "total":
            used = {v for place in values.values() for v in place.variables} | {*values}
            names, inner = self._opened(data[0], data[1], used | self.variables(Form(self, {data[1]: Fraction(1)})))
            return self.total(self._put(inner, values), names)
        if kind == "peak":
            made = []
            for names, shown, value in data:
                used = {v for place in values.values() for v in place.variables} | {*values}
                used |= self.variables(self.of(shown)) | self.variables(self.of(value))
                first = 1 + max((v[1] for v in used if v[0] == OTHER), default=0)
                new = [(OTHER, first + n, 0, v[3]) for n, v in enumerate(names)]
                renamed = {v: alone(w) for v, w in zip(names, new, strict=True)}
                one_of = [self._put(self.put(self.of(key), renamed), values) for key in (shown, value)]
                made.append((new, one_of[0], one_of[1]))
            return self.peak(made)
        raise Unknown(f"variables in {kind}")
