"""Exact decision of small finite cases: every rank, every value of the leaf, with numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from .formula import Formula, Term

Ints = npt.NDArray[np.int64]

MOST = 1_000_000
"""Pairs of rank and leaf value that are worth enumerating."""
_SAFE = 2**62


@dataclass(frozen=True)
class Witness:
    """Where a formula fails: the digits of the rank, its place among listed ranks, the value of the leaf."""

    digits: tuple[int, ...]
    place: int
    x: int


def places(formula: Formula) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The ranks that a formula ranges over: number and digits."""
    return enumerate(formula.ranks) if formula.ranks else enumerate(product(*map(range, formula.sizes)))


def count(formula: Formula) -> int | None:
    """Pairs of rank and leaf value, None if there is no bound."""
    if formula.lo is None or formula.hi is None:
        return None
    return (len(formula.ranks) or math.prod(formula.sizes)) * max(formula.hi - formula.lo + 1, 0)


def enumerable(formula: Formula) -> bool:
    """Few enough cases, and no number leaves 62 bits."""
    n = count(formula)
    return n is not None and n <= MOST and magnitude(formula.term, formula) < _SAFE


def magnitude(term: Term, formula: Formula) -> int:
    """A bound on the absolute value of a term and of all its parts."""
    match term:
        case ("x",):
            return max(abs(formula.lo or 0), abs(formula.hi or 0))
        case ("const", v):
            return abs(int(v))
        case ("rank", base, weights):
            return abs(int(base)) + sum(abs(int(w)) * (s - 1) for w, s in zip(weights, formula.sizes, strict=True))
        case ("table", values):
            return max((abs(int(v)) for v in values), default=0)
    parts = [magnitude(a, formula) for a in term[1:]]
    if term[0] == "multiply":
        return parts[0] * parts[1]
    return sum(parts) if term[0] in ("add", "subtract") else max(1, *parts)


def refute(formula: Formula) -> Witness | None:
    """A case in which the formula is false, None if it is true in all. Only for `enumerable` formulas."""
    assert formula.lo is not None
    assert formula.hi is not None
    xs = np.arange(formula.lo, formula.hi + 1, dtype=np.int64)
    for place, digits in places(formula):
        with np.errstate(divide="ignore"):
            truth = value(formula.term, xs, digits, place)
        wrong = np.flatnonzero(np.broadcast_to(truth, xs.shape) == 0)
        if wrong.size:
            return Witness(digits, place, int(xs[wrong[0]]))
    return None


def value(term: Term, xs: Any, digits: tuple[int, ...], place: int) -> Any:
    """A term on one rank for all values of the leaf; division truncates, division by zero gives zero."""
    match term:
        case ("x",):
            return xs
        case ("const", v):
            return np.int64(v)
        case ("rank", base, weights):
            return np.int64(base + sum(w * d for w, d in zip(weights, digits, strict=True)))
        case ("table", values):
            return np.int64(values[place])
        case ("choice", c, a, b):
            return np.where(value(c, xs, digits, place) != 0, value(a, xs, digits, place), value(b, xs, digits, place))
    return _apply(term[0], [value(a, xs, digits, place) for a in term[1:]])


def _quotient(a: Ints, b: Ints) -> Any:
    whole = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return np.where(b == 0, 0, np.where((a < 0) != (b < 0), -whole, whole))


def _apply(op: str, args: list[Any]) -> Any:
    a, *rest = args
    if op == "negate":
        return -a
    if op == "not":
        return np.int64(1) - (a != 0)
    (b,) = rest
    match op:
        case "add":
            return a + b
        case "subtract":
            return a - b
        case "multiply":
            return a * b
        case "divide":
            return _quotient(a, b)
        case "remainder":
            return a - b * _quotient(a, b)
        case "floor-divide":
            return np.where(b == 0, 0, a // np.where(b == 0, 1, b))
        case "maximum":
            return np.maximum(a, b)
        case "minimum":
            return np.minimum(a, b)
        case "EQ" | "NE" | "LT" | "LE" | "GT" | "GE":
            ops = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater}
            return ops.get(op, np.greater_equal)(a, b).astype(np.int64)
        case "and":
            return ((a != 0) & (b != 0)).astype(np.int64)
        case "or":
            return ((a != 0) | (b != 0)).astype(np.int64)
        case "xor":
            return ((a != 0) ^ (b != 0)).astype(np.int64)
    raise ValueError(f"no such operation: {op}")
