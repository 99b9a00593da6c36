"""What a small computation means: reducers, comparators, selectors and loop counters, read from their sub-graphs.

Dumps give the function of a reduce, sort or scatter as a graph over scalars. Arithmetic reducers are told by their one
op. Everything that only orders its arguments (compare, select, logic, constants) is told by evaluating it: its value
depends on nothing but the order type of its arguments and constants, so checking one representative of every order
type is a proof, however the compiler spelled it. What becomes of NaN is asked beside it (`keeps_nan`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import inf, isnan, nan, prod
from typing import Any

from scalify_dl.ir.graph import Graph, Op, Tensor

Value = Fraction | float | bool


class MinusZero(Fraction):
    """The zero that is below 0 in the total order, and else is 0."""


MINUS_ZERO = MinusZero(0)
ZERO, ONE = Fraction(0), Fraction(1)


def by_total_order(op: Op) -> bool:
    """Whether a comparison tells zeros of both signs apart."""
    return op.symbols.get("order") == ["total"]


ARITHMETIC = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
LOGICAL = {"sum": "or", "max": "or", "prod": "and", "min": "and"}
"""Reductions of booleans by their logical names."""

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
CASES_LIMIT = 20_000
"""Order types tried before a region counts as unrecognised."""
WIDER = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}
"""The float types that hold all numbers of one."""


def producers(ops: Iterable[Op]) -> dict[Tensor, Op]:
    """The op of every result."""
    return {result: op for op in ops for result in op.results}


def everywhere(tensor: Tensor, made: Mapping[Tensor, Op]) -> Fraction | None:
    """The number that every element is, where it is a constant, repeated."""
    op = made.get(tensor)
    while op is not None and op.kind in ("broadcast", "reshape"):
        op = made.get(op.operands[0])
    return op.result.literal.rational if op is not None and op.kind == "constant" and op.result.literal else None


def reducer(region: Graph) -> str | None:
    """The reduction of numbers that a function of two scalars is, where it is that of NaN, too; else None."""
    found = reducer_of_numbers(region)
    return found if found not in ("max", "min") or keeps_nan(region) else None


def keeps_nan(region: Graph) -> bool:
    """Whether a function that keeps the greater (or lesser) of two elements keeps NaN rather than any number.

    `select(a > b, a, b)` keeps b where a is NaN."""
    inputs = [port.tensor for port in region.inputs]
    if inputs[0].dtype[0] not in "fb":  # no real numbers
        return True
    places = len(region.outputs) > 1
    for first, second, kept in ((nan, ZERO, 0), (ZERO, nan, 1), (nan, nan, 0)):
        values = [first, ZERO, second, ONE] if places else [first, second]
        found = _evaluate(region, dict(zip(inputs, values, strict=True)))
        if found is None or not isnan(found[0]) or (places and found[1] != kept):
            return False
    return True


def reducer_of_numbers(region: Graph) -> str | None:
    """`sum max min prod and or xor` for a function of two scalars that is that reduction of numbers; `replace` for
    (old, new) → new; None for anything else. Converts to a wider float, and of the result back, do not change what is
    reduced; those to a narrower one do."""
    if len(region.inputs) != 2 or len(region.outputs) != 1:
        return None
    a, b = (port.tensor for port in region.inputs)
    made = producers(region.ops)
    out = region.outputs[0].tensor
    while (op := made.get(out)) is not None and op.kind == "convert" and op.operands[0].dtype in WIDER.get(a.dtype, ()):
        out = op.operands[0]
    if _narrow(out, made) is b:
        return "replace"
    op = made.get(out)
    if op is not None and op.kind in ARITHMETIC and len(op.operands) == 2:
        x, y = (_narrow(t, made) for t in op.operands)
        if {x, y} == {a, b}:
            found = ARITHMETIC[op.kind]
            return LOGICAL.get(found, found) if a.dtype == "pred" else found
    for name, meaning in (("max", max), ("min", min)):
        if _agrees(region, lambda x, y, meaning=meaning: (meaning(x, y),)):
            return LOGICAL[name] if a.dtype == "pred" else name
    return None


def index_reducer(region: Graph) -> str | None:
    """`argmax` or `argmin` for a function (value, index, value, index) → (value, index) that keeps the extreme value
    and, of equal ones, the lower index."""
    if len(region.inputs) != 4 or len(region.outputs) != 2:
        return None

    def keeps(better: Callable[[Value, Value], bool]) -> Callable[..., tuple[Value, ...]]:
        def meaning(v: Value, i: Value, w: Value, j: Value) -> tuple[Value, ...]:
            return (v, i) if better(v, w) or (v == w and i < j) else (w, j)

        return meaning

    for name, better in (("argmax", operator.gt), ("argmin", operator.lt)):
        if _agrees(region, keeps(better)):
            return name
    return None


def comparator(region: Graph) -> str | None:
    """`ASC` or `DESC` for a sort comparator (a0, b0, a1, b1, …) that orders by the first operand alone."""
    if len(region.inputs) < 2 or len(region.outputs) != 1:
        return None
    for name, less in (("ASC", operator.lt), ("DESC", operator.gt)):
        if _agrees(region, lambda a, b, *_, less=less: (less(a, b),), varying=2):
            return name
    return None


def total_comparator(region: Graph) -> str | None:
    """The same by the total order, in which minus zero is below zero."""
    for name, less in (("ASC", operator.lt), ("DESC", operator.gt)):
        if _agrees(region, lambda a, b, *_, less=less: (less(*map(_in_total_order, (a, b))),), varying=2):
            return name
    return None


def orders_nan(region: Graph, direction: str) -> bool:
    """Whether a comparator puts NaN above all numbers; where it compares as floats do, NaN has no place."""
    inputs = [port.tensor for port in region.inputs[:2]]
    if inputs[0].dtype[0] not in "fb":
        return True
    found = [_evaluate(region, dict(zip(inputs, values, strict=True))) for values in ((nan, ZERO), (ZERO, nan))]
    return found == [(direction == "DESC",), (direction == "ASC",)]


def selector(region: Graph) -> str | None:
    """`max` or `min` for the selector of a select-and-scatter (the earlier of equal elements stays)."""
    if len(region.inputs) != 2 or len(region.outputs) != 1:
        return None
    for name, keep in (("max", operator.ge), ("min", operator.le)):
        if _agrees(region, lambda a, b, keep=keep: (keep(a, b),)):
            return name
    return None


WRAPS = -1
"""Steps of a counting loop whose counter wraps round while its test holds: they are not known, and may have no end."""


def trip_count(cond: Graph, body: Graph, carried: Sequence[Tensor], made: dict[Tensor, Op]) -> int | None:
    """How often a counting loop runs: `for (i = first; i < last; i += step)` with constants; None for other loops.

    `carried` are the initial values, `made` the producers of the graph that they belong to.
    """
    inside = producers(cond.ops)
    test = inside.get(cond.outputs[0].tensor)
    if test is None or test.kind != "compare":
        return None
    inputs = [port.tensor for port in cond.inputs]
    invariant = {
        cond_port.tensor: carried[i]
        for i, (cond_port, port, out) in enumerate(zip(cond.inputs, body.inputs, body.outputs, strict=True))
        if port.tensor is out.tensor
    }

    def value(tensor: Tensor) -> int | None:
        return _integer(tensor, inside) if tensor not in invariant else _integer(invariant[tensor], made)

    direction = test.symbols["direction"][0]
    counter, bound = test.operands
    if counter not in inputs or counter in invariant:
        counter, bound = bound, counter
        direction = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    if counter not in inputs:
        return None
    index = inputs.index(counter)
    first, last = _integer(carried[index], made), value(bound)
    step = _step(body, index)
    if first is None or last is None or not step:
        return None
    if not COMPARE[direction](Fraction(first), Fraction(last)):
        return 0
    if direction == "EQ":
        trips = 1
    elif direction == "NE":
        trips, beside = divmod(last - first, step)
        if beside or trips < 0:
            return WRAPS
    else:
        if (step > 0) != (direction in ("LT", "LE")):
            return WRAPS
        trips = (abs(last - first) + (direction in ("LE", "GE")) + abs(step) - 1) // abs(step)
    return trips if _fits(first + trips * step, counter.dtype) else WRAPS


def _fits(number: int, dtype: str) -> bool:
    """Whether an integer type holds a number."""
    bits = int(dtype[1:])
    top: int = 1 << (bits if dtype[0] == "u" else bits - 1)
    return (0 if dtype[0] == "u" else -top) <= number < top


def _step(body: Graph, index: int) -> int | None:
    """The constant that a loop body adds to its carried value at `index`."""
    made = producers(body.ops)
    op = made.get(body.outputs[index].tensor)
    if op is None or op.kind not in ("add", "subtract"):
        return None
    counter = body.inputs[index].tensor
    x, y = op.operands
    if op.kind == "add" and y is counter:
        x, y = y, x
    step = _integer(y, made)
    if x is not counter or step is None:
        return None
    return step if op.kind == "add" else -step


def _integer(tensor: Tensor, made: dict[Tensor, Op]) -> int | None:
    """The value of an integer scalar constant."""
    op = made.get(tensor)
    if op is None or op.kind != "constant" or tensor.literal is None or tensor.literal.rational is None:
        return None
    value = tensor.literal.rational
    return value.numerator if value.denominator == 1 and tensor.dtype[0] in "su" else None


def _narrow(tensor: Tensor, made: dict[Tensor, Op]) -> Tensor:
    """What a tensor was before converts to wider float types."""
    while (op := made.get(tensor)) is not None and op.kind == "convert":
        inner = op.operands[0]
        if tensor.dtype not in WIDER.get(inner.dtype, ()):
            break
        tensor = inner
    return tensor


def _keeps(convert: Op, region: Graph) -> bool:
    """Whether a convert between floats changes no argument of the region: it widens, or goes back to a type that holds
    all of them."""
    before, after = convert.operands[0], convert.result.dtype
    if after in WIDER.get(before.dtype, ()):
        return True
    held = all(port.tensor.dtype == after or after in WIDER.get(port.tensor.dtype, ()) for port in region.inputs)
    return held and before.dtype in WIDER.get(after, ()) and before.literal is None


def _agrees(region: Graph, meaning: Callable[..., tuple[Value, ...]], varying: int | None = None) -> bool:
    """Whether an order-only region computes `meaning` for every order type of its first `varying` arguments.

    False where the region does arithmetic or looks at other arguments.
    """
    inputs = [port.tensor for port in region.inputs]
    count = len(inputs) if varying is None else varying
    constants = []
    for op in region.ops:
        if op.kind == "constant":
            literal = op.result.literal
            if literal is None or (literal.rational is None and literal.text not in ("inf", "-inf", "nan")):
                return False
            if literal.rational is not None and op.result.dtype != "pred":
                constants.append(literal.rational)
    zeros = [MINUS_ZERO, Fraction(0)] if any(map(by_total_order, region.ops)) else []
    domains = [[*_representatives(t, constants, count), *(zeros if t.dtype[0] in "fb" else [])] for t in inputs[:count]]
    if prod(map(len, domains)) > CASES_LIMIT:
        return False
    for values in product(*domains):
        results = _evaluate(region, dict(zip(inputs, values, strict=False)))
        if results is None or results != meaning(*values):
            return False
    return True


def _representatives(tensor: Tensor, constants: Sequence[Fraction], arguments: int) -> Iterator[Value]:
    """Values of every order type relative to the constants and to `arguments` - 1 other arguments."""
    if tensor.dtype == "pred":
        yield from (False, True)
        return
    points = sorted(set(constants))
    if tensor.dtype[0] not in "su":
        yield from (-inf, inf)
    yield from points
    edges = [points[0] - 1, *points, points[-1] + 1] if points else [Fraction(-1), Fraction(1)]
    spread = range(1, min(arguments, 3))
    for low, high in pairwise(edges):
        for i in (0, *spread):
            yield low + (high - low) * Fraction(i + 1, len(spread) + 2)


def _evaluate(region: Graph, values: dict[Tensor, Value]) -> tuple[Value, ...] | None:
    """Runs a region over scalars that only orders them; None where it does anything else."""
    for op in region.ops:
        if op.kind == "constant":
            literal = op.result.literal
            if literal is None:
                return None
            number: Value = literal.rational if literal.rational is not None else float(literal.text)
            values[op.result] = bool(number) if op.result.dtype == "pred" else number
            continue
        if any(t not in values for t in op.operands):
            continue  # depends on an argument that is not looked at
        args = [values[t] for t in op.operands]
        boolean = op.operands[0].dtype == "pred" if op.operands else False
        if op.kind == "compare":
            keys = [_in_total_order(value) for value in args] if by_total_order(op) else args
            values[op.result] = COMPARE[op.symbols["direction"][0]](keys[0], keys[1])
        elif op.kind == "select":
            values[op.result] = args[1] if args[0] else args[2]
        elif op.kind in ("maximum", "minimum") and any(map(isnan, args)):
            values[op.result] = nan
        elif op.kind in ("maximum", "minimum") and not any(value is MINUS_ZERO for value in args):
            values[op.result] = max(args) if op.kind == "maximum" else min(args)
        elif boolean and op.kind in ("and", "or", "xor", "not"):
            a, b = bool(args[0]), bool(args[-1])
            values[op.result] = {"and": a and b, "or": a or b, "xor": a != b, "not": not a}[op.kind]
        elif op.kind == "convert" and _keeps(op, region):
            values[op.result] = args[0]
        else:
            return None
    outputs = [port.tensor for port in region.outputs]
    return tuple(values[t] for t in outputs) if all(t in values for t in outputs) else None


def _in_total_order(value: Value) -> tuple[Value, ...]:
    """A key: NaN is above all, minus zero below zero."""
    return (True, 0, True) if isnan(value) else (False, value, value is not MINUS_ZERO)
