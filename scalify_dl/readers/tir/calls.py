"""Calls that are values: `T.exp(x)`, `T.Cast("float16", x)`, `T.ceildiv(n, 32)` …"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scalify_dl.oracle.dtypes import integer_limits, is_float, is_integer, largest, round_to
from scalify_dl.sizes import Size

from .syntax import Apply, Expr, Number
from .types import dtype_of, is_real

if TYPE_CHECKING:
    from .expressions import Reader

MODULES = frozenset(["T", "tir", "tl", "R", "tirx"])
"""Names under which the language is imported."""

UNARY = {
    "exp": "exponential", "exp2": "exp2", "log": "log", "log2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "tanh": "tanh", "sigmoid": "logistic", "erf": "erf", "sin": "sine", "cos": "cosine", "tan": "tan",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "nearbyint": "round-nearest-even", "abs": "abs",
    "fabs": "abs", "bitwise_not": "not", "log1p": "log-plus-one", "expm1": "exponential-minus-one",
}  # fmt: skip
BINARY = {
    "max": "maximum", "min": "minimum", "pow": "power", "power": "power", "floordiv": "floor-divide",
    "floormod": "floor-modulo", "truncdiv": "truncate-divide", "truncmod": "truncate-modulo", "Add": "add",
    "Sub": "subtract", "Mul": "multiply", "Div": "truncate-divide", "Mod": "truncate-modulo",
    "FloorDiv": "floor-divide",
    "FloorMod": "floor-modulo", "Max": "maximum", "Min": "minimum", "shift_left": "shift-left",
    "shift_right": "shift-right", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "LT": "LT",
    "LE": "LE", "GT": "GT", "GE": "GE", "EQ": "EQ", "NE": "NE",
}  # fmt: skip
REALS_ONLY = frozenset(UNARY.values()) - {"abs", "not"}
_PYTHON: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "len": len, "int": int, "float": float, "round": round, "sum": sum, "pow": pow,
    "bool": bool, "tuple": tuple, "list": tuple,
}  # fmt: skip


def called(reader: Reader, node: ast.Call) -> Any:
    """The value of a call."""
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id in MODULES:
        return _language(reader, node, function.attr)
    if isinstance(function, ast.Attribute) and function.attr == "astype":
        return cast(reader, node, reader.value(function.value), reader.value(node.args[0]))
    if isinstance(function, ast.Name) and function.id in _PYTHON and not reader.names.has(function.id):
        return _python(reader, node, function.id)
    if isinstance(function, ast.Attribute) and function.attr == "sqrt" and len(node.args) == 1:
        x = reader.value(node.args[0])
        if isinstance(x, (int, float)) and x >= 0:
            return float(x) ** 0.5
    reader.fail(node, f"the call `{ast.unparse(function)[:60]}` is not understood", expected="calls of the language T")


def _python(reader: Reader, node: ast.Call, name: str) -> Any:
    args = [reader.value(a) for a in node.args]
    flat = [x for a in args for x in (a if isinstance(a, tuple) else (a,))]
    if not node.keywords and all(isinstance(x, (int, float, str)) for x in flat):
        try:
            return _PYTHON[name](*args)
        except (TypeError, ValueError) as error:
            reader.fail(node, f"`{ast.unparse(node)[:60]}`: {error}")
    if name in ("min", "max") and len(args) == 2:
        return reader.apply(node, BINARY[name], *args)
    reader.fail(node, f"`{ast.unparse(node)[:60]}` of what is not known is not understood")


def _language(reader: Reader, node: ast.Call, name: str) -> Any:
    if node.keywords:
        reader.fail(node, f"the named argument `{node.keywords[0].arg}` of `T.{name}` is not understood")
    if (dtype := dtype_of(name)) is not None:
        return _typed(reader, node, dtype)
    if name in UNARY and len(node.args) == 1:
        return _unary(reader, node, UNARY[name])
    if name in BINARY and len(node.args) == 2:
        left, right = (reader.value(a) for a in node.args)
        if name == "Div" and is_real(reader.expression(node, left).dtype):
            return reader.apply(node, "divide", left, right)
        return reader.apply(node, BINARY[name], left, right)
    if name in ("Cast", "cast"):
        first, second = reader.value(node.args[0]), reader.value(node.args[1])
        return cast(reader, node, second, first) if isinstance(first, str) else cast(reader, node, first, second)
    if name in ("if_then_else", "Select") and len(node.args) == 3:
        found = reader.select(node, *(reader.value(a) for a in node.args))
        if name == "Select" and isinstance(found, Apply) and found.kind == "select":
            return replace(found, kind="eager-select")  # both values are computed, whatever is chosen
        return found
    if name in ("And", "Or"):
        return reader._joined(node, name.lower(), [reader.value(a) for a in node.args])
    if name == "Not":
        x = reader.value(node.args[0])
        return Apply("not", (reader.truth(node, x),), "pred", node.lineno)
    if name in ("likely", "unlikely"):
        return reader.value(node.args[0])
    if name in ("min_value", "max_value", "infinity"):
        dtype = reader.value(node.args[0])
        return _extreme(reader, node, name, dtype_of(dtype) or dtype if isinstance(dtype, str) else "")
    if name == "clamp" and len(node.args) == 3:
        x, low, high = (reader.value(a) for a in node.args)
        return reader.apply(node, "minimum", reader.apply(node, "maximum", x, low), high)
    if name in ("ceildiv", "cdiv"):
        x, by = (reader.value(a) for a in node.args)
        up = reader.apply(node, "subtract", reader.apply(node, "add", x, by), 1)
        return reader.apply(node, "floor-divide", up, by)
    reader.fail(node, f"`T.{name}` is not understood", hint="docs/kernels.md lists what is")


def _unary(reader: Reader, node: ast.Call, kind: str) -> Any:
    x = reader.expression(node, reader.value(node.args[0]))
    if kind in REALS_ONLY and not is_real(x.dtype):
        if not isinstance(x, Number):
            reader.fail(node, f"`{ast.unparse(node.func)}` of a whole number")
        x = Number(float(x.value), "real")
    return Apply(kind, (x,), "f32" if x.dtype == "real" else x.dtype, node.lineno)


def _typed(reader: Reader, node: ast.Call, dtype: str) -> Expr:
    if len(node.args) != 1:
        reader.fail(node, f"`{ast.unparse(node)[:60]}` is not understood")
    value = reader.value(node.args[0])
    if isinstance(value, str):
        if value.lstrip("+-") not in ("inf", "nan") or not is_float(dtype):
            reader.fail(node, f"`{ast.unparse(node)[:60]}` is no number")
        return Number(float(value), dtype)
    return cast(reader, node, value, dtype)


def cast(reader: Reader, node: ast.AST, value: Any, dtype: Any) -> Expr:
    """A value in another type."""
    name = dtype if isinstance(dtype, str) and (is_float(dtype) or is_integer(dtype) or dtype == "pred") else None
    if name is None and isinstance(dtype, str):
        name = dtype_of(dtype)
    if name is None:
        reader.fail(node, "the type of this cast is not known", expected="a type as in float16, int32")
    x = reader.expression(node, value)
    if x.dtype == name:
        return x
    if isinstance(x, Number) and isinstance(x.value, Size) and name != "pred":
        return Number(x.value, name)  # sizes are whole numbers that every type holds: the symbols' assumption
    if isinstance(x, Number) and (is_float(name) or isinstance(x.value, int)):
        if is_integer(name):
            low, high = integer_limits(name)
            if not low <= x.value <= high:
                reader.fail(node, f"{x.value} is none of {name}")
        if is_float(x.dtype) and is_float(name):
            return Number(_rounded(reader, node, x.value, x.dtype), name)
        if is_float(name):
            _rounded(reader, node, x.value, name)
        if name != "pred":
            return Number(x.value, name)
    return Apply("convert", (x,), name, getattr(node, "lineno", 0))


def _rounded(reader: Reader, node: ast.AST, value: float, dtype: str) -> float:
    """A constant as a type of reals holds it."""
    found = float(round_to(np.array(float(value)), dtype))
    if math.isinf(found) and not math.isinf(value):
        reader.fail(node, f"{value} is none of {dtype}")
    return found


def _extreme(reader: Reader, node: ast.AST, which: str, dtype: str) -> Number:
    if is_float(dtype):
        most = float("inf") if which == "infinity" else largest(dtype)
        return Number(-most if which == "min_value" else most, dtype)
    if is_integer(dtype) and which != "infinity":
        return Number(integer_limits(dtype)[which == "max_value"], dtype)
    reader.fail(node, f"T.{which} of this type is not known")
