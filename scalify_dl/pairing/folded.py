"""Numbers that one side computes of constants, and a compiler has computed for the other side.

`scores / jnp.sqrt(128).astype(bf16)` is a root and a cast in the program as it is traced, and the constant 11.31 where
XLA has folded it. What is computed of constants alone becomes the constant that the machine makes of it, if the other
side has that constant. For reals that is listed: a root is no decimal. Integers are exact, modulo what their type holds
(the seeds that `jax.random.fold_in` takes apart).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain

from scalify_dl.ir.dtypes import integers_of, is_integer
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.literals import PRECISION, Literal, rounded

from .named import all_ops

Number = float | int
Numbers = dict[str, dict[Number, Literal]]
"""Constants that are one number everywhere, by type and number."""

WHY = "precision"
KNOWN: dict[str, Callable[..., Fraction]] = {
    "convert": Fraction, "reshape": Fraction, "broadcast": Fraction, "negate": operator.neg, "add": operator.add,
    "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
}  # fmt: skip
"""Ops of fractions whose results rules know exactly (`datalog/graph/constants.dl`)."""
REALS: dict[str, Callable[..., float]] = {
    "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "cbrt": math.cbrt, "log": math.log,
    "log-plus-one": math.log1p, "exponential": math.exp, "exponential-minus-one": math.expm1, "power": math.pow,
    "tanh": math.tanh, "sine": math.sin, "cosine": math.cos, "convert": float, "negate": operator.neg,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "reshape": float, "broadcast": float,
}  # fmt: skip
"""What ops compute of numbers that are everywhere; each result is rounded to its type."""
INTEGERS: dict[str, Callable[..., int]] = {
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert, "negate": operator.neg,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "convert": int, "reshape": int,
    "broadcast": int,
    "shift-left": lambda x, by: x << by if 0 <= by < 64 else 0,
    "shift-right-logical": lambda x, by: x >> by if 0 <= by < 64 else 0,
}  # fmt: skip
"""The same of integers, each modulo what its type holds; what is shifted right is not negative."""
MOVES = frozenset(("reshape", "broadcast"))
POWERS = {"power": Fraction(1), "sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "cbrt": Fraction(1, 3)}
"""Functions that are powers, and of what exponent, where that is no operand."""
AT = {"exponential": 0, "exponential-minus-one": 0, "log": 1, "log-plus-one": 0, "tanh": 0, "sine": 0, "cosine": 0}
"""Where others are whole numbers."""
FEW, FEW_TIMES = 2.0**24, 64
"""Numbers up to which nothing is rounded, and exponents that are looked at."""
DIGITS = 24
"""Binary digits of f32, in the last of which functions of compilers may differ."""


def fold_alike(base: Graph, dists: Sequence[Graph]) -> int:
    """Replaces, in place, what either side computes of constants alone by the constant that the other side has for it.

    Numbers that are everywhere: reals that are no fractions, or are rounded on the way to one, and integers. Returns
    how many. Not for programs that stand for others of other sizes: their constants may be made of these."""
    theirs, ours = _constants([base]), _constants(dists)
    return _fold(base, base, ours) + sum(_fold(graph, graph, theirs) for graph in dists)


def _constants(graphs: Sequence[Graph]) -> Numbers:
    found: Numbers = {}
    for op in chain.from_iterable(map(all_ops, graphs)):
        if op.kind == "constant" and (value := _number(op.result)) is not None and op.result.literal is not None:
            found.setdefault(op.result.dtype, {})[value] = op.result.literal
    return found


def _number(tensor: Tensor) -> Number | None:
    """The number of a constant of one element, as its type has it."""
    if tensor.literal is None or tensor.literal.rational is None:
        return None
    value = tensor.literal.rational
    if tensor.dtype in PRECISION:
        return rounded(float(value), tensor.dtype)
    return int(value) if is_integer(tensor.dtype) and value.denominator == 1 else None


def _fold(graph: Graph, top: Graph, others: Numbers) -> int:
    folded = 0
    known: dict[Tensor, Number] = {}
    fractions: dict[Tensor, Fraction] = {}  # what rules know numbers to be
    exact: set[Tensor] = set()
    new: set[Tensor] = set()  # that rules do not know
    for op in graph.ops:
        for region in op.regions:
            folded += _fold(region, top, others)
        if op.kind == "constant":
            literal, value = op.result.literal, _number(op.result)
            if value is not None and literal is not None and literal.rational is not None:
                known[op.result], fractions[op.result] = value, literal.rational
                exact.add(op.result)
            continue
        operands = op.operands
        if not operands or operands[0] not in known or (computed := _computed(op, known)) is None:
            continue
        result = op.result
        known[result], is_exact = computed
        if is_exact and exact.issuperset(op.operands):
            exact.add(result)
        if (fraction := _fraction(op, fractions)) is not None:
            fractions[result] = fraction
        if fraction is None or _rounds(op, known[result], fraction):
            new.add(result)
        literal = None
        if result in new and op.kind not in MOVES:
            literal = _like(known[result], result.dtype, others, sure=result in exact)
        if literal is not None:
            if result not in exact:
                top.assume(result, f"is {known[result]:.9g}, to which what is computed of constants is rounded", WHY)
            op.kind, op.operands, op.numbers, op.symbols = "constant", [], {}, {}
            result.literal = literal
            folded += 1
    return folded


def _fraction(op: Op, fractions: dict[Tensor, Fraction]) -> Fraction | None:
    """What rules know an op to make of numbers; None where it is no fraction."""
    if op.kind not in KNOWN or any(x not in fractions for x in op.operands):
        return None
    values = [fractions[x] for x in op.operands]
    return None if op.kind == "divide" and values[1] == 0 else KNOWN[op.kind](*values)


def _rounds(op: Op, value: Number, fraction: Fraction) -> bool:
    """Whether the machine makes another number of it than the one nearest to the fraction."""
    if op.result.dtype not in PRECISION:
        return value != fraction
    return op.kind == "convert" or rounded(float(fraction), op.result.dtype) != value


def _computed(op: Op, known: dict[Tensor, Number]) -> tuple[Number, bool] | None:
    """What an op makes of known numbers, and whether that is exact."""
    if len(op.results) != 1 or any(x not in known for x in op.operands):
        return None
    dtype, values = op.result.dtype, [known[x] for x in op.operands]
    if is_integer(dtype):
        if op.kind not in INTEGERS or any(not isinstance(x, int) for x in values):
            return None
        if op.kind == "shift-right-logical" and values[0] < 0:
            return None
        return _wrapped(INTEGERS[op.kind](*values), dtype), True
    if dtype not in PRECISION or op.kind not in REALS:
        return None
    try:
        computed = REALS[op.kind](*map(float, values))
        value = rounded(computed, dtype)
    except (ArithmeticError, ValueError):
        return None
    if not math.isfinite(value):
        return None
    kept = value == computed and op.kind in ("convert", *MOVES)
    return value, kept or _is_exact(op.kind, [Fraction(x) for x in values], Fraction(value))


def _is_exact(kind: str, values: Sequence[Fraction], result: Fraction) -> bool:
    """Whether a function that is no fraction of its operands in general is exactly that number here."""
    first = values[0]
    if kind in POWERS:
        power = values[1] if kind == "power" else POWERS[kind]
        if first <= 0 or result <= 0 or max(abs(power.numerator), power.denominator) > FEW_TIMES:
            return False
        return first**power.numerator == result**power.denominator and max(first, result) < FEW
    return kind in AT and first == AT[kind]


def _wrapped(value: int, dtype: str) -> int:
    """The number of an integer type that is equal modulo how many it has."""
    numbers = integers_of(dtype)
    return (value - numbers.start) % (numbers.stop - numbers.start) + numbers.start


def _like(value: Number, dtype: str, others: Numbers, *, sure: bool) -> Literal | None:
    """The constant of the other side to which a number is rounded, as far as functions of compilers are exact."""
    numbers = others.get(dtype, {})
    if isinstance(value, int):
        return numbers.get(value)
    if value == 0:  # of either sign
        return None
    last = math.ldexp(1.0, math.frexp(value)[1] - DIGITS)
    found = (numbers.get(rounded(value + slack, dtype)) for slack in ((0.0,) if sure else (0.0, last, -last)))
    return next((literal for literal in found if literal is not None), None)
