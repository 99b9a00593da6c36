"""Formulas in Z3. Importing this module loads Z3, so only what needs it does."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import z3

from .enumerate import Witness
from .formula import Formula, Term


class Answer(Enum):
    """What the solver says about a formula."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


class Smt:
    """One incremental solver: the premises of a formula are pushed, its negation checked, and both popped."""

    def __init__(self, timeout_ms: int = 5000) -> None:
        self._context = z3.Context()
        self._solver = z3.Solver(ctx=self._context)
        self._solver.set("timeout", timeout_ms)
        self._x = z3.Int("x", self._context)
        self._place = z3.Int("rank", self._context)

    def _digits(self, count: int) -> list[Any]:
        return [z3.Int(f"d{a}", self._context) for a in range(count)]

    def _premises(self, formula: Formula) -> Iterator[Any]:
        """What a formula may rely on."""
        if formula.lo is not None:
            yield self._x >= formula.lo
        if formula.hi is not None:
            yield self._x <= formula.hi
        digits = self._digits(len(formula.sizes))
        if formula.ranks:
            yield z3.Or(
                *(
                    z3.And(self._place == n, *(d == v for d, v in zip(digits, row, strict=True)))
                    for n, row in enumerate(formula.ranks)
                )
            )
        else:
            for d, size in zip(digits, formula.sizes, strict=True):
                yield z3.And(d >= 0, d < size)

    def decide(self, formula: Formula) -> tuple[Answer, Witness | None]:
        """Proved for every rank and leaf value, or refuted with a case, or unknown (timeout)."""
        self._solver.push()
        try:
            self._solver.add(*self._premises(formula))
            self._solver.add(z3.Not(self._truth(formula.term)))
            answer = self._solver.check()
            if answer == z3.unsat:
                return Answer.PROVED, None
            if answer == z3.unknown:
                return Answer.UNKNOWN, None
            model = self._solver.model()
            found = [self._place, self._x, *self._digits(len(formula.sizes))]
            place, x, *digits = (model.eval(v, model_completion=True).as_long() for v in found)
            return Answer.REFUTED, Witness(tuple(digits), place, x)
        finally:
            self._solver.pop()

    # ---- translation: truth values as Bool, numbers as Int; 0 and 1 where the other is wanted ----

    def _truth(self, term: Term) -> Any:
        value = self._value(term)
        return value if z3.is_bool(value) else value != 0

    def _number(self, term: Term) -> Any:
        value = self._value(term)
        one, zero = z3.IntVal(1, self._context), z3.IntVal(0, self._context)
        return z3.If(value, one, zero) if z3.is_bool(value) else value

    def _value(self, term: Term) -> Any:
        match term:
            case ("x",):
                return self._x
            case ("const", v):
                return z3.IntVal(v, self._context)
            case ("rank", base, weights):
                digits = self._digits(len(weights))
                out = z3.IntVal(base, self._context)
                for w, d in zip(weights, digits, strict=True):
                    out = out + w * d if w else out
                return out
            case ("table", values):
                out = z3.IntVal(values[-1], self._context)
                for n, v in reversed(list(enumerate(values[:-1]))):
                    out = z3.If(self._place == n, z3.IntVal(v, self._context), out)
                return out
            case ("choice", c, a, b):
                return z3.If(self._truth(c), self._number(a), self._number(b))
            case ("not", a):
                return z3.Not(self._truth(a))
            case ("negate", a):
                return -self._number(a)
            case ("and", a, b):
                return z3.And(self._truth(a), self._truth(b))
            case ("or", a, b):
                return z3.Or(self._truth(a), self._truth(b))
            case ("xor", a, b):
                return z3.Xor(self._truth(a), self._truth(b))
        return self._arithmetic(term[0], *(self._number(a) for a in term[1:]))

    def _arithmetic(self, op: str, a: Any, b: Any) -> Any:
        match op:
            case "add":
                return a + b
            case "subtract":
                return a - b
            case "multiply":
                return a * b
            case "maximum":
                return z3.If(a >= b, a, b)
            case "minimum":
                return z3.If(a <= b, a, b)
            case "EQ":
                return a == b
            case "NE":
                return a != b
            case "LT":
                return a < b
            case "LE":
                return a <= b
            case "GT":
                return a > b
            case "GE":
                return a >= b
            case "divide":
                return self._quotient(a, b)
            case "remainder":
                return a - b * self._quotient(a, b)
            case "floor-divide":  # Z3's division rounds down for a positive divisor and up for a negative one
                return z3.If(b == 0, 0, z3.If(b > 0, a / b, (-a) / (-b)))
        raise ValueError(f"no such operation: {op}")

    @staticmethod
    def _quotient(a: Any, b: Any) -> Any:
        """Division towards zero; by zero gives zero."""
        magnitude = z3.If(a >= 0, a, -a) / z3.If(b >= 0, b, -b)
        return z3.If(b == 0, 0, z3.If((a < 0) != (b < 0), -magnitude, magnitude))
