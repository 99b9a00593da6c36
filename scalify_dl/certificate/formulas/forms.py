"""Real numbers as sums of products of atoms with rational exponents.

Atoms are unknowns, π, roots of primes, exp of a product, sums below a fraction line or a root, logarithms, greatest
ones, truths (p > 0), truths that an unknown integer has its n-th value (n > 0), truths of places (`permuted.py`) and
functions of which nothing is known but that equal arguments give equal values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from . import maxima
from .primes import factors

Product = tuple[tuple[int, Fraction], ...]
"""Atoms by number with their exponents, ascending."""
Sum = tuple[tuple[Product, Fraction], ...]
"""Products with coefficients, ascending: as a key."""

TRUTHS = ("truth", "chosen", "order", "placed")
"""Kinds of atoms that are 0 or 1."""
ONE = Fraction(1)
MOST, MOST_LOOKS = 4000, 1_000_000
"""Most terms of a sum; most products of which signs are looked at, about ten seconds."""


class Unknown(Exception):
    """There is no law for this."""


class Many(Unknown):
    """There is too much to follow each element."""


class Form:
    """A sum; `atoms` is the table of what its atoms are."""

    __slots__ = ("atoms", "terms")

    def __init__(self, atoms: Atoms, terms: dict[Product, Fraction]) -> None:
        self.atoms, self.terms = atoms, terms

    @property
    def key(self) -> Sum:
        return tuple(sorted(self.terms.items()))

    @property
    def value(self) -> Fraction | None:
        """The number that it is, if it is one."""
        return Fraction(0) if not self.terms else self.terms.get(()) if len(self.terms) == 1 else None

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for product, factor in other.terms.items():
            terms[product] = terms.get(product, Fraction(0)) + factor
        return self._of(terms)

    def __neg__(self) -> Form:
        return self.times(Fraction(-1))

    def __sub__(self, other: Form) -> Form:
        return self + -other

    def times(self, number: Fraction) -> Form:
        return self._of({product: factor * number for product, factor in self.terms.items()})

    def _of(self, terms: dict[Product, Fraction]) -> Form:
        if len(terms) > MOST:
            raise Unknown("a sum of many terms")
        return Form(self.atoms, {product: factor for product, factor in terms.items() if factor})

    def __mul__(self, other: Form) -> Form:
        terms: dict[Product, Fraction] = {}
        rest = self.atoms.number(0)
        if len(self.terms) * len(other.terms) > 10 * MOST:
            raise Unknown("a product of long sums")
        theirs = [(right, b, self.atoms.told(right)) for right, b in other.terms.items()]
        for left, a in self.terms.items():
            told = self.atoms.told(left)
            for right, b, more in theirs:
                if told and more and any(told.get(what, atom) != atom for what, atom in more.items()):
                    continue
                merged = dict(left)
                for atom, exponent in right:
                    merged[atom] = merged.get(atom, Fraction(0)) + exponent
                product, factor, out = self.atoms.reduced(merged)
                if out:
                    part = Form(self.atoms, {product: a * b * factor})
                    for form, times in out:
                        part = part * form.whole(times)
                    rest = rest + part
                else:
                    terms[product] = terms.get(product, Fraction(0)) + a * b * factor
        return self._of(terms) + rest

    def whole(self, exponent: int) -> Form:
        result = self.atoms.number(1)
        for _ in range(exponent):
            result = result * self
        return result

    def positive(self) -> bool:
        signs = [(factor, *self.atoms.signs(product)) for product, factor in self.terms.items()]
        return all(f > 0 and n for f, _, n in signs) and any(p for _, p, _ in signs)

    def nonnegative(self) -> bool:
        return all(factor > 0 and self.atoms.signs(product)[1] for product, factor in self.terms.items())

    # ---- what its terms have in common ----
    def parted(self, *, positive: bool) -> tuple[Fraction, Product, Form]:
        """A number, a product and a sum whose product it is. The number is above zero, and so is the product, if so
        asked."""
        if not self.terms:
            raise Unknown("a division by zero")
        shared = dict(next(iter(self.terms)))
        for product in self.terms:
            exponents = dict(product)
            shared = {a: min(e, exponents[a]) for a, e in shared.items() if a in exponents}
        lowest: dict[int, Fraction] = {}
        for product in self.terms:
            for atom, exponent in product:
                if exponent < 0:
                    lowest[atom] = min(lowest.get(atom, exponent), exponent)
        shared |= lowest  # what some term is divided by
        allowed = self.atoms.above if positive else self.atoms.divides
        kept = {a: e for a, e in shared.items() if e and allowed(a)}
        inverse = Form(self.atoms, {tuple(sorted((a, -e) for a, e in kept.items())): Fraction(1)})
        rest = self * inverse
        if not rest.terms:
            raise Unknown("a sum that is zero once it is multiplied out")
        factors = list(rest.terms.values())
        scale = Fraction(gcd(*(f.numerator for f in factors)), lcm(*(f.denominator for f in factors)))
        if not positive and rest.key[0][1] < 0:
            scale = -scale
        return scale, tuple(sorted(kept.items())), rest.times(1 / scale)


class Atoms:
    """The atoms of one comparison, and what steps need to be so."""

    def __init__(self) -> None:
        self.kinds: list[tuple[str, Any]] = []
        self.numbers: dict[tuple[str, Any], int] = {}
        self.needs: dict[tuple[str, Sum], Form] = {}
        self.settled: frozenset[Sum] = frozenset()
        """What is needed to be other than zero, while forms are compared: that it is so is looked up in the end."""
        self.choices: dict[Any, int] = {}
        """How many values unknown integers have."""
        self.looks, self.seen = 0, dict[tuple[frozenset[Sum], int], tuple[bool, bool]]()
        """How many signs of products were looked at, and what is known of those of atoms."""
        self.has_places = False
        """Whether there are rows in an order of which nothing is known."""

    def atom(self, kind: str, data: Any, exponent: Fraction | int = 1) -> Form:
        number = self.numbers.setdefault((kind, data), len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append((kind, data))
        return Form(self, {((number, Fraction(exponent)),): Fraction(1)})

    def number(self, value: Fraction | int) -> Form:
        return Form(self, {(): Fraction(value)} if value else {})

    def pi(self, exponent: Fraction) -> Form:
        """A power of π."""
        return self.atom("pi", (), exponent)

    def of(self, key: Sum) -> Form:
        return Form(self, dict(key))

    def reduced(self, merged: dict[int, Fraction]) -> tuple[Product, Fraction, list[tuple[Form, int]]]:
        """A product of atoms: a product, a number, and sums that are to be multiplied out."""
        factor, out, kept = Fraction(1), [], {}
        for atom, exponent in merged.items():
            kind, data = self.kinds[atom]
            if kind in TRUTHS and exponent:
                exponent = Fraction(1)
            elif kind in ("sum", "root") and (exponent >= 1 or (kind == "root" and exponent < 0)):
                whole = exponent.__floor__()
                exponent -= whole
                if kind == "root":
                    factor *= Fraction(data) ** whole
                else:
                    out.append((self.of(data), whole))
            if exponent:
                kept[atom] = exponent
        return tuple(sorted(kept.items())), factor, out

    def told(self, product: Product) -> dict[Any, int]:
        """Of what a product says one thing only, and by which atom: an integer has one value, an element is at one
        place, and no other is."""
        found: dict[Any, int] = {}
        for atom, _ in product:
            kind, data = self.kinds[atom]
            if kind == "chosen":
                found[data[0]] = atom
            elif kind == "placed":
                found |= {(data[0], n, data[n]): atom for n in (2, 3)}
        return found

    def above(self, atom: int) -> bool:
        """Whether it is above zero."""
        return self._sign(atom)[0]

    def _sign(self, atom: int) -> tuple[bool, bool]:
        """Whether it is above zero, and whether it is at least zero."""
        found = self.seen.get((self.settled, atom))
        if found is None:
            found = self.seen[self.settled, atom] = self._looked_at(*self.kinds[atom])
        return found

    def _looked_at(self, kind: str, data: Any) -> tuple[bool, bool]:
        if kind == "log":
            return (self.of(data).value or 0) > 1, False
        if kind not in ("sum", "most"):
            return kind in ("exp", "root", "pi"), kind in TRUTHS
        forms = [self.of(key) for key in ([data] if kind == "sum" else data)]
        least = any(form.nonnegative() for form in forms)
        return any(form.positive() for form in forms) or (least and kind == "sum" and data in self.settled), least

    def signs(self, product: Product) -> tuple[bool, bool]:
        """Whether a product is above zero, and whether it is at least zero."""
        self.looks += 1
        if self.looks > MOST_LOOKS:
            raise Unknown(f"signs of more than {MOST_LOOKS:,} products")
        above = at_least = True
        for atom, exponent in product:
            positive, least = self._sign(atom)
            if positive:
                continue
            above = False
            least = least or (self.kinds[atom][0] == "sum" and exponent.denominator % 2 == 0)
            at_least = at_least and (least or (exponent.denominator == 1 and exponent % 2 == 0))
        return above, at_least

    def divides(self, atom: int) -> bool:
        """Whether it may stand below a fraction line by itself: truths may be zero."""
        return self.kinds[atom][0] not in TRUTHS

    def need(self, what: str, form: Form) -> None:
        """Something must be so for a step to be right."""
        if self._holds(what, form):
            return
        if form.value is not None:
            raise Unknown(f"a number that is not {what}")
        rest = form.parted(positive=True)[2]  # (first: what it asks may put another table there)
        if not self._holds(what, rest):  # what it is times is above zero
            self.needs[what, rest.key] = form

    def _holds(self, what: str, form: Form) -> bool:
        return {"nonnegative": form.nonnegative(), "nonzero": (-form).positive()}.get(what, False) or form.positive()

    def power(self, form: Form, exponent: Fraction) -> Form:
        """A power with a rational exponent."""
        if abs(exponent) > 64:
            raise Unknown("a high power")
        if exponent.denominator == 1 and exponent >= 0:
            return form.whole(int(exponent))
        if exponent < 0:
            self.need("nonzero", form)
        whole = exponent.denominator == 1
        if not whole:
            self.need("nonnegative", form)
        scale, shared, rest = form.parted(positive=not whole)
        result = self.constant_power(scale, exponent)
        for atom, inner in shared:
            result = result * Form(self, {((atom, inner * exponent),): Fraction(1)})
        if rest.value == 1:
            return result
        if rest.value is not None:
            return result * self.constant_power(rest.value, exponent)
        ((product, factor), *others) = rest.terms.items()
        if whole and not others and factor == 1 and all(self.divides(atom) for atom, _ in product):
            return result * Form(self, {tuple((a, e * exponent) for a, e in product): Fraction(1)})
        return result * self.atom("sum", rest.key, exponent)

    def constant_power(self, value: Fraction, exponent: Fraction) -> Form:
        if exponent.denominator == 1:
            return self.number(value ** int(exponent))
        if value < 0:
            raise Unknown("a root of what is below zero")
        result = self.number(1)
        for part, sign in ((value.numerator, 1), (value.denominator, -1)):
            for prime, count in factors(part):
                total = exponent * count * sign
                whole = total.__floor__()
                result = result.times(Fraction(prime) ** whole)
                if total != whole:
                    result = result * self.atom("root", prime, total - whole)
        return result

    def exponential(self, form: Form) -> Form:
        """exp of a sum is a product; exp of a logarithm undoes it."""
        result = self.number(1)
        for product, factor in form.terms.items():
            kind, data = self.kinds[product[0][0]] if len(product) == 1 and product[0][1] == 1 else ("", ())
            if kind == "log":
                result = result * self.power(self.of(data), factor)
            else:
                result = result * self.atom("exp", product, factor)
        return result

    def logarithm(self, form: Form) -> Form:
        self.need("positive", form)
        scale, shared, rest = form.parted(positive=True)
        result = self.number(0)
        for part, sign in ((scale.numerator, 1), (scale.denominator, -1)):
            for prime, count in factors(part):
                result = result + self.atom("log", self.number(prime).key).times(Fraction(count * sign))
        for atom, exponent in shared:
            kind, data = self.kinds[atom]
            if kind == "exp":
                result = result + Form(self, {data: exponent})
            elif kind == "sum":
                result = result + self.logarithm(self.of(data)).times(exponent)
            else:
                alone = Form(self, {((atom, Fraction(1)),): Fraction(1)})
                result = result + self.atom("log", alone.key).times(exponent)
        return result if rest.value == 1 else result + self.atom("log", rest.key)

    def most(self, forms: list[Form]) -> Form:
        """The greatest of some."""
        members: dict[Sum, Form] = {}
        for form in forms:
            for member in maxima.members(self, form):
                members[member.key] = member
        constants = [m for m in members.values() if m.value is not None]
        if len(constants) > 1:
            top = max(constants, key=lambda m: m.value or 0)
            members = {k: m for k, m in members.items() if m.value is None or m is top}
        found = list(members.values())
        if len(found) == 1:
            return found[0]
        shared = dict(set.intersection(*({*form.terms.items()} for form in found)))
        common = Form(self, shared)
        rest = [form - common for form in found]
        if all(maxima.grows(self, form) for form in rest):  # exp of the greatest
            return common + self.exponential(self.most([self.logarithm(form) for form in rest]))
        outside = maxima.shared(self, rest)
        if outside:
            inverse = Form(self, {tuple((atom, -exponent) for atom, exponent in outside): Fraction(1)})
            return common + Form(self, {outside: Fraction(1)}) * self.most([form * inverse for form in rest])
        coefficients = [f for form in rest for f in form.terms.values()]
        scale = Fraction(gcd(*(f.numerator for f in coefficients)), lcm(*(f.denominator for f in coefficients)))
        keys = frozenset(form.times(1 / scale).key for form in rest)
        return common + self.atom("most", keys).times(scale)

    def above_zero(self, form: Form) -> Form:
        """1 where it is above zero, else 0."""
        if form.value is not None:
            return self.number(int(form.value > 0))
        if form.positive():
            return self.number(1)
        if (-form).nonnegative():
            return self.number(0)
        return self.atom("truth", self.compared(form).key)

    def compared(self, form: Form) -> Form:
        """What is above, at and below zero where it is."""
        rest = form.parted(positive=True)[2]
        if len(rest.terms) == 2:
            (left, a), (right, b) = rest.terms.items()
            sides = [Form(self, {p: abs(f)}) for p, f in ((left, a), (right, b))]
            exps = all(self.kinds[atom][0] in ("exp", "root") for p in (left, right) for atom, _ in p)
            if exps and (a > 0) != (b > 0):
                first, second = (self.logarithm(side) for side in sides)
                return (first - second if a > 0 else second - first).parted(positive=True)[2]
        return rest

    def function(self, name: str, *arguments: Any) -> Form:
        """A function of which nothing is known."""
        return self.atom("function", (name, *(a.key if isinstance(a, Form) else a for a in arguments)))

    # ---- forms in which some atoms are something else ----
    def rebuilt(self, form: Form, changed: Callable[[str, Any], Form | None]) -> Form:
        known: dict[int, Form] = {}

        def new(atom: int) -> Form:
            if atom not in known:
                kind, data = self.kinds[atom]
                found = changed(kind, data)
                known[atom] = found if found is not None else remade(kind, data)
            return known[atom]

        def remade(kind: str, data: Any) -> Form:
            if kind == "exp":
                return self.exponential(whole(Form(self, {data: Fraction(1)})))
            if kind in ("sum", "log"):
                inner = whole(self.of(data))
                return inner if kind == "sum" else self.logarithm(inner)
            if kind == "most":
                return self.most([whole(self.of(key)) for key in data])
            if kind == "truth":
                return self.above_zero(whole(self.of(data)))
            if kind == "function":
                name, *parts = data
                return self.function(name, *(whole(self.of(p)) if isinstance(p, tuple) else p for p in parts))
            return self.atom(kind, data)

        def whole(form: Form) -> Form:
            terms: dict[Product, Fraction] = {}
            result = self.number(0)
            for product, factor in form.terms.items():
                put = [(new(atom), atom, exponent) for atom, exponent in product]
                if any(not found.terms and exponent > 0 for found, _, exponent in put):
                    continue
                same = tuple((atom, e) for found, atom, e in put if found.terms == {((atom, ONE),): ONE})
                if len(same) == len(put):
                    terms[product] = terms.get(product, Fraction(0)) + factor
                    continue
                part = Form(self, {same: factor})
                for found, atom, exponent in put:
                    if (atom, exponent) not in same:
                        part = part * self.power(found, exponent)
                result = result + part
            return result + Form(self, terms)

        return whole(form)

    def inside(self, form: Form, seen: set[int]) -> Iterator[tuple[str, Any]]:
        for product in form.terms:
            for atom, _ in product:
                if atom in seen:
                    continue
                seen.add(atom)
                kind, data = self.kinds[atom]
                parts: list[Form] = []
                if kind == "exp":
                    parts = [Form(self, {data: Fraction(1)})]
                elif kind in ("sum", "log", "truth"):
                    parts = [self.of(data)]
                elif kind == "most":
                    parts = [self.of(key) for key in sorted(data)]
                elif kind == "function":
                    parts = [self.of(part) for part in data[1:] if isinstance(part, tuple)]
                for part in parts:
                    yield from self.inside(part, seen)
                yield kind, data
