"""Reading a number that was seen at several sizes as a formula of the sizes.

The simplest formula that gives every seen value: a constant; a symbol's products and quotients with a constant factor
(exponents up to 2); such a formula that occurs elsewhere in the programs, plus or minus a constant; the sum or
difference of two such. Where two formulas of about equal simplicity fit, the captures do not tell them apart: an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

from scalify_dl.ir.expression import Expression, monomial

POWERS = (0, 1, -1, 2, -2)
FACTORS = 4
"""Most symbols in one product."""


RIVAL = 2
"""How many more symbols a product may have that is another reading of the same numbers."""


class NoFormula(ValueError):
    """No formula fits."""


class Ambiguous(ValueError):
    """Several formulas of the same simplicity fit."""

    def __init__(self, values: Sequence[Fraction], formulas: Sequence[Expression]) -> None:
        self.formulas = tuple(formulas)
        super().__init__(f"{', '.join(map(str, values))} is {' or '.join(map(str, formulas[:3]))}")


class Fitter:
    """Fits formulas to values at given points (one mapping of symbol values per capture)."""

    def __init__(self, points: Sequence[Mapping[str, int]]) -> None:
        self.points = points
        self.symbols = sorted(points[0])
        self.known: dict[Expression, tuple[Fraction, ...]] = {}
        """Formulas that occur, each with its values: what sums are made of."""
        for name in self.symbols:
            self.known[Expression.symbol(name)] = self.values(Expression.symbol(name))
        self._cache: dict[tuple[Fraction, ...], Expression] = {}
        self._products: dict[tuple[Fraction, ...], list[Expression]] = {}
        for exponents in product(POWERS, repeat=len(self.symbols)):
            if sum(e != 0 for e in exponents) <= FACTORS:
                term = Expression.of([(monomial(dict(zip(self.symbols, exponents, strict=True))), 1)])
                seen = self.values(term)
                ratios = tuple(value / seen[0] for value in seen)
                self._products.setdefault(ratios, []).append(term)

    def values(self, formula: Expression) -> tuple[Fraction, ...]:
        """The formula at every point."""
        return tuple(formula.at(point) for point in self.points)

    def product(self, values: Sequence[int | Fraction]) -> Expression | None:
        """The simplest constant or product that gives these values, one per point; None where there is none."""
        wanted = tuple(map(Fraction, values))
        found = self._cache.get(wanted)
        if found is not None:
            return found
        if len(set(wanted)) == 1:
            found = Expression.number(wanted[0])
        elif 0 in wanted:
            return None
        else:
            terms = self._products.get(tuple(value / wanted[0] for value in wanted), [])
            if not terms:
                return None
            scale = [term * Expression.number(wanted[0] / self.values(term)[0]) for term in terms]
            least = min(map(_size, scale))
            best = [term for term in scale if _size(term) == least]
            # other sizes in nearly as simple a product, times or over a number: the captures do not tell
            others = [t for t in scale if t not in best and _size(t) <= least + RIVAL and _whole_factor(t)]
            if len(best) + len(others) > 1:
                raise Ambiguous(wanted, [*best, *sorted(others, key=lambda t: (_size(t), str(t)))])
            found = best[0]
            self.known[found] = wanted
        self._cache[wanted] = found
        return found

    def told(self, found: Expression, values: Sequence[int | Fraction]) -> None:
        """Ambiguous where a number that no equation binds may as well be something else: a product of sizes that is the
        same at every point, another size and a number."""
        wanted = tuple(map(Fraction, values))
        others: list[Expression] = []
        if found.constant is not None:
            still = self._products[(Fraction(1),) * len(self.points)] if found.constant not in (-1, 0, 1) else []
            terms = [t * found / Expression.number(self.values(t)[0]) for t in still if t.constant is None]
            others = [t for t in terms if _size(t) <= 1 + RIVAL and _whole_factor(t)]
        elif found.is_term and all(value.denominator == 1 for value in wanted):
            named = found in map(Expression.symbol, self.symbols)
            for name in self.symbols:
                apart = {value - Fraction(point[name]) for value, point in zip(wanted, self.points, strict=True)}
                if len(apart) == 1 and apart != {0} and (abs(min(apart)) == 1 or not named):
                    others.append(Expression.symbol(name) + Expression.number(min(apart)))
        if others:
            raise Ambiguous(wanted, [found, *sorted(others, key=lambda t: (len(t.terms), str(t)))])

    def know(self, formula: Expression) -> None:
        """Notes a formula that occurs: sums are made of those."""
        if formula.constant is None:
            self.known[formula] = self.values(formula)

    def fit(self, values: Sequence[int | Fraction]) -> Expression:
        """The simplest formula; NoFormula or Ambiguous where there is not exactly one."""
        found = self.product(values)
        wanted = tuple(map(Fraction, values))
        sums = {
            formula + Expression.number(wanted[0] - seen[0])
            for formula, seen in self.known.items()
            if len({value - part for value, part in zip(wanted, seen, strict=True)}) == 1
        }
        if found is not None:
            # half a size, or a product of two, may as well be another size less one
            near = [s for s in sums if s != found and any(not powers and abs(c) == 1 for powers, c in s.terms)]
            plain = found.constant is not None or _plain(found)
            if near and found.is_term and not plain and all(v.denominator == 1 for v in wanted):
                raise Ambiguous(wanted, [found, *sorted(near, key=str)])
            return found
        if not sums:
            for (one, a), (other, b) in combinations(self.known.items(), 2):
                if all(v == x + y for v, x, y in zip(wanted, a, b, strict=True)):
                    sums.add(one + other)
                if all(v == x - y for v, x, y in zip(wanted, a, b, strict=True)):
                    sums.add(one - other)
                if all(v == y - x for v, x, y in zip(wanted, a, b, strict=True)):
                    sums.add(other - one)
        if not sums:
            raise NoFormula(", ".join(map(str, wanted)))
        if len(sums) > 1:
            raise Ambiguous(wanted, sorted(sums, key=str))
        (found,) = sums
        self._cache[wanted] = found
        return found


def _plain(term: Expression) -> bool:
    """Whether this is a size, perhaps a few times."""
    return term.is_term and _size(term) == 1 and term.terms[0][1].denominator == 1


def _size(term: Expression) -> int:
    """Its exponents together, and one more for a fraction of a size."""
    ((powers, factor),) = term.terms
    return sum(abs(exponent) for _, exponent in powers) + (factor.denominator != 1)


def _whole_factor(term: Expression) -> bool:
    ((_, factor),) = term.terms
    return 1 in (abs(factor.numerator), factor.denominator)


def indistinct(points: Sequence[Mapping[str, int]]) -> list[tuple[str, str]]:
    """Pairs of symbols whose values grow by the same factors, so that no capture tells one from the other."""
    names = sorted(points[0])
    growth = {name: tuple(Fraction(point[name], points[0][name]) for point in points) for name in names}
    return [(a, b) for a, b in combinations(names, 2) if growth[a] == growth[b]]
