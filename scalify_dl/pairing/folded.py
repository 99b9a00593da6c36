"""Numbers that one side computes of constants, and a compiler has computed for the other side.

`scores / jnp.sqrt(128).astype(bf16)` is a root and a cast in the program as it is traced, and the constant 11.31 where
XLA has folded it. What is computed of constants alone becomes the constant that the machine makes of it, if the other
side has that constant. That is listed: over the reals it is a root, and no decimal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.literals import PRECISION, Literal, rounded

WHY = "precision"
FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "cbrt": math.cbrt, "log": math.log, "log-plus-one": math.log1p, "exponential": math.exp,
    "exponential-minus-one": math.expm1, "power": math.pow, "tanh": math.tanh, "sine": math.sin, "cosine": math.cos,
    "convert": float, "negate": float.__neg__, "add": float.__add__, "subtract": float.__sub__,
    "multiply": float.__mul__, "divide": float.__truediv__, "reshape": float,
}  # fmt: skip
"""What ops of one element compute; each result is rounded to its type."""
RATIONAL = frozenset({"negate", "add", "subtract", "multiply", "divide", "reshape"})
"""Ops whose results rules know exactly (`datalog/graph/constants.dl`)."""
FEW = 2.0**24
"""Squares up to which nothing is rounded."""
SLACK = 2.0**-23
"""By how much functions of compilers may differ, relative to the result."""


def fold_alike(base: Graph, dists: Sequence[Graph]) -> None:
    """Replaces, in place, what either side computes of constants alone by the constant that the other side has for it.

    Numbers of one element of a real type that are no fractions, as far as is known."""
    theirs, ours = _constants([base]), _constants(dists)
    _fold(base, ours)
    for graph in dists:
        _fold(graph, theirs)


def _constants(graphs: Sequence[Graph]) -> dict[str, dict[float, Literal]]:
    """The numbers that graphs have as constants of one element, by type."""
    found: dict[str, dict[float, Literal]] = {}
    for op in chain.from_iterable(map(_all_ops, graphs)):
        if op.kind == "constant" and (value := _number(op.result)) is not None and op.result.literal is not None:
            found.setdefault(op.result.dtype, {})[value] = op.result.literal
    return found


def _all_ops(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        for region in op.regions:
            yield from _all_ops(region)


def _number(tensor: Tensor) -> float | None:
    """The number of a constant of one element, as its type has it if that is a real one."""
    if tensor.literal is None or tensor.literal.rational is None or math.prod(tensor.shape) != 1:
        return None
    value = float(tensor.literal.rational)
    return rounded(value, tensor.dtype) if tensor.dtype in PRECISION else value


def _fold(graph: Graph, others: dict[str, dict[float, Literal]]) -> None:
    known: dict[Tensor, float] = {}
    exact: set[Tensor] = set()
    irrational: set[Tensor] = set()
    for op in graph.ops:
        for region in op.regions:
            _fold(region, others)
        if op.kind == "constant":
            if (value := _number(op.result)) is not None:
                known[op.result] = value
                exact.add(op.result)
            continue
        if op.kind not in FUNCTIONS or not op.operands or any(x not in known for x in op.operands):
            continue
        result = op.result
        if math.prod(result.shape) != 1 or result.dtype not in PRECISION:
            continue
        try:
            computed = FUNCTIONS[op.kind](*(known[x] for x in op.operands))
            value = rounded(computed, result.dtype)
        except (ArithmeticError, ValueError, TypeError):
            continue
        if not math.isfinite(value):
            continue
        known[result] = value
        if exact.issuperset(op.operands) and value == computed and _is_exact(op, value, known):
            exact.add(result)
        if op.kind not in RATIONAL or any(x in irrational for x in op.operands):
            irrational.add(result)
        literal = _like(value, result.dtype, others) if result in irrational else None
        if literal is not None:
            if result not in exact:
                graph.assume(result, f"is {value:.9g}, to which what is computed of constants is rounded", WHY)
            op.kind, op.operands, op.numbers, op.symbols = "constant", [], {}, {}
            result.literal = literal


def _is_exact(op: Op, value: float, known: dict[Tensor, float]) -> bool:
    """Whether a number of few digits is what an op computes of small numbers over the reals, too."""
    if op.kind == "sqrt":
        return value * value == known[op.operands[0]] < FEW
    return op.kind == "convert"


def _like(value: float, dtype: str, others: dict[str, dict[float, Literal]]) -> Literal | None:
    """The constant of the other side to which a number is rounded, as far as functions of compilers are exact."""
    numbers = others.get(dtype, {})
    found = (numbers.get(rounded(value * (1 + slack), dtype)) for slack in (0.0, SLACK, -SLACK))
    return next((literal for literal in found if literal is not None), None)
