"""Which sizes a family has, which of them a proof covers, and a point that no proof covers yet (asked of Z3).

The domain: all symbols from 1 on at which every extent is a whole number from 1 on, and every other number whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scalify_dl.ir.expression import Expression, cleared

from .conditions import LARGE, Condition, walk

TIMEOUT_MS = 4000
NEAR = (4, 8, 16, 64)
"""Small points are looked for first."""
SHORT = 64
"""Then points with axes up to here."""


@dataclass(frozen=True)
class Region:
    """Sizes at which one derivation is a proof: the equations hold, every symbolic axis is long enough to have a
    generic coordinate, and the conditions hold for every such coordinate."""

    equations: Mapping[str, Expression]
    generic: Mapping[str, str]
    """Generic coordinate → the symbol of its axis."""
    conditions: tuple[Condition, ...]
    ends: tuple[int, int] = (2, 0)
    """How many ranks at either end of an axis are not generic."""

    def holds(self, point: Mapping[str, int]) -> bool:
        """Whether a point is in the region."""
        return self.applies(point) and not self.violated(point)

    def applies(self, point: Mapping[str, int]) -> bool:
        """Whether the equations hold and the axes are long enough."""
        long = all(point[axis] > sum(self.ends) for axis in self.generic.values())
        return long and all(formula.at(point) == point[name] for name, formula in self.equations.items())

    def violated(self, point: Mapping[str, int]) -> list[Condition]:
        """The conditions that a point violates."""
        return [c for c in self.conditions if not all(c.holds(at) for at in self._instances(c, point))]

    def _instances(self, condition: Condition, point: Mapping[str, int]) -> Iterable[Mapping[str, int]]:
        points: list[dict[str, int]] = [dict(point)]
        for name, axis in self.generic.items():
            if name in condition.symbols:
                points = [one | {name: k} for one in points for k in range(self.ends[0], point[axis] - self.ends[1])]
        return points


class Domain:
    """The sizes that a family has."""

    def __init__(
        self,
        symbols: Sequence[str],
        sizes: Iterable[Expression],
        integers: Iterable[Expression],
        axes: Sequence[str] = (),
    ) -> None:
        self.symbols = list(symbols)
        self.axes = list(axes)
        self.sizes = sorted({e for e in sizes if e.constant is None}, key=str)
        self.whole = _independent([e for e in {*sizes, *integers} if not e.is_polynomial])

    def holds(self, point: Mapping[str, int]) -> bool:
        """Whether a point is in the domain."""
        if any(point[name] < 1 for name in self.symbols):
            return False
        sizes = (size.quotient(point) for size in self.sizes)
        whole = (formula.quotient(point) for formula in self.whole)
        return all(above >= below for above, below in sizes) and not any(above % below for above, below in whole)

    def coupled(self, name: str) -> int:
        """In how many formulas that must be whole a symbol occurs."""
        return sum(name in formula.symbols for formula in self.whole)

    def texts(self) -> list[str]:
        """The domain in words: `tp divides 8`, `batch >= 1`."""
        words = [_divides(formula) for formula in self.whole]
        below = {s for formula in self.whole for powers, _ in formula.terms for s, e in powers if e < 0}
        bounds = [_at_least(size) for size in self.sizes if any(c < 0 for _, c in size.terms)]
        told = {bound.partition(" >= ")[0] for bound in bounds}
        words += [f"{name} >= 1" for name in self.symbols if name not in below | told]
        return words + bounds


class Search:
    """Looks for sizes of the domain that are in no region yet."""

    def __init__(self, domain: Domain) -> None:
        import z3  # imported where a family is verified

        self.z3 = z3
        self.domain = domain
        self.regions: list[Region] = []
        self._terms = _Terms(z3)
        self._asked: list[Any] = []
        # below bounds without points there will be none later
        self._bounds: list[dict[str, int]] = [
            *(dict.fromkeys(domain.symbols, near) for near in NEAR),
            dict.fromkeys(domain.axes, SHORT),
            {},
        ]
        for name in domain.symbols:
            self._asked.append(self._terms.variable(name) >= 1)
        for formula in domain.whole:
            self._terms.whole(formula)
        for size in domain.sizes:
            above, below = (self._terms.polynomial(part) for part in cleared(size))
            if any(c < 0 for _, c in size.terms):
                self._asked.append(above >= below)
            self._asked.append(above < LARGE * below)

    def require(self, conditions: Iterable[Condition]) -> None:
        """Looks only where these hold from now on, as far as they are about sizes alone."""
        for condition in conditions:
            if condition.difference is not None and condition.symbols <= {*self.domain.symbols}:
                self._asked.append(self._terms.condition(condition))

    def add(self, region: Region) -> None:
        """Leaves a region out from now on."""
        self._asked.append(self._outside(region))
        self.regions.append(region)

    def point(self) -> dict[str, int] | None:
        """A point of the domain in no region with sizes below 2^29, a small one if there is one; None if there is none.

        TimeoutError where the solver cannot tell.
        """
        z3, terms = self.z3, self._terms
        self._asked += terms.take_definitions()
        best = None
        while best is None:
            bound = self._bounds[0]
            for kind in (z3.SimpleSolver, z3.Solver):  # the plain one is a hundred times faster where it has an answer
                solver = kind()  # a solver each: an incremental one is much slower with products
                solver.set("timeout", TIMEOUT_MS)
                solver.add(*self._asked)
                solver.add(*(terms.variable(name) <= most for name, most in bound.items()))
                answer = solver.check()
                if answer != z3.unknown:
                    break
            if answer == z3.sat:
                best = self._values(solver.model())
            elif bound:
                self._bounds.pop(0)
            elif answer == z3.unsat:
                return None
            else:
                raise TimeoutError("the solver cannot tell whether all sizes are covered")
        if not self.domain.holds(best) or any(region.holds(best) for region in self.regions):
            raise TimeoutError(f"the solver's point {best} is not what was asked for")
        return best

    def _outside(self, region: Region) -> Any:
        z3, terms = self.z3, self._terms
        options = []
        for name, formula in region.equations.items():
            above, below = cleared(formula)
            options.append(terms.variable(name) * terms.polynomial(below) != terms.polynomial(above))
        options += [terms.variable(axis) <= sum(region.ends) for axis in region.generic.values()]
        # its own coordinate: the conditions must hold for every one
        terms.rename = {name: f"{name} of {len(self.regions)}" for name in region.generic}
        first, last = region.ends
        for condition in region.conditions:
            there = [
                z3.And(terms.variable(name) >= first, terms.variable(name) < terms.variable(axis) - last)
                for name, axis in region.generic.items()
                if name in condition.symbols
            ]
            options.append(z3.And(*there, z3.Not(terms.condition(condition))))
        terms.rename = {}
        return z3.Or(*options)

    def _values(self, model: Any) -> dict[str, int]:
        return {
            name: model.eval(self._terms.variable(name), model_completion=True).as_long()
            for name in self.domain.symbols
        }


class _Quotient:
    """A fraction of two integer terms of the solver; the lower one is positive."""

    def __init__(self, above: Any, below: Any) -> None:
        self.above = above
        self.below = below

    def __add__(self, other: _Quotient) -> _Quotient:
        return _Quotient(self.above * other.below + other.above * self.below, self.below * other.below)

    def __sub__(self, other: _Quotient) -> _Quotient:
        return _Quotient(self.above * other.below - other.above * self.below, self.below * other.below)

    def __mul__(self, other: _Quotient) -> _Quotient:
        return _Quotient(self.above * other.above, self.below * other.below)


class _Terms:
    """Expressions as terms of Z3. Floors are new integers with their `definitions`, which always have one solution."""

    def __init__(self, z3: Any) -> None:
        self.z3 = z3
        self.definitions: list[Any] = []
        self.rename: dict[str, str] = {}
        self._variables: dict[str, Any] = {}
        self._fresh = 0

    def variable(self, name: str) -> Any:
        """The variable of a symbol; all are positive."""
        name = self.rename.get(name, name)
        if name not in self._variables:
            self._variables[name] = self.z3.Int(name)
            self.definitions.append(self._variables[name] >= 1)
        return self._variables[name]

    def take_definitions(self) -> list[Any]:
        """The definitions since the last time."""
        taken, self.definitions = self.definitions, []
        return taken

    def new(self) -> Any:
        """A new integer."""
        self._fresh += 1
        return self.z3.Int(f"q{self._fresh} ")

    def polynomial(self, formula: Expression) -> Any:
        """A polynomial with integer coefficients."""
        total = self.z3.IntVal(0)
        for powers, coefficient in formula.terms:
            term = self.z3.IntVal(int(coefficient))
            for name, exponent in powers:
                for _ in range(exponent):
                    term = term * self.variable(name)
            total = total + term
        return total

    def whole(self, formula: Expression) -> None:
        """Demands that a formula is a whole number."""
        above, below = cleared(formula)
        quotient = self.new()
        self.definitions.append(quotient * self.polynomial(below) == self.polynomial(above))
        if formula.is_term:
            self.definitions.append(quotient >= 1 if formula.terms[0][1] > 0 else quotient <= -1)

    def condition(self, condition: Condition) -> Any:
        """A condition."""
        if condition.difference is not None:
            above = self.polynomial(condition.difference)
            compared = {"less": above < 0, "less_equal": above <= 0, "not_equal": above != 0, "equal": above == 0}
            return compared[condition.kind]
        left, right = (walk(tree, self) for tree in condition.trees)
        if condition.kind in ("integer", "not_integer"):
            value = self.divide(left, right)
            floor = self.floor(value).above
            whole = floor * value.below == value.above
            return self.z3.And(value.below > 0, whole if condition.kind == "integer" else self.z3.Not(whole))
        a, b = left.above * right.below, right.above * left.below
        compared = {"less": a < b, "less_equal": a <= b, "not_equal": a != b, "equal": a == b}[condition.kind]
        return self.z3.And(left.below > 0, right.below > 0, compared)

    def number(self, value: int) -> _Quotient:
        """A constant."""
        return _Quotient(self.z3.IntVal(value), self.z3.IntVal(1))

    def symbol(self, name: str) -> _Quotient:
        """A symbol."""
        return _Quotient(self.variable(name), self.z3.IntVal(1))

    def divide(self, a: _Quotient, b: _Quotient) -> _Quotient:
        """A quotient; divisors are positive."""
        return _Quotient(a.above * b.below, a.below * b.above)

    def floor(self, a: _Quotient) -> _Quotient:
        """A quotient rounded down."""
        value = self.new()
        self.definitions.append(
            self.z3.Or(a.below <= 0, self.z3.And(value * a.below <= a.above, a.above < (value + 1) * a.below))
        )
        return _Quotient(value, self.z3.IntVal(1))


def _independent(formulas: Sequence[Expression]) -> list[Expression]:
    """Formulas that do not follow from others: whole multiples of a whole number are whole."""
    ordered = sorted(formulas, key=lambda f: (len(f.terms), str(f)))
    singles = [f for f in ordered if f.is_term]
    kept = [f for f in singles if not any(g != f and _multiple(f, g) and not _multiple(g, f) for g in singles)]
    kept = [f for i, f in enumerate(kept) if not any(_multiple(f, g) for g in kept[:i])]
    for formula in ordered:
        if not formula.is_term:
            # a sum of whole terms is whole
            rest = Expression(tuple(
                term for term in formula.terms
                if not Expression((term,)).is_polynomial and not any(_multiple(Expression((term,)), g) for g in kept)
            ))  # fmt: skip
            if rest.terms and rest not in kept:
                kept.append(formula)
    return kept


def _multiple(formula: Expression, of: Expression) -> bool:
    return of.is_term and (formula / of).is_polynomial


def _at_least(size: Expression) -> str:
    """That a size is from 1 on, as a bound: `batch >= 2`, `batch <= 64`, `seq >= window + 1`."""
    constant = sum((c for powers, c in size.terms if not powers), Fraction(0))
    above = Expression.of((powers, c) for powers, c in size.terms if powers and c > 0)
    below = Expression.of((powers, -c) for powers, c in size.terms if powers and c < 0)
    if not above.terms:
        return f"{below} <= {constant - 1}"
    return f"{above} >= {below + Expression.number(1 - constant)}"


def _divides(formula: Expression) -> str:
    if not formula.is_term:
        return f"{formula} is a whole number"
    ((powers, coefficient),) = formula.terms
    above = Expression.of([(tuple((n, e) for n, e in powers if e > 0), abs(coefficient.numerator))])
    below = Expression.of([(tuple((n, -e) for n, e in powers if e < 0), Fraction(coefficient.denominator))])
    return f"{below} divides {above}"
