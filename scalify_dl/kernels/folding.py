"""What an op on numbers gives, and the few laws that make one node of several ways to write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from scalify_dl.oracle.dtypes import holds_all, integer_limits, is_float, is_integer, round_to

from . import extremes

if TYPE_CHECKING:
    from .domain import Array
    from .terms import Terms

ZERO, ONE, UNDEFINED = 0, 1, 2
"""Nodes that are always there."""
LOOKED_INTO: dict[str, tuple[str, ...]] = {
    "multiply": ("multiply",), "not": ("not",), "inverse": ("inverse",),
    **dict.fromkeys(extremes.COMPARISONS, extremes.PLACES),
}  # fmt: skip
"""Operands of which kinds laws of a kind look into, beside numbers."""
ALWAYS = frozenset(["power", "gather"])
"""Kinds that are looked at one by one."""
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b, "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b,
}  # fmt: skip
_INTEGERS: dict[str, Callable[..., int]] = {
    "subtract": lambda a, b: a - b, "negate": lambda a: -a, "abs": abs, "not": lambda a: ~a,
    "floor-divide": lambda a, b: a // b, "floor-modulo": lambda a, b: a % b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shift-left": lambda a, b: a << b,
    "shift-right": lambda a, b: a >> b,
    "truncate-divide": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "truncate-modulo": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}  # fmt: skip
_TRUTHS: dict[str, Callable[..., int]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: 1 - a,
}  # fmt: skip
Value = Fraction | float
INFINITY = float("inf")


def wrapped(value: int, dtype: str) -> int:
    """A whole number as an integer type holds it."""
    low, high = integer_limits(dtype)
    return (value - low) % (high - low + 1) + low


def simplified(terms: Terms, kind: str, code: int, dtype: str, row: tuple[int, ...]) -> int:
    """The node of an op on nodes of which some are numbers, or that a law looks into."""
    if kind == "select":
        return _selected(terms, code, row, dtype)
    if UNDEFINED in row:
        return UNDEFINED
    if kind == "multiply":
        return _product(terms, code, dtype, row)
    values = [terms.values.get(node) for node in row]
    if all(value is not None for value in values):
        found = _computed(kind, dtype, values, terms.names[code])
        if found is not None:
            return terms.number(found)
    if kind in COMPARED and len(set(row)) == 1 and terms.finite[row[0]]:
        return terms.number(Fraction(int(kind in ("LE", "EQ"))))
    if kind in COMPARED and (truth := extremes.compared(terms, kind, dtype, (row[0], row[1]))) is not None:
        return terms.number(Fraction(int(truth)))
    if kind in COMPARED and (found := _truth_compared(terms, kind, row, values)) is not None:
        return found
    if kind == "power" and values[1] is not None:
        return _power(terms, code, row, values[1])
    if kind == "convert" and (inner := _already(terms, row[0], terms.names[code])):
        return inner
    if kind in ("and", "or") and dtype == "pred":
        for one, other in (row, row[::-1]):
            if (value := terms.values.get(one)) is not None:
                return other if bool(value) == (kind == "and") else one
    if kind in ("not", "inverse") and terms.codes[row[0]] == code and kind == "not":
        return terms.args(row[0])[0]
    return terms.node(code, row, kind)


def _computed(kind: str, dtype: str, values: list[Any], name: str) -> Value | None:
    """What an op on numbers gives; None where it is not rational."""
    if kind in COMPARED:
        return Fraction(int(COMPARED[kind](*values)))
    infinite = any(isinstance(v, float) for v in values)
    if dtype == "pred" and kind in _TRUTHS and not infinite:
        return Fraction(_TRUTHS[kind](*(int(v) for v in values)))
    if is_integer(dtype) and kind in _INTEGERS:
        if ("divide" in kind and values[1] == 0) or ("modulo" in kind and values[1] == 0):
            return None
        if kind.startswith("shift") and not 0 <= values[1] < 64:
            return None
        return Fraction(wrapped(_INTEGERS[kind](*(int(v) for v in values)), dtype))
    x = values[0]
    if kind in ("exponential", "exp2"):
        return Fraction(1) if x == 0 else Fraction(0) if x == -INFINITY else None
    if kind == "inverse":
        return Fraction(0) if infinite else 1 / x if x else None
    if kind == "abs":
        return INFINITY if infinite else abs(x)
    if infinite:
        return None
    if kind == "sqrt" and x >= 0:
        up, down = math.isqrt(x.numerator), math.isqrt(x.denominator)
        return Fraction(up, down) if up * up == x.numerator and down * down == x.denominator else None
    if kind in ("floor", "ceil", "trunc"):
        return Fraction(math.floor(x) if kind == "floor" else math.ceil(x) if kind == "ceil" else math.trunc(x))
    if kind == "convert":
        return _cast(x, dtype, name)
    return None


def _cast(x: Fraction, dtype: str, name: str) -> Value | None:
    if dtype == "pred":
        return Fraction(int(x != 0))
    if is_integer(dtype):
        if name.startswith("wrap"):
            return Fraction(wrapped(int(x), dtype))
        low, high = integer_limits(dtype)
        return Fraction(min(max(math.trunc(x), low), high))
    if not is_float(dtype):
        return None
    if name.startswith("round") and float(x) == x:
        found = float(round_to(np.array(float(x)), dtype))
        return found if abs(found) == INFINITY or found != found else Fraction(found)
    return x if name == "real" else None


def _already(terms: Terms, node: int, name: str) -> int:
    """The operand of a rounding that does nothing, because the type holds what it is; else 0."""
    what, _, after = name.partition(":")
    if what != "round":
        return 0
    inner = terms.names[terms.codes[node]]
    held = inner.partition(":")[2] if inner.startswith("round:") else terms.leaf(node)[2] if inner == "input" else ""
    return node if is_float(held) and holds_all(after, held) else 0


def _selected(terms: Terms, code: int, row: tuple[int, ...], dtype: str) -> int:
    which, yes, no = row
    value = terms.values.get(which)
    if value is not None:
        return yes if value else no
    if terms.names[terms.codes[which]] == "not":
        return _selected(terms, code, (terms.args(which)[0], no, yes), dtype)
    yes, no = (_where(terms, code, x, dict(_literals(terms, which, t)), dtype) for x, t in ((yes, True), (no, False)))
    if yes == no:
        return yes
    found = extremes.chosen(terms, dtype, which, yes, no)
    return terms.node(code, (which, yes, no), "select") if found is None else found


def _literals(terms: Terms, which: int, truth: bool) -> Iterator[tuple[int, bool]]:
    """A condition, and what it is made of, where it is known to hold or not to."""
    yield which, truth
    name = terms.names[terms.codes[which]]
    if name == "not" or name == ("and" if truth else "or"):
        for part in terms.args(which):
            yield from _literals(terms, part, truth if name != "not" else not truth)


def _where(terms: Terms, code: int, node: int, known: dict[int, bool], dtype: str, depth: int = 6) -> int:
    """What a choice within a choice is, where some conditions are known."""
    if terms.codes[node] != code or not depth:
        return node
    which, yes, no = terms.args(node)
    found = _truth(terms, which, known)
    if found is not None:
        return _where(terms, code, yes if found else no, known, dtype, depth - 1)
    yes, no = (_where(terms, code, x, known, dtype, depth - 1) for x in (yes, no))
    left = _left(terms, which, known)
    return node if (left, yes, no) == terms.args(node) else _selected(terms, code, (left, yes, no), dtype)


def _left(terms: Terms, which: int, known: dict[int, bool]) -> int:
    """What decides a condition that is not known, where one part of it alone is not known."""
    if terms.names[terms.codes[which]] in ("and", "or"):
        parts = [part for part in terms.args(which) if _truth(terms, part, known) is None]
        if len(parts) == 1:
            return _left(terms, parts[0], known)
    return which


def _truth(terms: Terms, which: int, known: dict[int, bool]) -> bool | None:
    if which in known:
        return known[which]
    name = terms.names[terms.codes[which]]
    if name not in ("not", "and", "or"):
        return None
    parts = [_truth(terms, part, known) for part in terms.args(which)]
    if name == "not":
        return None if parts[0] is None else not parts[0]
    end = name == "or"
    return end if end in parts else None if None in parts else not end


def _truth_compared(terms: Terms, kind: str, row: tuple[int, ...], values: list[Any]) -> int | None:
    """A truth as 0 or 1 beside a number: it, its opposite, or neither; None where there is none."""
    at = 0 if values[0] is None else 1
    truth, beside = row[at], values[1 - at]
    if beside is None or values[at] is not None or not is_truth(terms, truth):
        return None
    no, yes = (COMPARED[kind](*((bit, beside) if at == 0 else (beside, bit))) for bit in (0, 1))
    if no == yes:
        return terms.number(Fraction(int(no)))
    return truth if yes else int(terms.apply("not", "pred", [np.array(truth)], "pred"))


def is_truth(terms: Terms, node: int) -> bool:
    """Whether a node is 0 or 1."""
    name = terms.names[terms.codes[node]]
    if name == "input":
        return terms.leaf(node)[2] == "pred"
    return name in _TRUTHS or name.partition(":")[0] in COMPARED or name == "truth"


def _power(terms: Terms, code: int, row: tuple[int, ...], exponent: Value) -> int:
    x = np.array(row[0])
    if exponent in (1, 2, 3):
        result = x
        for _ in range(int(exponent) - 1):
            result = terms.apply("multiply", "f32", [result, x], "f32")
        return int(result)
    if exponent == Fraction(1, 2):
        return int(terms.apply("sqrt", "f32", [x], "f32"))
    if exponent == Fraction(-1, 2):
        return int(terms.apply("rsqrt", "f32", [x], "f32"))
    return terms.node(code, row, "power")


def _product(terms: Terms, code: int, dtype: str, row: tuple[int, ...]) -> int:
    """A product of a number and what is no product, sorted."""
    factors: list[int] = []
    value: Value = Fraction(1)
    for node in row:
        parts = terms.args(node) if terms.codes[node] == code else (node,)
        for part in parts:
            known = terms.values.get(part)
            if known is None:
                factors.append(part)
            elif isinstance(known, float) or isinstance(value, float):
                if known == 0 or value == 0:
                    return UNDEFINED  # zero times infinity
                value = INFINITY if (known > 0) == (value > 0) else -INFINITY
            else:
                value = value * known
    if is_integer(dtype) and isinstance(value, Fraction):
        value = Fraction(wrapped(int(value), dtype))
    if not factors:
        return terms.number(value)
    if value == 0 and all(terms.finite[node] for node in factors):
        return 0
    if value != 1:
        factors.append(terms.number(value))
    factors.sort()
    if len(factors) == 1:
        return factors[0]
    if len(factors) > 2:
        return terms.node(code, tuple(factors), "multiply")
    table, key = terms.tables.setdefault(code, {}), (factors[0] << 32) | factors[1]
    if key not in table:
        made = terms._new(code, 1)
        terms.left[made], terms.right[made] = factors
        terms.finite[made] = bool(terms.finite[factors].all())
        table[key] = made
    return table[key]


def combined(terms: Terms, family: str, row: Array) -> int:
    """The node of a sum, maximum or minimum of nodes that are none of that kind."""
    if np.any(row == UNDEFINED):
        return UNDEFINED
    kind, _, dtype = family.partition(":")
    numbers = terms.codes[row] == 0
    values = [terms.values[node] for node in row[numbers].tolist()]
    rest = np.sort(row[~numbers])
    if kind == "add":
        return _sum(terms, family, dtype, values, rest)
    best: Value | None = None
    if values:
        best = max(values) if kind == "maximum" else min(values)
        if isinstance(best, float) and (best < 0) == (kind == "maximum") and len(rest):
            best = None
    rest = np.unique(rest)
    if best is not None:
        rest = np.sort(np.append(rest, terms.number(best)))
    return int(rest[0]) if len(rest) == 1 else terms.listed(family, rest)


def _sum(terms: Terms, family: str, dtype: str, values: list[Value], rest: Array) -> int:
    total: Value = Fraction(0)
    for value in values:
        if isinstance(value, float) and isinstance(total, float) and value != total:
            return UNDEFINED  # infinity minus infinity
        total = total if isinstance(total, float) else value if isinstance(value, float) else total + value
    if dtype and isinstance(total, Fraction):
        total = Fraction(wrapped(int(total), dtype))
    if not dtype and len(rest) > 1:
        rest = _cancelled(terms, rest)
    dot = terms.codes[rest] == terms.code("dot" if not dtype else f"dot:{dtype}")
    if dot.sum() > 1:
        one = terms.dots.merged(rest[dot].tolist(), dtype or "f32")
        rest = np.sort(np.append(rest[~dot], one))
    if isinstance(total, float) and bool(terms.finite[rest].all()):
        return terms.number(total)
    if total != 0:
        rest = np.sort(np.append(rest, terms.number(total)))
    if len(rest) == 0:
        return 0
    return int(rest[0]) if len(rest) == 1 else terms.listed(family, rest)


def _cancelled(terms: Terms, rest: Array) -> Array:
    """Without pairs of x and −x, both finite."""
    minus = terms.number(Fraction(-1))
    code = terms.code("multiply")
    negated = (terms.codes[rest] == code) & ((terms.left[rest] == minus) | (terms.right[rest] == minus))
    if not negated.any():
        return rest
    left = rest.tolist()
    for node in rest[negated].tolist():
        args = terms.args(node)
        if len(args) != 2:
            continue
        other = args[0] if args[1] == minus else args[1]
        if other in left and node in left and terms.finite[other]:
            left.remove(other)
            left.remove(node)
    return np.array(left, dtype=np.int64)
