"""Claims of arithmetic: is a term true on every rank, for every value of its leaf?

The checker's own reading of the terms of `datalog/terms.dl`. Rank by rank, a term becomes an expression in `x` alone.
Few values are tried one by one, for many or unbounded ones Z3 is asked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .plans import Tables
from .terms import Cell, Value

MOST = 200_000
"""Values of the leaf that are tried one by one, over all ranks."""
UNBOUNDED = 2**30
"""Stands for no bound in the rules."""
TIMEOUT_MS = 20_000

Expression = tuple[Any, ...]
"""("x",), ("const", value) or (operator, expressions…), equal ones being one object."""


def _quotient(a: int, b: int) -> int:
    """Towards zero; by zero gives zero."""
    if b == 0:
        return 0
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


_OPERATORS: dict[str, Any] = {
    "negate": lambda a: -a,
    "not": lambda a: int(a == 0),
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b),
    "floor-divide": lambda a, b: a // b if b else 0,
    "maximum": max,
    "minimum": min,
    "EQ": lambda a, b: int(a == b),
    "NE": lambda a, b: int(a != b),
    "LT": lambda a, b: int(a < b),
    "LE": lambda a, b: int(a <= b),
    "GT": lambda a, b: int(a > b),
    "GE": lambda a, b: int(a >= b),
    "and": lambda a, b: int(a != 0 and b != 0),
    "or": lambda a, b: int(a != 0 or b != 0),
    "xor": lambda a, b: int((a != 0) != (b != 0)),
    "choice": lambda c, a, b: a if c != 0 else b,
}


class Decider:
    """Decides claims over the ranks of one run; each claim once."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.known: dict[tuple[Value, ...], bool] = {}
        self.forms: dict[tuple[Any, ...], Expression] = {}
        self.digits: dict[int, dict[int, int]] = {}
        self.functions: dict[str, dict[int, int]] = defaultdict(dict)

    def decide(self, term: Value, lo: Value, hi: Value) -> bool:
        """Whether the term is true for all lo <= x <= hi on all ranks, as far as can be decided."""
        if not isinstance(lo, int) or not isinstance(hi, int):
            raise TypeError("the bounds of a claim are numbers")
        key = (term, lo, hi)
        if key not in self.known:
            self._read_ranks()
            forms = {id(form): form for form in (self._on(rank, term, {}) for rank in self.digits)}
            bounded = lo > -UNBOUNDED and hi < UNBOUNDED
            few = bounded and (hi - lo + 1) * len(forms) <= MOST
            self.known[key] = lo <= hi and all(_tried(f, lo, hi) if few else _solved(f, lo, hi) for f in forms.values())
        return self.known[key]

    def _read_ranks(self) -> None:
        if self.digits:
            return
        for rank, _, _ in self.tables.rows("rank_coord"):
            self.digits[rank] = {}  # type: ignore[index]
        for rank, atom, digit in self.tables.rows("rank_digit"):
            self.digits[rank][atom] = digit  # type: ignore
        for function, rank, value in self.tables.rows("rank_function"):
            self.functions[function][rank] = value  # type: ignore
        if not self.digits:
            raise ValueError("the facts have no ranks")

    def _form(self, operator: str, *parts: Any) -> Expression:
        """The expression of these parts; parts are compared as objects, for they share parts themselves."""
        key = (operator, *[id(part) if isinstance(part, tuple) else part for part in parts])
        return self.forms.setdefault(key, (operator, *parts))

    def _on(self, rank: int, term: Value, seen: dict[int, Expression]) -> Expression:
        """A term on one rank."""
        if not isinstance(term, Cell):
            raise TypeError(f"{term!r} is no term")
        found = seen.get(id(term))
        if found is not None:
            return found
        name, fields = term.items
        items: tuple[Any, ...] = fields.items  # type: ignore[union-attr]
        if name == "X":
            out = self._form("x")
        elif name == "Const":
            (value,) = items
            out = self._form("const", value)
        elif name == "Table":
            (function,) = items
            out = self._form("const", self.functions[function][rank])
        elif name == "Rank":
            base, weights = items
            atom = 0
            while weights is not None:
                weight, weights = weights.items
                base, atom = base + weight * self.digits[rank][atom], atom + 1
            out = self._form("const", base)
        elif name in ("Unary", "Binary", "Choice"):
            operator, *parts = ("choice", *items) if name == "Choice" else items
            if operator not in _OPERATORS:
                raise ValueError(f"the checker does not know the operator {operator!r}")
            out = self._form(operator, *[self._on(rank, part, seen) for part in parts])
        else:
            raise ValueError(f"{name!r} is no term")
        seen[id(term)] = out
        return out


def _tried(form: Expression, lo: int, hi: int) -> bool:
    def value(part: Expression, x: int, seen: dict[int, int]) -> int:
        if part[0] == "x":
            return x
        if part[0] == "const":
            return part[1]  # type: ignore[no-any-return]
        if id(part) not in seen:
            seen[id(part)] = _OPERATORS[part[0]](*[value(p, x, seen) for p in part[1:]])
        return seen[id(part)]

    return all(value(form, x, {}) != 0 for x in range(lo, hi + 1))


def _solved(form: Expression, lo: int, hi: int) -> bool:
    """Z3 finds no value for which the term is false."""
    import z3

    x, zero, one = z3.Int("x"), z3.IntVal(0), z3.IntVal(1)

    def down(a: Any, b: Any) -> Any:  # z3 rounds so that the remainder is not negative
        return z3.If(b > 0, a / b, (-a) / (-b))

    def towards_zero(a: Any, b: Any) -> Any:
        size = z3.If(a < 0, -a, a) / z3.If(b < 0, -b, b)
        return z3.If(b == 0, zero, z3.If((a < 0) == (b < 0), size, -size))

    def truth(condition: Any) -> Any:
        return z3.If(condition, one, zero)

    operators = {
        **{name: _OPERATORS[name] for name in ("negate", "add", "subtract", "multiply")},
        "not": lambda a: truth(a == 0),
        "divide": towards_zero,
        "remainder": lambda a, b: a - b * towards_zero(a, b),
        "floor-divide": lambda a, b: z3.If(b == 0, zero, down(a, b)),
        "maximum": lambda a, b: z3.If(a < b, b, a),
        "minimum": lambda a, b: z3.If(a < b, a, b),
        "EQ": lambda a, b: truth(a == b),
        "NE": lambda a, b: truth(a != b),
        "LT": lambda a, b: truth(a < b),
        "LE": lambda a, b: truth(a <= b),
        "GT": lambda a, b: truth(a > b),
        "GE": lambda a, b: truth(a >= b),
        "and": lambda a, b: truth(z3.And(a != 0, b != 0)),
        "or": lambda a, b: truth(z3.Or(a != 0, b != 0)),
        "xor": lambda a, b: truth((a != 0) != (b != 0)),
        "choice": lambda c, a, b: z3.If(c != 0, a, b),
    }
    seen: dict[int, Any] = {}

    def formula(part: Expression) -> Any:
        if id(part) not in seen:
            if part[0] == "x":
                seen[id(part)] = x
            elif part[0] == "const":
                seen[id(part)] = z3.IntVal(part[1])
            else:
                seen[id(part)] = operators[part[0]](*map(formula, part[1:]))
        return seen[id(part)]

    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    if lo > -UNBOUNDED:
        solver.add(x >= lo)
    if hi < UNBOUNDED:
        solver.add(x <= hi)
    solver.add(formula(form) == 0)
    return bool(solver.check() == z3.unsat)
