"""Claims of arithmetic: is a term true on every rank, for every value of its leaf?

The checker's own reading of the terms of `datalog/integers/index_terms.dl`. Rank by rank, a term becomes an expression
in `x` alone.
Few values are tried one by one, for many or unbounded ones Z3 is asked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .closed import Closed
from .terms import Cell, Value

MOST = 200_000
"""Values of the leaf that are tried one by one, over all ranks."""
UNBOUNDED = 2**30
"""Stands for no bound in the rules."""
TIMEOUT_MS = 20_000

Expression = tuple[Any, ...]
"""("x",), ("const", value) or (operator, expressions…), equal ones being one object."""


def _operators(pick: Any, down: Any) -> dict[str, Any]:
    """Meanings, for numbers or for Z3's terms. `pick(c, a, b)`: a if c holds, else b; `down(a, b)`: a / b rounded down,
    for b > 0."""

    def truth(holds: Any) -> Any:
        return pick(holds, 1, 0)

    def size(a: Any) -> Any:
        return pick(a < 0, -a, a)

    def towards_zero(a: Any, b: Any) -> Any:
        out = down(size(a), pick(b == 0, 1, size(b)))
        return pick(b == 0, 0, pick((a < 0) == (b < 0), out, -out))

    def floor(a: Any, b: Any) -> Any:
        return pick(b == 0, 0, down(pick(b < 0, -a, a), pick(b == 0, 1, size(b))))

    return {
        "negate": lambda a: -a,
        "not": lambda a: truth(a == 0),
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": towards_zero,
        "remainder": lambda a, b: a - b * towards_zero(a, b),
        "floor-divide": floor,
        "maximum": lambda a, b: pick(a < b, b, a),
        "minimum": lambda a, b: pick(a < b, a, b),
        "EQ": lambda a, b: truth(a == b),
        "NE": lambda a, b: truth(a != b),
        "LT": lambda a, b: truth(a < b),
        "LE": lambda a, b: truth(a <= b),
        "GT": lambda a, b: truth(a > b),
        "GE": lambda a, b: truth(a >= b),
        "and": lambda a, b: pick(a != 0, truth(b != 0), 0),
        "or": lambda a, b: pick(a != 0, 1, truth(b != 0)),
        "xor": lambda a, b: truth((a != 0) != (b != 0)),
        "choice": lambda c, a, b: pick(c != 0, a, b),
    }


_NUMBERS = _operators(lambda c, a, b: a if c else b, lambda a, b: a // b)


class Decider:
    """Decides claims over the ranks of one run; each claim once."""

    def __init__(self, tables: Closed) -> None:
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
            if operator not in _NUMBERS:
                raise ValueError(f"the checker does not know the operator {operator!r}")
            out = self._form(operator, *[self._on(rank, part, seen) for part in parts])
        else:
            raise ValueError(f"{name!r} is no term")
        seen[id(term)] = out
        return out


def _value(form: Expression, x: Any, const: Any, operators: dict[str, Any], seen: dict[int, Any]) -> Any:
    """What an expression is worth at x."""
    if form[0] == "x":
        return x
    if id(form) not in seen:
        operator, *parts = form
        if operator == "const":
            return const(parts[0])
        seen[id(form)] = operators[operator](*[_value(part, x, const, operators, seen) for part in parts])
    return seen[id(form)]


def _tried(form: Expression, lo: int, hi: int) -> bool:
    return all(_value(form, x, int, _NUMBERS, {}) != 0 for x in range(lo, hi + 1))


def _solved(form: Expression, lo: int, hi: int) -> bool:
    """Z3 finds no value for which the term is false."""
    import z3

    x = z3.Int("x")
    operators = _operators(z3.If, lambda a, b: a / b)  # of integers, and for b > 0 Z3 rounds down
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    if lo > -UNBOUNDED:
        solver.add(x >= lo)
    if hi < UNBOUNDED:
        solver.add(x <= hi)
    solver.add(_value(form, x, z3.IntVal, operators, {}) == 0)
    return bool(solver.check() == z3.unsat)
