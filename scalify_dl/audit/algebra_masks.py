"""Attacks the laws of masks that are large numbers: rows of scores, masked in many ways, and what is made of them.

    python -m scalify_dl.audit.algebra_masks [--count N] [--seed S]

A row has two or three scores with masks of several magnitudes, added or chosen, one upon another, scaled or not; it may
be masked altogether. Two ways to write it are compared as formulas, and in numbers of f32 or bf16,
which are rounded after each step. They may differ only where a need says so: a row that is not shown, precision.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from scalify_dl.algebra import extended, laws, numbers, truths
from scalify_dl.algebra.cells import as_cell
from scalify_dl.algebra.extended import Cell, finite
from scalify_dl.algebra.form import Field, Form, Undecided
from scalify_dl.algebra.huge import settled_cell
from scalify_dl.algebra.same import same
from scalify_dl.algebra.worth import Undefined, Worth

Tree = tuple[Any, ...]
VARIABLES = 3
MASKS = ("-1e9", "-1e30", "-1e37", "-2.38197633e38", "-3.38953139e38", "-3.40282347e38")
"""The last three: 0.7 of the least of f32, the least of bf16 and of f32."""
POINTS = ((0.5, -1.5, 2.0), (0.0, 1.0, -1.0), (1.0, 1.0, 1.0), (-0.7, -0.7, 0.3), (2.5, 0.0, 0.0), (-1.2, 3.1, -0.4))
ENDS = ("softmax", "bare", "blocks", "ratio", "hidden")
CLOSE = {"f32": 1e-3, "bf16": 0.15}
"""How far apart numbers of a type may be: ties are far enough from what is rounded."""


def draw(rng: random.Random) -> Tree:
    """What is made of a row of masked scores."""
    return (rng.choice(ENDS), tuple(_score(rng, rng.randint(0, 2)) for _ in range(rng.randint(2, 3))))


def _score(rng: random.Random, depth: int) -> Tree:
    if depth == 0:
        return ("x", rng.randrange(VARIABLES))
    inner, kind = _score(rng, depth - 1), rng.random()
    if kind < 0.15:
        return ("scaled", inner, rng.choice([Fraction(1, 2), 2, Fraction(1, 4)]))
    mask, truth = rng.choice(MASKS), (rng.choice(["GT", "GE"]), rng.randrange(VARIABLES), rng.choice([0, 1]))
    if kind < 0.9:
        return (rng.choice(["chosen", "added", "product"]), truth, inner, mask)
    return (rng.choice(["shifted", "back"]), truth, inner, mask)


def rewritten(rng: random.Random, tree: Tree) -> Tree:
    """Other ways to write it: right ones, and some that are a little wrong."""
    kind, *parts = tree
    if kind in ENDS:
        other = rng.choice(ENDS[:3]) if kind in ENDS[:3] else kind
        return (other, tuple(rewritten(rng, score) for score in parts[0]))
    if kind == "x":
        return tree
    if kind == "scaled":
        inner = rewritten(rng, parts[0])
        if inner[0] in ("chosen", "added") and rng.random() < 0.5:  # the mask is not scaled then
            return (inner[0], inner[1], ("scaled", inner[2], parts[1]), inner[3])
        return (kind, inner, parts[1])
    truth, inner, mask = parts
    inner = rewritten(rng, inner)
    if rng.random() < 0.3:
        mask = rng.choice(MASKS)
    if rng.random() < 0.1:
        truth = ("GE" if truth[0] == "GT" else "GT", *truth[1:])
    if rng.random() < 0.1:
        return inner
    if inner[0] in ("chosen", "added", "product") and rng.random() < 0.3:  # one mask below the other
        return (inner[0], inner[1], (kind, truth, inner[2], mask), inner[3])
    return (rng.choice(["chosen", "added", "product"]) if rng.random() < 0.5 else kind, truth, inner, mask)


class Formulas:
    """Trees as formulas."""

    def __init__(self, basis: Field) -> None:
        self.basis = basis

    def x(self, n: int) -> Cell:
        return self.basis.of(self.basis.element("input", n))

    def number(self, text: str) -> Cell:
        return numbers.literal(self.basis, text, "f32")

    def truth(self, direction: str, left: Cell, right: int) -> Form:
        a, b = finite(left, ""), self.basis.constant(right)
        return truths.greater(a, b) if direction == "GT" else self.basis.one - truths.greater(b, a)

    def plain(self, value: Any) -> Cell:
        return self.basis.constant(value)

    add, multiply, exp = staticmethod(extended.add), staticmethod(extended.multiply), staticmethod(extended.exponential)
    most, choose, negate = staticmethod(extended.maximum), staticmethod(extended.choose), staticmethod(extended.negate)

    @staticmethod
    def divide(a: Cell, b: Cell) -> Cell:
        return laws.divide(finite(a, ""), finite(b, ""))


def rounded(value: Any, dtype: str) -> Any:
    """A number of f32 as one of the type."""
    value = np.float32(value)
    if dtype == "f32" or not np.isfinite(value):
        return value
    bits = int(value.view(np.uint32))
    return np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


class Numbers:
    """Trees at a point, in numbers of a type, rounded after each step."""

    def __init__(self, at: tuple[float, ...], dtype: str) -> None:
        self.at, self.dtype = at, dtype

        def made(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *xs: rounded(function(*xs), dtype)

        self.add, self.multiply, self.divide, self.exp = map(made, (np.add, np.multiply, np.divide, np.exp))
        self.most, self.negate = np.maximum, np.negative

    def x(self, n: int) -> Any:
        return rounded(self.at[n], self.dtype)

    def number(self, text: str) -> Any:
        return rounded(text, self.dtype)

    def plain(self, value: Any) -> Any:
        return rounded(float(value), self.dtype)

    def truth(self, direction: str, left: Any, right: int) -> Any:
        return left > right if direction == "GT" else left >= right

    @staticmethod
    def choose(truth: Any, yes: Any, no: Any) -> Any:
        return yes if truth else no


def score(on: Any, tree: Tree) -> Any:
    """A masked score."""
    kind, *parts = tree
    if kind == "x":
        return on.x(parts[0])
    if kind == "scaled":
        return on.multiply(score(on, parts[0]), on.plain(parts[1]))
    (direction, n, limit), inner, mask = parts
    truth, low, value = on.truth(direction, on.x(n), limit), on.number(mask), score(on, inner)
    if kind == "chosen":
        return on.choose(truth, value, low)
    if kind == "added":
        return on.add(value, on.choose(truth, on.plain(0), low))
    if kind == "product":  # (1 − F)·mask
        return on.add(value, on.multiply(on.choose(truth, on.plain(0), on.plain(1)), low))
    if kind == "shifted":
        return on.add(value, low)
    return on.add(on.add(value, low), on.choose(truth, on.negate(low), on.plain(0)))


def made(on: Any, tree: Tree) -> Any:
    """What is made of a row."""
    kind, row = tree[0], [score(on, part) for part in tree[1]]
    if kind == "ratio":
        return on.exp(on.add(row[0], on.negate(row[1])))
    if kind == "hidden":
        return on.exp(row[0])
    if kind == "bare":
        weights = [on.exp(s) for s in row]
        return on.divide(weights[0], _sum(on, weights))
    if kind == "softmax":
        return _blocks(on, [row])
    return _blocks(on, [row[:1], row[1:]])


def _blocks(on: Any, blocks: list[list[Any]]) -> Any:
    """exp(s₀)/Σ exp(s), by blocks with maxima of their own."""
    top: Any = None
    total = first = None
    for block in blocks:
        most = _most(on, block)
        higher = most if top is None else on.most(top, most)
        weights = [on.exp(on.add(s, on.negate(higher))) for s in block]
        old = None if top is None else on.exp(on.add(top, on.negate(higher)))
        total = _sum(on, weights) if total is None else on.add(on.multiply(total, old), _sum(on, weights))
        first = weights[0] if first is None else on.multiply(first, old)
        top = higher
    return on.divide(first, total)


def _sum(on: Any, parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = on.add(total, part)
    return total


def _most(on: Any, parts: list[Any]) -> Any:
    top = parts[0]
    for part in parts[1:]:
        top = on.most(top, part)
    return top


def falsely_equal(rng: random.Random) -> tuple[bool, bool, str | None]:
    """Whether two ways to write a row are called equal, whether with precision listed, and where they differ."""
    tree, dtype = draw(rng), rng.choice([*CLOSE])
    other = rewritten(rng, tree)
    basis = Field(deadline=float("inf"))
    basis.huge = set()
    formulas = [settled_cell(as_cell(basis, made(Formulas(basis), it))) for it in (tree, other)]
    if not same(basis, *formulas):
        return False, False, None
    if any(need.what == "absorbed" for need in basis.needs):
        return True, True, None
    for at in POINTS:
        try:
            if not Worth(basis, at.__getitem__).allows():
                continue
        except (Undefined, OverflowError, ZeroDivisionError, ValueError):
            continue
        with np.errstate(all="ignore"):
            left, right = (float(made(Numbers(at, dtype), it)) for it in (tree, other))
        if not (np.isfinite(left) and np.isfinite(right)):  # the range of a type: executions tell
            continue
        if abs(left - right) > CLOSE[dtype] * max(1.0, abs(left)):
            return True, False, f"in {dtype} {tree} is {left} at {at}, and {other} is {right}"
    return True, False, None


def campaign(count: int, seed: int) -> tuple[int, int, list[str]]:
    """Random rows: how many pairs are called equal, of how many precision is listed, and what is wrong."""
    equal, listed, wrong = 0, 0, []
    for n in range(count):
        try:
            called, told, differs = falsely_equal(random.Random(f"masks/{seed}/{n}"))
        except Undecided:
            continue
        equal, listed = equal + called, listed + told
        wrong += [f"{seed}/{n}: {differs}"] if differs else []
    return equal, listed, wrong


def main() -> None:
    """Run a campaign; status 1 where two ways are called equal and differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    equal, listed, wrong = campaign(options.count, options.seed)
    print(f"{options.count:,} rows, {equal:,} pairs called equal, {listed:,} with precision, {len(wrong)} wrong")
    print("\n".join(wrong[:20]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
