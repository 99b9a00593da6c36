"""Equalities that somebody's own rules state (`rewrite` facts, docs/algebra.md): read, and tried on numbers.

`rewrite("tan", "sine(x) / cosine(x)", "tan(x)")` says that elementwise ops of the first form compute what those of the
second do, for all reals x. A name without arguments is a variable; a function is an elementwise kind, with `_` for `-`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.literals import rational
from scalify_dl.ir.vocabulary import ARITY, ELEMENTWISE, words

from .meaning import MEANINGS, Call
from .program import Op, Tensor

Tree = tuple[Any, ...]
"""("any", name), ("number", exact value, text), or (kind, operands…)."""
OPERATORS = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.USub: "negate",
}
OF_REALS = ELEMENTWISE - words(
    """and or xor not clz popcnt compare complex convert bitcast-convert imag real is-finite reduce-precision select
    shift-left shift-right-arithmetic shift-right-logical"""
)
"""Kinds that make a real number of real numbers, without attributes."""
NEAR, NEAR_ZERO = 1e-6, 1e-9
POINTS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0.3, -1.7, 3.1, -4.2, 1e-3, -1e-3, 9.0, -12.0)
MOST_POINTS = 4000


@dataclass(frozen=True)
class Rewrite:
    """One equality: ops of the form `left` compute `right`."""

    name: str
    left: Tree
    right: Tree
    text: str


def read_rewrites(rows: Iterable[tuple[str, str, str]]) -> list[Rewrite]:
    """The rows of `rewrite`, in order of their names; InputError where one is no equality of the kind that is
    understood."""
    found = []
    for name, left, right in sorted(rows):
        try:
            first, second = (_tree(ast.parse(side, mode="eval").body, side) for side in (left, right))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _refused(name, f"`{left}` = `{right}` is not understood: {error}") from None
        extra = sorted({*variables(second)} - {*variables(first)})
        if extra:
            raise _refused(name, f"`{extra[0]}` stands on the right only")
        if first[0] in ("any", "number"):
            raise _refused(name, f"`{left}` is no op")
        found.append(Rewrite(name, first, second, f"{left} = {right}"))
    return found


def _refused(name: str, what: str) -> InputError:
    return InputError(
        f"the rewrite `{name}` cannot be used: {what}",
        expected="elementwise kinds of reals, variables and numbers, as in"
        ' rewrite("tan", "sine(x) / cosine(x)", "tan(x)")',
    )


def _tree(node: ast.expr, text: str) -> Tree:
    if isinstance(node, ast.Name):
        return ("any", node.id)
    if isinstance(node, ast.Constant):
        word = ast.get_source_segment(text, node) or ""
        value = rational(word) if type(node.value) in (int, float) else None
        if value is None:
            raise ValueError(f"`{word}` is no number")
        return ("number", Fraction(value), word)
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        operand = _tree(node.operand, text)
        if operand[0] == "number":
            return ("number", -operand[1], f"-{operand[2]}")
        return (OPERATORS[type(node.op)], operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return (OPERATORS[type(node.op)], _tree(node.left, text), _tree(node.right, text))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        kind = node.func.id.replace("_", "-")
        if kind not in OF_REALS:
            raise ValueError(f"`{kind}` is no elementwise kind of real numbers")
        if len(node.args) != ARITY[kind]:
            raise ValueError(f"`{kind}` has {ARITY[kind]} operands, not {len(node.args)}")
        return (kind, *(_tree(arg, text) for arg in node.args))
    raise ValueError(f"`{ast.get_source_segment(text, node)}`")


def variables(tree: Tree) -> Iterator[str]:
    """The names in it."""
    if tree[0] == "any":
        yield tree[1]
    elif tree[0] != "number":
        for part in tree[1:]:
            yield from variables(part)


def worth(tree: Tree, at: Mapping[str, Any]) -> Any:
    """What it is worth, in 64 bits."""
    if tree[0] == "any":
        return at[tree[1]]
    if tree[0] == "number":
        return np.float64(float(tree[1]))
    return computed(tree[0], [worth(part, at) for part in tree[1:]])


def computed(kind: str, operands: Sequence[Any]) -> Any:
    """What an op of that kind makes of numbers, in 64 bits."""
    arrays = list(np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in operands)))
    call = Call(Op(kind, kind, [""] * len(arrays), [kind]), 0, [Tensor(kind, "f64", arrays[0].shape)])
    return MEANINGS[kind](call, arrays)[0]


def where_false(rewrite: Rewrite) -> str | None:
    """Numbers for which both sides are worth something else, in words; None where none were found.

    Points lie on signs, zeros and ties, and at random. One side may be no number only where the other one is none.
    """
    names = sorted({*variables(rewrite.left)})
    rng = np.random.default_rng(20)
    grid = np.array([*product(POINTS, repeat=len(names))]) if len(POINTS) ** len(names) <= MOST_POINTS else None
    drawn = [rng.normal(size=(MOST_POINTS, len(names))) * scale for scale in (1, 5)]
    if grid is None:
        grid = rng.choice(POINTS, size=(MOST_POINTS, len(names)))
    points = np.concatenate([grid.reshape(-1, len(names)), *drawn])
    at = {name: points[:, i] for i, name in enumerate(names)}
    with np.errstate(all="ignore"):
        left, right = (np.broadcast_to(worth(side, at), len(points)) for side in (rewrite.left, rewrite.right))
        fits = np.abs(left - right) <= NEAR_ZERO + NEAR * np.maximum(np.abs(left), np.abs(right))
        fits |= (left == right) | (np.isnan(left) & np.isnan(right))
        large = ~np.isfinite(left) & ~np.isfinite(right)  # beyond the numbers of 64 bits on both sides
    if (fits | large).all() and fits.any():
        return None
    wrong = int(np.argmin(fits | large)) if not (fits | large).all() else 0
    where = ", ".join(f"{name} = {points[wrong, i]:.6g}" for i, name in enumerate(names)) or "all numbers"
    return f"for {where} the left side is {left[wrong]:.9g} and the right side {right[wrong]:.9g}"


def audited(rewrites: list[Rewrite]) -> list[Rewrite]:
    """These; InputError where one is false for some numbers."""
    for rewrite in rewrites:
        false = where_false(rewrite)
        if false:
            raise InputError(
                f"the rewrite `{rewrite.name}` is false: {rewrite.text}, but {false}",
                expected="both sides equal for all real numbers (`dlverify rules check` says so of a file)",
            )
    return rewrites
