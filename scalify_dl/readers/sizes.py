"""Sizes that a dump leaves open (`f32[s77, 16]`, `tensor<?x16xf32>`): their formulas, and what they are at given sizes.

A dump says the dims of its inputs as formulas of symbols. Sizes are given by symbol (`s77`) or by input and dim
(`tokens:0`, `#0:1`); from given dims the symbols follow where a formula is linear in one of them. A given size is a
number, or a formula of a family's symbols: both are solved alike.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.expression import Expression

LIMIT = 2**31
MAX_NESTING = 40
_GIVEN = re.compile(r"\s*([^=]+?)\s*=\s*(\d{1,9})\s*\Z")
_PLACE = re.compile(r"#?(.+):(\d{1,3})\Z")


class NoFormula(ValueError):
    """A text that is no formula of sizes."""


@dataclass(frozen=True)
class Formula:
    """A formula of symbols as a dump prints it: `2*s39`, `(s77//4)`, `Min(16, s27)`, `floordiv(b, 2)`, `s77 >= 2`."""

    text: str
    symbols: frozenset[str]
    tree: ast.expr = field(compare=False, repr=False)

    @staticmethod
    @lru_cache(maxsize=65536)
    def parse(text: str) -> Formula:
        """NoFormula where the text is none."""
        try:
            tree = ast.parse(text.strip().replace("^", "**"), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NoFormula(f"`{text[:80]}` is no formula of sizes") from error
        names: set[str] = set()
        _check(tree, names, 0, 1)
        return Formula(text.strip(), frozenset(names), tree)

    def at(self, values: Mapping[str, int]) -> int:
        """The value at some sizes; NoFormula where it is no whole number. A comparison gives 0 or 1."""
        try:
            value = _evaluate(self.tree, values)
        except (ZeroDivisionError, OverflowError) as error:
            raise NoFormula(f"`{self.text}` has no value at {_listing(values)}") from error
        if value != int(value):
            raise NoFormula(f"`{self.text}` is {value} at {_listing(values)}")
        return int(value)

    @property
    def expression(self) -> Expression | None:
        """The same as sums of products, where it is such; a division counts as exact."""
        try:
            return _expression(self.tree)
        except ValueError:
            return None


_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: lambda a, b: Fraction(a) / b, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.BitAnd: lambda a, b: bool(a) and bool(b), ast.BitOr: lambda a, b: bool(a) or bool(b),
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "Min": min, "Max": max, "min": min, "max": max, "Mod": operator.mod, "PythonMod": operator.mod,
    "mod": operator.mod, "FloorDiv": operator.floordiv, "floordiv": operator.floordiv,
    "CleanDiv": operator.floordiv, "CeilDiv": lambda a, b: -(-a // b), "IntTrueDiv": lambda a, b: Fraction(a) / b,
    "FloatTrueDiv": lambda a, b: Fraction(a) / b, "ToFloat": lambda a: a, "TruncToInt": int, "FloorToInt": floor,
    "CeilToInt": ceil, "floor": floor, "ceiling": ceil, "Eq": operator.eq, "Ne": operator.ne, "Lt": operator.lt,
    "Le": operator.le, "Gt": operator.gt, "Ge": operator.ge, "Not": operator.not_,
    "And": lambda *a: all(a), "Or": lambda *a: any(a), "non_negative": lambda a: max(a, 0),
}  # fmt: skip
_DIVISIONS = ("FloorDiv", "floordiv", "CleanDiv", "IntTrueDiv")
MAX_POWER = 16
"""Largest power that a formula may have, powers of powers together."""


def _check(node: ast.expr, names: set[str], depth: int, degree: int) -> None:
    if depth > MAX_NESTING or degree > MAX_POWER:
        raise NoFormula("a formula of sizes that nests too deeply, or with too large a power")
    parts: Sequence[ast.expr]
    match node:
        case ast.Constant(value=int(value)) if abs(value) < 2**63:
            parts = ()
        case ast.Name(id=name):
            names.add(name)
            parts = ()
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=inner):
            parts = (inner,)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if power >= 0:
            parts = (left,)
            degree *= max(power, 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            parts = (left, right)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BINARY:
            parts = (left, right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and args:
            parts = args
        case _:
            raise NoFormula(f"`{ast.unparse(node)[:80]}` is no formula of sizes")
    for part in parts:
        _check(part, names, depth + 1, degree)


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluate(inner, values)
        case ast.UnaryOp(operand=inner):
            return not _evaluate(inner, values)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=power)):
            return _evaluate(left, values) ** power
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _BINARY[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _CALLS[name](*(_evaluate(arg, values) for arg in args))
    raise AssertionError(ast.dump(node))


def _expression(node: ast.expr) -> Expression:
    match node:
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return _expression(left) / _expression(right)
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _DIVISIONS:
            return _expression(left) / _expression(right)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _expression(left) + _expression(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _expression(left) - _expression(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _expression(left) * _expression(right)
    return Expression.parse(ast.unparse(node))


@dataclass(frozen=True)
class OpenInput:
    """An input of a dump: its position, what it may be called, its dims (numbers, or formulas).

    `path` is the name that both sides of a pair share; `whole` says that a rank's program has the whole value's dims
    here, because the dump itself says how it is placed.
    """

    position: int
    names: tuple[str, ...]
    dims: tuple[int | Formula, ...]
    path: str | None = None
    whole: bool = False

    @property
    def title(self) -> str:
        """What people call it."""
        return self.names[0] if self.names else f"#{self.position}"


@dataclass(frozen=True)
class OpenSizes:
    """What a dump says of its sizes: its inputs, and what must hold for the symbols."""

    inputs: tuple[OpenInput, ...] = ()
    constraints: tuple[Formula, ...] = ()
    file: str | None = None

    @property
    def symbols(self) -> list[str]:
        """The symbols of the inputs' dims, in order."""
        formulas = (d for port in self.inputs for d in port.dims if isinstance(d, Formula))
        return list(dict.fromkeys(name for formula in formulas for name in sorted(formula.symbols)))

    def where(self, symbol: str) -> str:
        """A dim that says a symbol, for messages and as a place: `tokens:0`."""
        dims = ((d, n, port) for port in self.inputs for n, d in enumerate(port.dims) if isinstance(d, Formula))
        found = sorted((len(d.text), port.position, n, port.title) for d, n, port in dims if symbol in d.symbols)
        return f"{found[0][3]}:{found[0][2]}"

    def check(self, values: Mapping[str, int]) -> None:
        """InputError for sizes that the dump rules out."""
        for name, value in values.items():
            if not 0 < value < LIMIT:
                raise InputError(f"{name} would be {value}", file=self.file, expected="sizes from 1 on, below 2^31")
        for formula in self.constraints:
            if formula.symbols <= values.keys() and not formula.at(values):
                raise InputError(
                    f"{_listing({n: values[n] for n in sorted(formula.symbols)})} violates `{formula.text}`",
                    file=self.file,
                    expected="sizes within the bounds that the program was exported with",
                )


@dataclass(frozen=True)
class Sizes:
    """Given sizes, by input and dim, and by symbol where dims do not tell; formulas of other symbols, or numbers."""

    symbols: Mapping[str, Expression] = field(default_factory=dict)
    dims: Mapping[tuple[str, int], Expression] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: Iterable[str]) -> Sizes:
        """Reads `s77=4`, `tokens:0=8`, perhaps several with commas between; InputError."""
        symbols: dict[str, Expression] = {}
        dims: dict[tuple[str, int], Expression] = {}
        for word in (part for text in words for part in text.split(",")):
            match = _GIVEN.match(word)
            if not match or int(match[2]) < 1:
                raise InputError(f"--size: `{word}`", expected="symbol=size or input:dim=size, such as tokens:0=8")
            place, value = _PLACE.match(match[1]), Expression.number(int(match[2]))
            if place:
                dims[place[1], int(place[2])] = value
            else:
                symbols[match[1]] = value
        return cls(symbols, dims)

    def solve(self, dump: OpenSizes) -> dict[str, Expression]:
        """The symbols of a dump; InputError where given sizes contradict each other, or leave a symbol open."""
        found: dict[str, Expression] = {}
        equations = _solved(list(self._equations(dump)), found, dump)
        found |= {name: value for name, value in self.symbols.items() if name in dump.symbols and name not in found}
        equations = _solved(equations, found, dump)
        missing = [name for name in dump.symbols if name not in found]
        if missing:
            places = [dump.where(name) for name in missing]
            shown = ", ".join(f"{name} (in {place})" for name, place in zip(missing, places, strict=True))
            raise InputError(
                f"sizes of the program are open: {shown}",
                file=dump.file,
                expected="a size for each: " + " ".join(f"--size {place}=8" for place in dict.fromkeys(places)),
                hint="or prove it for all: --symbolic "
                + ",".join(f"{_word(n)}={p}" for n, p in zip(missing, places, strict=True)),
            )
        for formula, _, where in equations:
            raise InputError(f"{where} is {formula.text}, which is not solved for its symbols", file=dump.file)
        return found

    def _equations(self, dump: OpenSizes) -> Iterable[Equation]:
        for port in dump.inputs:
            for n, dim in enumerate(port.dims):
                for key in (str(port.position), *port.names):
                    value = self.dims.get((key, n))
                    if value is None:
                        continue
                    where = f"dim {n} of {port.title}"
                    if isinstance(dim, Formula):
                        yield dim, value, where
                    elif value != Expression.number(dim):
                        raise InputError(f"{where} is {dim}, not {value}", file=dump.file)
                    break

    def unused(self, dumps: Sequence[OpenSizes]) -> str | None:
        """A given size that no dump has."""
        names = {name for dump in dumps for name in dump.symbols}
        inputs = {(key, n) for dump in dumps for port in dump.inputs for n in range(len(port.dims))
                  for key in (str(port.position), *port.names)}  # fmt: skip
        odd = [name for name in self.symbols if name not in names]
        odd += [f"{key}:{n}" for key, n in self.dims if (key, n) not in inputs]
        return odd[0] if odd else None


Equation = tuple[Formula, Expression, str]


def _solved(equations: list[Equation], found: dict[str, Expression], dump: OpenSizes) -> list[Equation]:
    """Takes in what can be solved; the equations that are left."""
    waiting = len(equations) + 1
    while equations and len(equations) < waiting:
        waiting = len(equations)
        equations = [e for e in equations if not _step(e, found, dump)]
    return equations


def _step(equation: Equation, found: dict[str, Expression], dump: OpenSizes) -> bool:
    """Takes one equation in: checks it, or solves it for its only symbol; False where it has to wait."""
    formula, value, where = equation
    unknown = formula.symbols - found.keys()
    if not unknown:
        numbers = {name: found[name].constant for name in formula.symbols}
        is_now: object
        if all(n is not None for n in numbers.values()):
            is_now = Expression.number(formula.at({name: int(n) for name, n in numbers.items() if n is not None}))
        else:
            expression = formula.expression
            is_now = None if expression is None else expression.put(found)
        if is_now != value:
            raise InputError(f"{where} is {formula.text} = {is_now}, not {value}", file=dump.file)
        return True
    expression = formula.expression
    if len(unknown) > 1 or expression is None:
        return False
    (name,) = unknown
    expression = expression.put(found)
    slope = [(p, c) for p, c in expression.terms if name in dict(p)]
    if len(slope) != 1 or slope[0][0] != ((name, 1),):
        return False
    rest = expression - Expression.of(slope)
    solved = (value - rest) / Expression.number(slope[0][1])
    number = solved.constant
    if number is not None and number.denominator != 1:
        raise InputError(f"{where} is {formula.text}: it cannot be {value}", file=dump.file)
    found[name] = solved
    return True


Resolve = Callable[[OpenSizes], Mapping[str, int]]
"""Gives the symbols of a dump their sizes, or raises InputError."""


def given_none(dump: OpenSizes) -> Mapping[str, int]:
    """No sizes are given: an error that says which are open."""
    return resolved(Sizes(), dump)


def resolved(sizes: Sizes, dump: OpenSizes) -> dict[str, int]:
    """The symbols of a dump at given sizes, its constraints checked."""
    values = numbers(sizes.solve(dump))
    dump.check(values)
    return values


def numbers(values: Mapping[str, Expression]) -> dict[str, int]:
    """Sizes that all are numbers, as such."""
    found = {name: value.constant for name, value in values.items()}
    if any(value is None for value in found.values()):
        raise AssertionError(f"{values} are not numbers")
    return {name: int(value) for name, value in found.items() if value is not None}


def _word(symbol: str) -> str:
    return re.sub(r"\W", "_", symbol)


def _listing(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


__all__ = ["Formula", "NoFormula", "OpenInput", "OpenSizes", "Resolve", "Sizes", "given_none", "numbers", "resolved"]
