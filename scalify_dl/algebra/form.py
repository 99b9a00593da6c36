"""Normal forms of real expressions: sums of monomials over a table of basis elements, which laws keep canonical.

A `Form` is Σ c·Π bᵉ with exact coefficients c and rational exponents e. Basis elements are inputs, exp(monomial),
powers of sums, logarithms, indicators (0 or 1), maxima, and functions that no law knows. Two expressions whose forms
are one are equal wherever both are defined and what `Field.needs` collects is so.

Sources of the laws: arithmetic of a commutative ring; exp and log as homomorphisms; max and min as a distributive
lattice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any, NamedTuple

from .constants import constant_sign
from .effort import EFFORT, PRODUCT, STEP

Number = int | Fraction
Monomial = tuple[tuple[int, Number], ...]
"""Basis elements with exponents, ascending, none of them 0."""

MOST_FACTORS = 64
"""Most times that a form is multiplied by itself."""
LOOKED_AT = 0.005
"""Seconds of steps after which it is looked whether there is time left."""


class Undecided(Exception):
    """The algebra has no law for this, or a limit was reached; the message says which."""


class Element(NamedTuple):
    """A basis element: what kind it is, what it is made of, whether it is known to be above zero, or at least zero."""

    kind: str
    data: Hashable
    positive: bool = False
    nonnegative: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """Something that must be so for a step to be an equality: a form is nonzero, positive, nonnegative or finite;
    a flag that says that a value is shown, not masked, is 1."""

    what: str
    form: Form


class Field:
    """The basis elements of one comparison, each with a number; limits; and what its steps need to be true."""

    def __init__(self, most_terms: int = 3000, deadline: float = float("inf")) -> None:
        self.elements: list[Element] = []
        self.numbers: dict[tuple[str, Hashable], int] = {}
        self.most_terms = most_terms
        self.needs: dict[Need, None] = {}
        self.rooted: set[Form] | None = set()
        """What roots were taken of (`roots.py`); None while nothing is noted."""
        self.deadline = deadline
        self.huge: set[int] | None = None
        """Elements that are greater than all others; None where large numbers are what they are."""
        self.products: Mapping[Fraction, tuple[tuple[Fraction, Fraction], ...]] = {}
        """Constants that are taken for what they are rounded from (`rounded.py`)."""
        self.leaves_out = False
        """Whether a choice beyond a threshold is taken for what rounding makes of it (`thresholds.py`)."""
        self.steps = 0.0
        """What was spent since the deadline was looked at."""
        self.late = False
        """Whether it had passed then."""
        self.variables: dict[int, frozenset[Any]] = {}
        """The index variables of elements, as far as they are known (`variables.py`)."""
        self.levels: dict[int, int] = {}
        """How deep sums stand in one another in elements (`sums.py`)."""
        self.made = 0
        """How often variables were made."""
        self.nowhere_below_zero: Callable[[Form], bool] = lambda _: False
        """Whether a form of positions is known to be so by who knows how far they go, where sizes are symbols."""
        self.bounds: dict[int, None] = {}
        """What is less than integer types hold, or wraps round: sizes that are symbols (`formulas.py`)."""
        self.leaves: dict[int, int] = {}
        """The integers that indicators are of, by their number: what an integer is made of may be long."""
        self.of_leaf: dict[Hashable, int] = {}
        self.cases: dict[Hashable, Any] = {}
        """Combinations of integers of few values, with their indicators (`finite.py`)."""
        self.zero = Form(self, {})
        self.one = Form(self, {(): 1})

    def element(self, kind: str, data: Hashable, *, positive: bool = False, nonnegative: bool = False) -> int:
        """The number of a basis element; a new one where it has not been seen."""
        number = self.numbers.get((kind, data))
        if number is None:
            number = self.numbers[kind, data] = len(self.elements)
            self.elements.append(Element(kind, data, positive, positive or nonnegative))
            if kind == "equals":
                leaf = data[0]  # type: ignore[index]
                self.leaves[number] = self.of_leaf.setdefault(leaf, len(self.of_leaf))
        return number

    def tick(self, products: int = 0) -> None:
        """Undecided once what the process spends on formulas has reached the deadline, and at every step from then on;
        to be called often, and for products of terms."""
        self.steps += STEP + products * PRODUCT
        if self.late or self.steps > LOOKED_AT:
            EFFORT.count(self.steps)
            self.steps = 0.0
            self.late = EFFORT.now() > self.deadline
            if self.late:
                raise Undecided("the algebra ran out of time")

    def of(self, number: int, exponent: Number = 1) -> Form:
        """A power of a basis element."""
        if exponent.denominator == 1:
            exponent = int(exponent)
        return Form(self, {((number, exponent),): 1})

    def integers(self, monomial: Monomial) -> dict[int, int]:
        """The integers that a monomial has indicators of, each with its indicator."""
        leaves = self.leaves
        return {leaves[number]: number for number, _ in monomial if number in leaves} if leaves else {}

    def constant(self, value: Number) -> Form:
        """A number."""
        return Form(self, {(): value} if value else {})

    def need(self, what: str, form: Form) -> None:
        """Notes that a step is right only where this is so, if it is not known."""
        known = {
            "shown": form.is_positive,
            "nonzero": form.is_nonzero,
            "positive": form.is_positive,
            "nonnegative": form.is_nonnegative,
        }
        if what in known and known[what]():
            return
        if self.huge and what in known:  # imported where there are masks
            from .positive import above_zero

            rows = (form, -form) if what == "nonzero" else (form,)
            if any(Need("shown", row) in self.needs or above_zero(row) for row in rows):
                return
        value = form.value
        if value is not None and what not in ("absorbed", "masked", "order", "rounded", "threshold", "zeros"):
            raise Undecided(f"{value} is not {what}")
        self.needs[Need(what, form)] = None
        if what == "nonnegative" and self.rooted is not None:
            self.rooted.add(form.content(positive=True)[2])


def join(field: Field, left: Monomial, right: Monomial) -> tuple[Number, Monomial, list[tuple[int, int]]]:
    """The product of two monomials: a factor, a monomial, and powers of sums that are to be multiplied out."""
    if not left or not right:
        return 1, left or right, []
    merged = dict(left)
    both = []
    for number, exponent in right:
        if number in merged:
            merged[number] += exponent
            both.append(number)
        else:
            merged[number] = exponent
    factor: Number = 1
    out: list[tuple[int, int]] = []
    for number in both:
        exponent = merged[number]
        kind, data = field.elements[number][:2]
        if exponent == 0:
            del merged[number]
        elif kind in ("flag", "equals"):
            merged[number] = 1
        elif kind == "root" and not 0 < exponent < 1:
            whole = exponent.__floor__()
            factor *= Fraction(data) ** whole  # type: ignore[call-overload]
            merged[number] = exponent - whole
            if not merged[number]:
                del merged[number]
        elif kind == "power" and exponent >= 1:
            whole = exponent.__floor__()
            out.append((number, whole))
            merged[number] = exponent - whole
            if not merged[number]:
                del merged[number]
        elif exponent >= 2 and _has_square(kind, data):
            whole = 2 * (exponent // 2).__floor__()
            out.append((number, whole))
            merged[number] = exponent - whole
            if not merged[number]:
                del merged[number]
    return factor, tuple(sorted(merged.items())), out


def _has_square(kind: str, data: Hashable) -> bool:
    """Whether the square of an element is something simpler: of |x|, and of sines."""
    if kind == "function":
        return data[0] == "sine"  # type: ignore[index, no-any-return]
    return kind == "maximum" and in_absolute(data) is not None


def in_absolute(meets: Hashable) -> Form | None:
    """x where the sets of a maximum are those of max(x, −x)."""
    sets: list[frozenset[Form]] = list(meets)  # type: ignore[call-overload]
    if len(sets) == 2 and all(len(meet) == 1 for meet in sets):
        (left,), (right,) = sets
        if left == -right:
            return left
    return None


class Form:
    """A sum of monomials with coefficients, none of them 0. Immutable; equal forms have equal keys."""

    __slots__ = ("_hash", "_key", "field", "terms")

    def __init__(self, field: Field, terms: dict[Monomial, Number]) -> None:
        self.field = field
        self.terms = terms
        self._key: tuple[tuple[Monomial, Number], ...] | None = None
        self._hash: int | None = None

    @property
    def key(self) -> tuple[tuple[Monomial, Number], ...]:
        """The terms in order."""
        if self._key is None:
            self._key = tuple(sorted(self.terms.items()))
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.key)
        return self._hash

    def __bool__(self) -> bool:
        raise Undecided("a value that depends on inputs decides what is computed")

    def __int__(self) -> int:
        raise Undecided("a value that depends on inputs decides what is computed")

    @property
    def value(self) -> Number | None:
        """The number that a constant form is; None for others."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    def __add__(self, other: Form) -> Form:
        if not isinstance(other, Form):
            return NotImplemented
        big, small = (self, other) if len(self.terms) >= len(other.terms) else (other, self)
        if not small.terms:
            return big
        terms = dict(big.terms)
        for monomial, coefficient in small.terms.items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return self._limited(terms)

    def __neg__(self) -> Form:
        return self.scaled(-1)

    def __sub__(self, other: Form) -> Form:
        return self + -other

    def scaled(self, factor: Number) -> Form:
        """The form times a number."""
        if factor == 1:
            return self
        return Form(self.field, {m: c * factor for m, c in self.terms.items()} if factor else {})

    def __mul__(self, other: Form) -> Form:
        if not isinstance(other, Form):
            return NotImplemented
        value = other.value
        if value is not None:
            return self.scaled(value)
        value = self.value
        if value is not None:
            return other.scaled(value)
        terms: dict[Monomial, Number] = {}
        rest = self.field.zero
        if len(self.terms) * len(other.terms) > 8 * self.field.most_terms:
            raise Undecided(f"a product has more than {8 * self.field.most_terms:,} terms")
        field = self.field
        field.tick(len(self.terms) * len(other.terms))
        theirs = [(right, b, field.integers(right)) for right, b in other.terms.items()]
        for left, a in self.terms.items():
            known = field.integers(left)
            for right, b, said in theirs:
                if known and said and any(known.get(leaf, number) != number for leaf, number in said.items()):
                    continue  # an integer has one value
                factor, monomial, out = join(field, left, right)
                if out:
                    product = Form(self.field, {monomial: a * b * factor})
                    for number, exponent in out:
                        product = product * self.field_power(number, exponent)
                    rest = rest + product
                else:
                    total = terms.get(monomial, 0) + a * b * factor
                    if total:
                        terms[monomial] = total
                    else:
                        del terms[monomial]
        return self._limited(terms) + rest

    def field_power(self, number: int, exponent: int) -> Form:
        """A whole power of the sum that a `power` element is made of, or an even one of |x| or a sine."""
        kind, data = self.field.elements[number][:2]
        if kind == "function":  # sin² = 1 − cos²
            cosine = self.field.of(self.field.element("function", ("cosine", data[1])))  # type: ignore[index]
            return (self.field.one - cosine * cosine).whole_power(exponent // 2)
        base = in_absolute(data) if kind == "maximum" else data
        assert isinstance(base, Form)
        return base.whole_power(exponent)

    def whole_power(self, exponent: int) -> Form:
        """The form multiplied by itself."""
        result = self.field.one
        if exponent > MOST_FACTORS:
            raise Undecided(f"a power of {exponent:,}")
        for _ in range(exponent):
            result = result * self
        return result

    def _limited(self, terms: dict[Monomial, Number]) -> Form:
        if len(terms) > self.field.most_terms:
            raise Undecided(f"a sum has more than {self.field.most_terms:,} terms")
        return Form(self.field, terms)

    def _signs(self) -> Iterable[tuple[Number, bool, bool]]:
        """Of each term its coefficient, and whether the rest is above, or at least, zero."""
        for monomial, coefficient in self.terms.items():
            factors = [self._factor_sign(number, exponent) for number, exponent in monomial]
            yield coefficient, all(p for p, _ in factors), all(n for _, n in factors)

    def _factor_sign(self, number: int, exponent: Number) -> tuple[bool, bool]:
        element = self.field.elements[number]
        if element.positive:
            return True, True
        even = exponent % 2 == 0 or Fraction(exponent).denominator % 2 == 0
        return exponent < 0 and even, element.nonnegative or even

    def outweighed(self) -> int:
        """The sign (1 or −1) of a form in which one huge number decides, else 0."""
        huge = self.field.huge
        if not huge:
            return 0
        found = [m for m in self.terms if any(number in huge for number, _ in m)]
        if len(found) != 1 or len(found[0]) != 1 or found[0][0][1] != 1:
            return 0
        if not self._beside(found[0]):
            return 0
        return 1 if self.terms[found[0]] > 0 else -1

    def _beside(self, huge: Monomial) -> bool:
        """Whether what stands beside a huge number has none in it, except as exp of minus it."""
        return all(
            not self._holds_huge(number) or (exponent < 0 and self._is_size(number))
            for monomial in self.terms
            if monomial != huge
            for number, exponent in monomial
        )

    def _is_size(self, number: int) -> bool:
        kind, data = self.field.elements[number][:2]
        return kind == "exp" and len(data) == 1 and data[0][1] == 1 and data[0][0] in self.field.huge  # type: ignore

    def _holds_huge(self, number: int) -> bool:
        kind, data = self.field.elements[number][:2]
        if number in self.field.huge:  # type: ignore[operator]
            return True
        if kind == "exp":
            return any(self._holds_huge(n) for n, _ in data)  # type: ignore[attr-defined]
        if isinstance(data, Form):
            return any(self._holds_huge(n) for m in data.terms for n, _ in m)
        if kind == "maximum":
            return any(self._holds_huge(n) for meet in data for f in meet for m in f.terms for n, _ in m)  # type: ignore[attr-defined]
        parts = [part for part in data if isinstance(part, Form)] if isinstance(data, tuple) else []
        return any(self._holds_huge(n) for part in parts for m in part.terms for n, _ in m)

    def is_positive(self) -> bool:
        """Known to be above zero, where it is defined."""
        if self.field.huge and (sign := self.outweighed()):
            return sign > 0
        signs = list(self._signs())
        known = all(c > 0 and n for c, _, n in signs) and any(p for _, p, _ in signs)
        return known or constant_sign(self) > 0

    def is_nonnegative(self) -> bool:
        """Known to be at least zero."""
        if self.field.huge and (sign := self.outweighed()):
            return sign > 0
        return all(c > 0 and n for c, _, n in self._signs()) or constant_sign(self) > 0

    def is_nonzero(self) -> bool:
        """Known to be another number than zero."""
        return self.is_positive() or (-self).is_positive()

    def content(self, *, positive: bool) -> tuple[Number, Monomial, Form]:
        """A number, a monomial and the rest, whose product it is; of positive elements only where `positive`.

        The number is positive there, else such that the first term of the rest has a positive coefficient. Flags stay.
        """
        monomials = list(self.terms)
        common: dict[int, Number] = {}
        for number in {number for monomial in monomials for number, _ in monomial}:
            element = self.field.elements[number]
            exponents = {dict(monomial).get(number, 0) for monomial in monomials}
            least = min(exponents)
            divides = element.nonnegative and least < 0 and len(exponents) == 1  # so it is above zero
            if element.kind in ("flag", "equals") or (positive and not element.positive and not divides):
                continue
            if element.kind == "root":
                least = max(least, 0)  # what is rational is in the coefficient
            if least:
                common[number] = least
        shared = tuple(sorted(common.items()))
        inverse = tuple((number, -exponent) for number, exponent in shared)
        rest: dict[Monomial, Number] = {}
        for monomial, coefficient in self.terms.items():
            merged = dict(monomial)
            for number, exponent in inverse:
                merged[number] = merged.get(number, 0) + exponent
                if not merged[number]:
                    del merged[number]
            rest[tuple(sorted(merged.items()))] = coefficient
        fractions = [Fraction(c) for c in rest.values()]
        scale = Fraction(gcd(*(f.numerator for f in fractions)), lcm(*(f.denominator for f in fractions)))
        if not positive and rest[min(rest)] < 0:
            scale = -scale
        return scale, shared, Form(self.field, {m: c / scale for m, c in rest.items()})
