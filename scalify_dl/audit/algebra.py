"""Attacks the algebra: random expressions, whose normal forms must be worth what the expressions are worth.

    python -m scalify_dl.audit.algebra [--count N] [--seed S]

Two expressions are called equal when their forms are one; so no form may differ from its expression at a point at which
all that it needs is so. Points lie on ties, zeros and signs; expressions mix powers, roots, exponentials, logarithms,
maxima, indicators, masks with −∞ and divisions. Numbers are Python's own floats.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from scalify_dl.algebra import elementwise, extended, laws, order
from scalify_dl.algebra.extended import Cell, Masked
from scalify_dl.algebra.finite import indicator
from scalify_dl.algebra.form import Field, Form, Undecided
from scalify_dl.algebra.permuted import by_places
from scalify_dl.algebra.same import same
from scalify_dl.algebra.worth import FUNCTIONS, Undefined, Worth, place

Tree = tuple[Any, ...]
VARIABLES = 3
POINTS = ((0.5, -1.5, 2.0), (0.0, 1.0, -1.0), (1.0, 1.0, 1.0), (-0.7, -0.7, 0.3), (2.5, 0.0, 0.0), (-1.2, 3.1, -0.4))
CONSTANTS = (0, 1, -1, 2, Fraction(1, 2), 3, Fraction(-3, 2), 4)
UNARY = FUNCTIONS
STEEP = frozenset(("sign", "cbrt"))
"""Functions that make much of how a zero is rounded."""
BINARY: dict[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": max,
    "minimum": min,
}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
}


def draw(rng: random.Random, depth: int) -> Tree:
    """A random expression."""
    if depth == 0 or rng.random() < 0.08:
        return ("x", rng.randrange(VARIABLES)) if rng.random() < 0.75 else ("c", rng.choice(CONSTANTS))
    kind = rng.random()
    if kind < 0.30:
        return (rng.choice(list(UNARY)), draw(rng, depth - 1))
    if kind < 0.80:
        left = draw(rng, depth - 1)
        right = left if rng.random() < 0.15 else draw(rng, depth - 1)
        return (rng.choice(list(BINARY)), left, right)
    if kind < 0.88:
        return (
            "power",
            draw(rng, depth - 1),
            rng.choice([2, 3, -1, -2, Fraction(1, 2), Fraction(-1, 2), Fraction(3, 2)]),
        )
    if kind < 0.95:
        truth = (rng.choice(list(COMPARISONS)), draw(rng, depth - 2 if depth > 1 else 0), draw(rng, 0))
        return ("select", truth, draw(rng, depth - 1), draw(rng, depth - 1))
    if kind < 0.975:
        row = tuple(draw(rng, depth - 2 if depth > 1 else 0) for _ in range(rng.randint(2, 3)))
        if rng.random() < 0.5:
            return ("ranked", row, rng.randrange(len(row)))
        return ("picked", row, rng.randrange(len(row)), tuple(draw(rng, 0) for _ in row))
    if kind > 0.99:
        truths = [(rng.choice(list(COMPARISONS)), draw(rng, 0), draw(rng, 0)) for _ in range(2)]
        return ("guarded", [(t, draw(rng, depth - 2 if depth > 1 else 0)) for t in truths], rng.choice(["top", "none"]))
    truth = (rng.choice(list(COMPARISONS)), draw(rng, 0), draw(rng, 0))
    return ("softmax", [(truth, draw(rng, depth - 2 if depth > 1 else 0)) for _ in range(2)], draw(rng, 1))


def formula(basis: Field, tree: Tree) -> Cell:
    """The normal form of an expression, by the functions that ops use."""
    kind = tree[0]
    if kind == "x":
        return basis.of(basis.element("input", tree[1]))
    if kind == "c":
        return basis.constant(tree[1])
    if kind == "power":
        return elementwise.BINARY["power"](formula(basis, tree[1]), basis.constant(tree[2]))
    if kind == "select":
        truth = _truth(basis, tree[1])
        return extended.choose(truth, formula(basis, tree[2]), formula(basis, tree[3]))
    if kind == "softmax":  # exp(s₀ − m)/Σ exp(sᵢ − m) of masked scores and one that is not
        low = extended.infinite(basis, -1)
        scores = [extended.choose(_truth(basis, t), formula(basis, s), low) for t, s in tree[1]]
        scores.append(formula(basis, tree[2]))
        top: Cell = low
        for score in scores:
            top = extended.maximum(top, score)
        weights = [extended.exponential(extended.add(s, extended.negate(top))) for s in scores]
        return laws.divide(weights[0], weights[0] + weights[1] + weights[2])
    if kind == "guarded":  # exp(s₀ − m) of masked scores; m of a row that is masked altogether is 0, or no number
        low = extended.infinite(basis, -1)
        scores = [extended.choose(_truth(basis, t), formula(basis, s), low) for t, s in tree[1]]
        top = extended.maximum(*scores)
        if tree[2] == "top":
            top = extended.choose(extended.equal(top, low), basis.zero, top)
        shown = [extended.greater(score, low) for score in scores]
        return extended.exponential(extended.add(scores[0], extended.negate(top))) + shown[1]
    if kind in ("ranked", "picked"):
        row = [extended.finite(formula(basis, part), kind) for part in tree[1]]
        if kind == "ranked":
            found = order.greatest(row, tree[2])
            assert found is not None
            return found
        leaf = order.place(row, tree[2])
        result = basis.zero
        for n, part in enumerate(tree[3]):
            result = result + indicator(basis, leaf, n) * extended.finite(formula(basis, part), kind)
        return result
    if kind in UNARY:
        function = elementwise.UNARY[kind]
        return (by_places(function) if len(repr(tree)) % 2 else function)(formula(basis, tree[1]))
    return elementwise.BINARY[kind](formula(basis, tree[1]), formula(basis, tree[2]))


def _truth(basis: Field, tree: Tree) -> Form:
    return elementwise.compared(tree[0], formula(basis, tree[1]), formula(basis, tree[2]))


def value(tree: Tree, at: tuple[float, ...]) -> float:
    """What an expression is worth. Undefined where it is too large to compare, or nearly tied."""
    kind = tree[0]
    if kind == "x":
        return at[tree[1]]
    if kind == "c":
        return float(tree[1])
    if kind == "power":
        base = value(tree[1], at)
        if base < 0 and Fraction(tree[2]).denominator > 1:
            raise ValueError("a root of a negative number")
        return _held(base ** float(tree[2]))
    if kind == "select":
        return value(tree[2] if _holds(tree[1], at) else tree[3], at)
    if kind == "softmax":
        scores = [value(s, at) if _holds(t, at) else -math.inf for t, s in tree[1]] + [value(tree[2], at)]
        weights = [math.exp(s - max(scores)) for s in scores]
        return weights[0] / sum(weights)
    if kind == "guarded":
        scores = [value(s, at) if _holds(t, at) else -math.inf for t, s in tree[1]]
        if max(scores) == -math.inf and tree[2] == "none":
            raise ValueError("a row that is masked altogether")
        return math.exp(scores[0] - max(scores) if max(scores) > -math.inf else -math.inf) + (scores[1] > -math.inf)
    if kind in ("ranked", "picked"):
        row = [value(part, at) for part in tree[1]]
        at_place = place(row, tree[2], max(map(abs, row)))
        return row[at_place] if kind == "ranked" else value(tree[3][at_place], at)
    arguments = [value(part, at) for part in tree[1:]]
    if kind in STEEP and 0 < abs(arguments[0]) < 1e-12:
        raise Undefined  # a zero, but for rounding
    return _held(UNARY[kind](*arguments) if kind in UNARY else BINARY[kind](*arguments))


def _held(number: float) -> float:
    if math.isfinite(number) and (abs(number) > 1e60 or 0 < abs(number) < 1e-60):
        raise Undefined
    return number


def _holds(tree: Tree, at: tuple[float, ...]) -> bool:
    left, right = value(tree[1], at), value(tree[2], at)
    if left != right and abs(left - right) <= 1e-9 * max(abs(left), abs(right)):
        raise Undefined  # a tie, but for rounding
    return COMPARISONS[tree[0]](left, right)


def disagreement(tree: Tree) -> str | None:
    """Where the form of an expression is not worth what it is; None where it is so at all points. Undecided."""
    basis = Field()
    cell = formula(basis, tree)
    if isinstance(cell, Masked):
        raise Undecided("it may be infinite")
    for at in POINTS:
        worth = Worth(basis, at.__getitem__)
        try:
            if not worth.allows():
                continue
            claimed = worth.form(cell)
            try:
                actual = value(tree, at)
            except (ValueError, ZeroDivisionError):
                return f"{tree} has no value at {at}, its form {claimed}"
        except (Undefined, OverflowError, ZeroDivisionError, ValueError):
            continue
        if not math.isfinite(actual) or abs(claimed - actual) > 1e-6 * max(worth.scale, abs(actual)):
            return f"{tree} is {actual} at {at}, its form {claimed}"
    return None


def rewritten(rng: random.Random, tree: Tree) -> Tree:
    """The expression with some of its parts written differently: most ways are right, some are not."""
    if tree[0] in ("x", "c"):
        return tree
    kind, *parts = tree
    if kind == "select":
        parts = [
            (parts[0][0], *(rewritten(rng, part) for part in parts[0][1:])),
            *(rewritten(rng, p) for p in parts[1:]),
        ]
    elif kind not in ("softmax", "guarded", "ranked", "picked"):
        parts = [rewritten(rng, part) if isinstance(part, tuple) else part for part in parts]
    ways = _ways(kind, parts)
    return rng.choice(ways) if ways and rng.random() < 0.6 else (kind, *parts)


def _turned(kind: str, a: Tree) -> list[Tree]:
    """The sine or cosine of a sum."""
    shift: Tree = ("x", 0)
    left = ("subtract", a, shift)
    first, second = ("sine", "cosine") if kind == "sine" else ("cosine", "sine")
    parts = ("multiply", (first, left), ("cosine", shift)), ("multiply", (second, left), ("sine", shift))
    return [("add", *parts), ("subtract", *parts)]


FACTORS: tuple[Tree, ...] = (("exponential", ("x", 0)), ("power", ("x", 1), 2), ("x", 0))
"""Above zero, not below zero, of any sign."""


def _within(kind: str, a: Tree, b: Tree, factor: Tree) -> Tree:
    """A maximum or minimum with a factor within it, divided by that again: right where it is above zero."""
    return ("divide", (kind, ("multiply", a, factor), ("multiply", factor, b)), factor)


def _ways(kind: str, parts: list[Any]) -> list[Tree]:
    """Other ways to write an op, right ones and wrong ones."""
    zero: Tree = ("c", 0)
    if kind in ("maximum", "minimum"):
        a, b = parts
        other = "minimum" if kind == "maximum" else "maximum"
        return [
            ("select", ("GT" if kind == "maximum" else "LT", a, b), a, b),
            ("select", ("GE" if kind == "maximum" else "LE", a, b), a, b),
            ("select", ("GT", a, b), b, a),
            ("negate", (other, ("negate", a), ("negate", b))),
            ("negate", (kind, ("negate", a), ("negate", b))),
            *(_within(kind, a, b, factor) for factor in FACTORS),
        ]
    if kind in ("abs", "relu"):
        (a,) = parts
        low: Tree = ("negate", a) if kind == "abs" else zero
        return [
            ("maximum", a, low),
            ("select", ("GE", a, zero), a, low),
            ("select", ("LT", a, zero), low, a),
            ("select", ("NE", a, zero), a, low),
            *(_within("maximum", a, low, factor) for factor in FACTORS),
        ]
    if kind == "select":
        (name, a, b), yes, no = parts
        turned = {"GT": "LE", "GE": "LT", "LT": "GE", "LE": "GT", "EQ": "NE", "NE": "EQ"}[name]
        looser = {"GT": "GE", "GE": "GT", "LT": "LE", "LE": "LT", "EQ": "LE", "NE": "GT"}[name]
        return [("select", (turned, a, b), no, yes), ("select", (looser, a, b), yes, no)]
    if kind == "ranked":
        row, j = parts
        turned_row = tuple(("negate", part) for part in row)
        return [
            ("picked", row, j, row),
            ("negate", ("ranked", turned_row, len(row) - 1 - j)),
            ("ranked", tuple(reversed(row)), j),
            ("ranked", row, (j + 1) % len(row)),
        ]
    if kind == "picked":
        row, j, shown = parts
        return [
            ("picked", tuple(("exponential", part) for part in row), j, shown),
            ("picked", tuple(("add", part, row[0]) for part in row), j, shown),
            ("picked", tuple(reversed(row)), j, tuple(reversed(shown))),
            ("picked", tuple(("abs", part) for part in row), j, shown),
        ]
    if kind in ("sine", "cosine"):
        return _turned(kind, parts[0])
    if kind == "softplus":
        (a,) = parts
        rest = ("log", ("add", ("c", 1), ("exponential", ("negate", ("abs", a)))))
        return [("add", ("relu", a), rest), ("add", ("maximum", a, ("c", 1)), rest)]
    if kind == "subtract":
        a, b = parts
        return [("negate", ("subtract", b, a)), ("add", a, ("negate", b))]
    if kind == "divide":
        a, b = parts
        return [("multiply", a, ("power", b, -1)), ("divide", ("multiply", a, b), ("power", b, 2))]
    return []


def false_equality(rng: random.Random) -> tuple[bool, str | None]:
    """Whether an expression and another way to write it are called equal, and where they are not."""
    tree = draw(rng, rng.randint(2, 4))
    other = rewritten(rng, tree)
    basis = Field()
    if not same(basis, formula(basis, tree), formula(basis, other)):
        return False, None
    for at in POINTS:
        worth = Worth(basis, at.__getitem__)
        try:
            if not worth.allows():
                continue
            left, right = value(tree, at), value(other, at)
        except (Undefined, OverflowError, ZeroDivisionError, ValueError):
            continue
        if abs(left - right) > 1e-6 * max(1.0, worth.scale, abs(left)):
            return True, f"{tree} is {left} at {at}, and {other} is {right}"
    return True, None


def campaign(count: int, seed: int) -> tuple[int, int, list[str]]:
    """Random expressions: how many have a form, how many pairs are called equal, and what is wrong."""
    followed, equal, wrong = 0, 0, []
    for n in range(count):
        rng = random.Random(f"{seed}/{n}")
        try:
            found = disagreement(draw(rng, rng.randint(2, 5)))
            followed += 1
            called, differs = false_equality(rng)
            equal += called
        except Undecided:
            continue
        wrong += [f"{seed}/{n}: {text}" for text in (found, differs) if text]
    return followed, equal, wrong


def main() -> None:
    """Run a campaign; status 1 where a form is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    followed, equal, wrong = campaign(options.count, options.seed)
    print(f"{options.count:,} expressions, {followed:,} with a form, {equal:,} pairs called equal, {len(wrong)} wrong")
    print("\n".join(wrong[:20]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
