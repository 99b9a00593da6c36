"""Conditions on sizes, as the engine reports them: `1 < batch`, `8/tp is whole`, with floors and remainders.

Condition("less", "1", "8/tp").holds({"tp": 4})
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from scalify_dl.ir.expression import Expression, primitive

LARGE = 2**29
"""Numbers from here on occur in rules only to keep arithmetic within 32 bits."""
EXACT = 2**24
"""What is to stay below more than this is a factor of a number that stays below 2^30. (2^24 itself: whole in f32.)"""
_SIGNS = {"less": "<", "less_equal": "<=", "not_equal": "!=", "equal": "="}


@dataclass(frozen=True)
class Condition:
    """A comparison of two numbers, or whether `left/right` (or `left` alone) is a whole number."""

    kind: str
    left: str
    right: str = ""

    def __str__(self) -> str:
        if self.kind in _SIGNS:
            return f"{self.left} {_SIGNS[self.kind]} {self.right}"
        parts = [p if re.fullmatch(r"\w+", p) else f"({p})" for p in (self.left, self.right)]
        text = "/".join(parts) if self.right not in ("", "1") else self.left
        return f"{text} is {'' if self.kind == 'integer' else 'not '}a whole number"

    @cached_property
    def trees(self) -> tuple[ast.expr, ast.expr]:
        """Both sides, parsed; a missing one is 1."""
        return parse(self.left), parse(self.right or "1")

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The symbols that occur."""
        names = (n.id for tree in self.trees for n in ast.walk(tree) if isinstance(n, ast.Name))
        return frozenset(names) - {"floor", "mod"}

    @cached_property
    def difference(self) -> Expression | None:
        """The polynomial with the sign of left minus right, where both are sums of products."""
        if self.kind not in _SIGNS:
            return None
        try:
            return primitive(Expression.parse(self.left) - Expression.parse(self.right))
        except ValueError:
            return None

    @property
    def bounds_magnitude(self) -> bool:
        """Whether this only keeps numbers small."""
        above = self.kind in ("less", "less_equal") and self.right.isdigit() and int(self.right) > EXACT
        return above or any(int(number) >= LARGE for number in re.findall(r"\d+", f"{self.left} {self.right}"))

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it holds at a point (not where something is divided by zero)."""
        try:
            return self._holds(values)
        except ZeroDivisionError:
            return False

    def _holds(self, values: Mapping[str, int]) -> bool:
        left, right = (evaluate(tree, values) for tree in self.trees)
        match self.kind:
            case "less":
                return left < right
            case "less_equal":
                return left <= right
            case "not_equal":
                return left != right
            case "equal":
                return left == right
            case "integer":
                return (left / right).denominator == 1
            case "not_integer":
                return (left / right).denominator != 1
        raise ValueError(f"unknown condition `{self.kind}`")

    def meets(self, values: Mapping[str, int]) -> Expression | None:
        """Left minus right where they are equal at a point, and both are sums of products."""
        difference = self.difference
        return difference if difference is not None and difference.terms and difference.at(values) == 0 else None


def simplified(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """The same without conditions that another one implies by itself."""
    kept: dict[object, Condition] = {}
    strict: set[Expression] = set()
    minus = Expression.number(-1)
    for condition in conditions:
        difference = condition.difference
        key: object = condition
        if difference is not None:
            either = condition.kind in ("not_equal", "equal")
            key = condition.kind, frozenset({difference, difference * minus}) if either else difference
            if condition.kind == "less":
                strict.add(difference)
        kept.setdefault(key, condition)
    return tuple(
        c
        for c in kept.values()
        if not (c.kind == "less_equal" and c.difference in strict)
        and not (c.kind == "not_equal" and c.difference and {c.difference, c.difference * minus} & strict)
    )


def parse(text: str) -> ast.expr:
    """The tree of an expression text."""
    return ast.parse(text.replace("^", "**"), mode="eval").body


class Arithmetic(Protocol):
    """What `walk` computes with: exact fractions, or terms of a solver."""

    def number(self, value: int) -> Any: ...
    def symbol(self, name: str) -> Any: ...
    def divide(self, a: Any, b: Any) -> Any: ...
    def floor(self, a: Any) -> Any: ...


def walk(node: ast.expr, arithmetic: Arithmetic) -> Any:
    """The value of an expression tree; ValueError for what does not belong."""
    match node:
        case ast.Constant(value=int(value)):
            return arithmetic.number(value)
        case ast.Name(id=name):
            return arithmetic.symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return arithmetic.number(0) - walk(inner, arithmetic)
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            return walk(a, arithmetic) + walk(b, arithmetic)
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return walk(a, arithmetic) - walk(b, arithmetic)
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return walk(a, arithmetic) * walk(b, arithmetic)
        case ast.BinOp(left=a, op=ast.Div(), right=b):
            return arithmetic.divide(walk(a, arithmetic), walk(b, arithmetic))
        case ast.BinOp(left=a, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 <= power <= 16:
            out = arithmetic.number(1)
            for _ in range(power):
                out = out * walk(a, arithmetic)
            return out
        case ast.Call(func=ast.Name(id="floor"), args=[inner]):
            return arithmetic.floor(walk(inner, arithmetic))
        case ast.Call(func=ast.Name(id="mod"), args=[a, b]):
            p, q = walk(a, arithmetic), walk(b, arithmetic)
            return p - q * arithmetic.floor(arithmetic.divide(p, q))
    raise ValueError(f"`{ast.unparse(node)}` is no expression of sizes")


class _Exact:
    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values

    def number(self, value: int) -> Fraction:
        return Fraction(value)

    def symbol(self, name: str) -> Fraction:
        return Fraction(self.values[name])

    def divide(self, a: Fraction, b: Fraction) -> Fraction:
        return a / b

    def floor(self, a: Fraction) -> Fraction:
        return Fraction(a.numerator // a.denominator)


def evaluate(node: ast.expr, values: Mapping[str, int]) -> Fraction:
    """The exact value at a point."""
    value: Fraction = walk(node, _Exact(values))
    return value
