"""Numbers that depend on sizes: Laurent polynomials over symbols with exact rational coefficients.

    Expression.parse("2*heads*seq/tp + 1").at({"heads": 8, "seq": 4, "tp": 2}) == 33

Every expression has one canonical form, so `==` is equality of functions (where they are defined).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm, prod

Monomial = tuple[tuple[str, int], ...]
"""Symbols with exponents other than 0, by name."""


def monomial(exponents: Mapping[str, int]) -> Monomial:
    """The canonical form of a product of powers."""
    return tuple(sorted((name, power) for name, power in exponents.items() if power))


@dataclass(frozen=True)
class Expression:
    """A sum of monomials with coefficients other than 0, monomials ascending."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    @classmethod
    def of(cls, terms: Iterable[tuple[Monomial, Fraction | int]]) -> Expression:
        """The canonical sum of terms; a monomial may occur several times."""
        total: dict[Monomial, Fraction] = {}
        for powers, coefficient in terms:
            total[powers] = total.get(powers, Fraction(0)) + coefficient
        return cls(tuple(sorted((powers, c) for powers, c in total.items() if c)))

    @classmethod
    def number(cls, value: int | Fraction) -> Expression:
        """A constant."""
        return cls.of([((), Fraction(value))])

    @classmethod
    def symbol(cls, name: str) -> Expression:
        """A symbol."""
        return cls.of([(((name, 1),), 1)])

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Reads sums, products and quotients by monomials; ValueError for anything else."""
        return _build(ast.parse(text.replace("^", "**"), mode="eval").body)

    def __add__(self, other: Expression) -> Expression:
        return Expression.of((*self.terms, *other.terms))

    def __sub__(self, other: Expression) -> Expression:
        return self + other * Expression.number(-1)

    def __mul__(self, other: Expression) -> Expression:
        return Expression.of((_times(p, q), a * b) for p, a in self.terms for q, b in other.terms)

    def __truediv__(self, other: Expression) -> Expression:
        """The quotient by a single term; ValueError by a sum, or by zero."""
        if len(other.terms) != 1:
            raise ValueError(f"cannot divide by `{other}`")
        ((powers, coefficient),) = other.terms
        return self * Expression.of([(tuple((s, -e) for s, e in powers), 1 / coefficient)])

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The symbols that occur."""
        return frozenset(name for powers, _ in self.terms for name, _ in powers)

    @property
    def constant(self) -> Fraction | None:
        """The value, where it depends on no symbol."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0][1] if self.terms[0][0] == () and len(self.terms) == 1 else None

    @property
    def is_term(self) -> bool:
        """Whether this is a single term."""
        return len(self.terms) == 1

    @property
    def is_polynomial(self) -> bool:
        """Whether this is an integer for all integers: integer coefficients, no symbol below a line."""
        return all(c.denominator == 1 and all(e > 0 for _, e in powers) for powers, c in self.terms)

    def at(self, values: Mapping[str, int]) -> Fraction:
        """The exact value at a point."""
        return Fraction(*self.quotient(values))

    def quotient(self, values: Mapping[str, int]) -> tuple[int, int]:
        """Numerator and denominator at a point, with common factors; the denominator is positive where symbols are."""
        above, below = self._cleared
        return sum(_product(c, powers, values) for c, powers in above), _product(*below, values)

    @cached_property
    def _cleared(self) -> tuple[list[tuple[int, Monomial]], tuple[int, Monomial]]:
        """Integer coefficients and powers from 1 on: of the numerator's terms, and of the denominator."""
        above, below = cleared(self)
        ((powers, scale),) = below.terms
        return [(int(c), factors) for factors, c in above.terms], (int(scale), powers)

    def put(self, values: Mapping[str, Expression]) -> Expression:
        """With expressions in place of symbols; one that stands below a line must be a single term."""
        if not self.symbols & values.keys():
            return self
        total = Expression(())
        for powers, coefficient in self.terms:
            term = Expression.number(coefficient)
            for name, exponent in powers:
                factor = values.get(name, Expression.symbol(name))
                for _ in range(abs(exponent)):
                    term = term * factor if exponent > 0 else term / factor
            total = total + term
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        # constants last, as people write them
        words = [_term(powers, c) for powers, c in sorted(self.terms, key=lambda term: (not term[0], term[0]))]
        return words[0] + "".join(f" - {w[1:]}" if w.startswith("-") else f" + {w}" for w in words[1:])


def _product(coefficient: int, powers: Monomial, values: Mapping[str, int]) -> int:
    for name, exponent in powers:
        coefficient *= values[name] ** exponent
    return coefficient


def cleared(formula: Expression) -> tuple[Expression, Expression]:
    """Numerator and denominator: a polynomial with integer coefficients and a positive monomial."""
    powers: dict[str, int] = {}
    for factors, _ in formula.terms:
        for name, exponent in factors:
            powers[name] = max(powers.get(name, 0), -exponent)
    scale = lcm(1, *(c.denominator for _, c in formula.terms))
    below = Expression.of([(monomial(powers), scale)])
    return formula * below, below


def over(formula: Expression) -> tuple[Expression, Expression]:
    """Numerator and denominator of a single term, which need not be whole; a sum is over 1."""
    if not formula.is_term:
        return formula, Expression.number(1)
    ((powers, c),) = formula.terms
    above = [(tuple((s, e) for s, e in powers if e > 0), c.numerator)]
    return Expression.of(above), Expression.of([(tuple((s, -e) for s, e in powers if e < 0), c.denominator)])


def primitive(formula: Expression) -> Expression:
    """The polynomial with the same sign everywhere (symbols are positive) that nothing divides."""
    if not formula.terms:
        return formula
    above, _ = cleared(formula)
    shared = {name: min(dict(factors).get(name, 0) for factors, _ in above.terms) for name in above.symbols}
    content = gcd(*(int(c) for _, c in above.terms))
    return above / Expression.of([(monomial(shared), content)])


def _times(p: Monomial, q: Monomial) -> Monomial:
    exponents = dict(p)
    for name, exponent in q:
        exponents[name] = exponents.get(name, 0) + exponent
    return monomial(exponents)


def _term(powers: Monomial, coefficient: Fraction) -> str:
    above = [name for name, exponent in powers for _ in range(exponent)]
    below = [name for name, exponent in powers for _ in range(-exponent)]
    sign, top = ("-" if coefficient < 0 else ""), abs(coefficient.numerator)
    if top != 1 or not above:
        above.insert(0, str(top))
    if coefficient.denominator != 1:
        below.insert(0, str(coefficient.denominator))
    divisor = "*".join(below)
    text = sign + "*".join(above)
    return text + (f"/({divisor})" if len(below) > 1 else f"/{divisor}" if below else "")


def _build(node: ast.expr) -> Expression:
    match node:
        case ast.Constant(value=int(value)):
            return Expression.number(value)
        case ast.Name(id=name):
            return Expression.symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return Expression.number(0) - _build(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _build(left) + _build(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _build(left) - _build(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _build(left) * _build(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _build(left) / _build(right)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 <= power <= 16:
            return Expression.number(1) if not power else prod([_build(left)] * power, start=Expression.number(1))
    raise ValueError(f"`{ast.unparse(node)}` is no sum of products")
