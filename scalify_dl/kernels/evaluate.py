"""Values of expressions in all lanes of a batch: known whole numbers as they are, all else by the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalify_dl.ir.dtypes import integers_of
from scalify_dl.oracle.arithmetic import EXACT
from scalify_dl.oracle.dtypes import integer_limits, is_float, precision
from scalify_dl.readers.tir.syntax import Apply, Expr, Load, Number, Var

from .domain import Array, Cells, Undecided
from .frame import Frame, Value

if TYPE_CHECKING:
    from .machine import Machine


def evaluate(machine: Machine, x: Expr, frame: Frame) -> Value:
    """The value of an expression; arrays broadcast to the batch."""
    match x:
        case Number(value=value, dtype=dtype):
            if is_float(dtype) or isinstance(value, float):
                return Cells(machine.domain.lift(np.array(value), "f64" if dtype == "real" else dtype))
            return np.array(value)
        case Var(name=name):
            if name not in frame.names:
                raise Undecided(f"`{name}` has no value here")
            return frame.lookup(name)
        case Load(buffer=buffer, indices=indices, line=line):
            found = [evaluate(machine, index, frame) for index in indices]
            return Cells(machine.load(buffer, found, frame, line))
    return applied(machine, x, frame)


def applied(machine: Machine, x: Apply, frame: Frame) -> Value:
    """The value of an op."""
    if x.kind == "eager-select":
        for a in x.args[1:]:
            evaluate(machine, a, frame)
    if x.kind in ("select", "eager-select"):
        return _selected(machine, x, frame)
    if x.kind in ("and", "or") and x.dtype == "pred":
        args = _joined(machine, x, frame)
    else:
        args = [evaluate(machine, a, frame) for a in x.args]
    before = x.args[0].dtype
    if all(not isinstance(a, Cells) for a in args) and not is_float(x.dtype) and not is_float(before):
        found = _known(x, [a for a in args if not isinstance(a, Cells)])
        if found is not None:
            return _held(found, x)
    cells = [as_cells(machine, a, e.dtype) for a, e in zip(args, x.args, strict=True)]
    if before in ("int", "real") and x.kind != "convert":
        before = "s32" if before == "int" else "f32"
    dtype = {"int": "s32", "real": "f32"}.get(x.dtype, x.dtype)
    if x.kind == "convert":
        machine.cast(before, dtype, x.line)
        before = {"int": "s32", "real": "f64"}.get(before, before)
    elif is_float(dtype) and x.kind not in EXACT and precision(dtype) < precision("f32"):
        machine.narrow.setdefault((x.line, dtype))
    return Cells(machine.domain.apply(x.kind, dtype, cells, before))


def _joined(machine: Machine, x: Apply, frame: Frame) -> list[Value]:
    """Both sides of `and` or `or`: the second one where the first does not decide, as `i < n and a[i] > 0` asks."""
    first = evaluate(machine, x.args[0], frame)
    known = machine.domain.known(first.array) if isinstance(first, Cells) else first
    if known is None:
        return [first, evaluate(machine, x.args[1], frame)]
    needed = known.astype(bool) if x.kind == "and" else ~known.astype(bool)
    second = evaluate(machine, x.args[1], frame.where(needed))
    if isinstance(second, Cells):
        second = Cells(np.where(needed, second.array, machine.domain.lift(np.array(x.kind == "and"), "pred")))
    return [first, second]


def as_cells(machine: Machine, value: Value, dtype: str) -> Array:
    """A value as elements."""
    return value.array if isinstance(value, Cells) else machine.domain.lift(value, {"int": "s32"}.get(dtype, dtype))


def _selected(machine: Machine, x: Apply, frame: Frame) -> Value:
    which = evaluate(machine, x.args[0], frame)
    if isinstance(which, Cells):
        known = machine.domain.known(which.array)
        if known is None:
            a, b = (as_cells(machine, evaluate(machine, e, frame), e.dtype) for e in x.args[1:])
            return Cells(machine.domain.apply("select", x.dtype, [which.array, a, b], x.dtype))
        which = known
    truth = which.astype(bool)
    yes = evaluate(machine, x.args[1], frame.where(truth))
    no = evaluate(machine, x.args[2], frame.where(~truth))
    if not isinstance(yes, Cells) and not isinstance(no, Cells):
        return np.where(truth, yes, no)
    return Cells(np.where(truth, as_cells(machine, yes, x.dtype), as_cells(machine, no, x.dtype)))


def _known(x: Apply, args: list[Array]) -> Array | None:
    """Whole numbers and truths by numpy, exactly; None where the domain is to do it."""
    a = args[0]
    if x.kind == "convert":
        return a.astype(bool) if x.dtype == "pred" else a.astype(np.int64) if _fits(a, x.dtype) else None
    if x.kind == "not":
        return ~a.astype(bool) if x.dtype == "pred" else ~a
    if x.kind in ("negate", "abs"):
        return np.asarray(-a if x.kind == "negate" else np.abs(a))
    if len(args) != 2:
        return None
    b = args[1]
    if x.kind in ("floor-divide", "floor-modulo", "truncate-divide", "truncate-modulo"):
        if np.any(b == 0):
            raise Undecided("a division by zero", x.line)
        if x.kind.startswith("floor"):
            return np.asarray(a // b if x.kind == "floor-divide" else a % b)
        quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
        return np.asarray(quotient if x.kind == "truncate-divide" else a - quotient * b)
    if x.dtype == "pred" and x.kind in ("and", "or", "xor"):
        a, b = a.astype(bool), b.astype(bool)
    function = _NUMPY.get(x.kind)
    if function is None:
        return None
    if x.kind.startswith("shift") and (np.any(b < 0) or np.any(b > 31) or np.any(np.abs(a) > 2**31)):
        raise Undecided("a shift by so much", x.line)
    return np.asarray(function(a, b))


def _held(found: Array, x: Apply) -> Array:
    """A whole number as its type holds it; index arithmetic, whose type the text does not say, stays within 32 bits."""
    if x.dtype == "pred" or _fits(found, "s32" if x.dtype == "int" else x.dtype):
        return found
    if x.dtype == "int":
        raise Undecided("index arithmetic beyond 32 bits", x.line)
    low, high = integer_limits(x.dtype)
    return np.asarray((found - low) % (high - low + 1) + low)


def _fits(a: Array, dtype: str) -> bool:
    if not dtype[1:].isdigit():
        return dtype == "int"
    numbers = integers_of(dtype)
    return bool(np.all((a >= numbers.start) & (a < numbers.stop)))


_NUMPY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "LT": np.less, "LE": np.less_equal,
    "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal, "shift-left": np.left_shift,
    "shift-right": np.right_shift,
}  # fmt: skip
