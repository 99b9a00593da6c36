"""Shape-polymorphic StableHLO at given sizes: what is computed from sizes is folded, `dynamic_X` becomes the static X.

Sizes are known where a module is lowered (`get_dimension_size` is a number), so every integer that follows from sizes
alone is known as well, and the ops that take a shape as an operand have it. What remains are the ops of the program of
these sizes. Integers are folded as the ops compute them: divisions round to zero, overflow is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from scalify_dl.errors import InputError

from .elementwise import comparison
from .scope import FOLDS, Known, Site, Value, lowers
from .structural import expand
from .types import agrees


def _quotient(a: int, b: int) -> int:
    """Rounded to zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip
ELEMENTWISE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b),
    "maximum": max,
    "minimum": min,
    "negate": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "select": lambda condition, a, b: a if condition else b,
    "clamp": lambda low, x, high: min(max(low, x), high),
}
LOGIC: dict[str, Callable[..., bool]] = {
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a, "xor": lambda a, b: a != b,
    "add": lambda a, b: a or b, "multiply": lambda a, b: a and b, "maximum": lambda a, b: a or b,
    "minimum": lambda a, b: a and b,
}  # fmt: skip
"""On booleans."""


def _bounds(dtype: str) -> tuple[int, int]:
    if dtype == "pred":
        return 0, 1
    bits = int(dtype[1:])
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def elementwise(site: Site, operands: list[Known]) -> tuple[int, ...] | None:
    """One function of every element; scalars stand for all elements."""
    name = site.op.name.partition(".")[2]
    dtype, shape = site.type
    function: Callable[..., Any] | None
    if name == "compare":
        function = COMPARE[comparison(site.text("comparison_direction"))]
    elif operands[-1].dtype == "pred" and name != "select":
        function = LOGIC.get(name)
    else:
        function = ELEMENTWISE.get(name)
    if function is None:
        return None
    if name in ("divide", "remainder") and 0 in operands[1].items:
        raise InputError(f"`{site.op.name}` of sizes divides by zero")
    count = prod(shape)
    columns = [o.items * count if len(o.items) == 1 else o.items for o in operands]
    items = tuple(int(function(*(column[i] for column in columns))) for i in range(count))
    low, high = _bounds(dtype)
    if not all(low <= item <= high for item in items):
        raise InputError(f"`{site.op.name}` of sizes overflows {dtype}: {items[0]}")
    return items


for _name in {*ELEMENTWISE, *LOGIC, "compare"}:
    FOLDS[f"stablehlo.{_name}"] = elementwise


def convert(site: Site, operands: list[Known]) -> tuple[int, ...] | None:
    """Between integer types; a value that does not fit stays an op."""
    low, high = _bounds(site.type[0])
    items = operands[0].items
    if site.type[0] == "pred":
        return tuple(int(item != 0) for item in items)
    return items if all(low <= item <= high for item in items) else None


def reshape(site: Site, operands: list[Known]) -> tuple[int, ...] | None:
    """The same items."""
    return operands[0].items if prod(site.type[1]) == len(operands[0].items) else None


def broadcast(site: Site, operands: list[Known]) -> tuple[int, ...] | None:
    """A size repeated; other forms, and constants, stay ops."""
    (x,) = operands
    return x.items * prod(site.type[1]) if isinstance(site.values[0], Known) and len(x.items) == 1 else None


def concatenate(site: Site, operands: list[Known]) -> tuple[int, ...] | None:
    """Vectors one behind the other."""
    return tuple(item for x in operands for item in x.items) if len(site.type[1]) == 1 else None


def slice_(site: Site, operands: list[Known]) -> tuple[int, ...] | None:
    """A part of a vector."""
    if len(operands[0].shape) != 1:
        return None
    (start,), (limit,), (stride,) = (site.numbers(key) for key in ("start_indices", "limit_indices", "strides"))
    return operands[0].items[start:limit:stride]


FOLDS |= {
    "stablehlo.convert": convert,
    "stablehlo.reshape": reshape,
    "stablehlo.broadcast_in_dim": broadcast,
    "stablehlo.concatenate": concatenate,
    "stablehlo.slice": slice_,
}


@lowers("stablehlo.get_dimension_size")
def dimension_size(site: Site) -> list[Value]:
    """A size is known."""
    value, dimension = site.values[0], site.number("dimension")
    shape = value.shape if value is not None else ()
    if not 0 <= dimension < len(shape):
        raise InputError(f"`{site.op.name}`: no dim {dimension} in a value with {len(shape)} dims")
    return [Known("s32", (), (shape[dimension],), site.about)]


@lowers("stablehlo.dynamic_broadcast_in_dim")
def dynamic_broadcast(site: Site) -> list[Value]:
    """A broadcast to a shape that is an operand."""
    shape = declared(site, site.sizes(1))
    return [expand(site, site.operand(0), shape, site.numbers("broadcast_dimensions"))]


@lowers("stablehlo.dynamic_reshape")
def dynamic_reshape(site: Site) -> list[Value]:
    """Row-major."""
    x, shape = site.operand(0), declared(site, site.sizes(1))
    return [x if x.shape == shape else site.emit("reshape", [x], (site.type[0], shape))]


@lowers("stablehlo.dynamic_iota")
def dynamic_iota(site: Site) -> list[Value]:
    """Index along a dim."""
    shape = declared(site, site.sizes(0))
    return [site.emit("iota", [], (site.type[0], shape), numbers={"dimension": [site.number("iota_dimension")]})]


@lowers("stablehlo.dynamic_pad")
def dynamic_pad(site: Site) -> list[Value]:
    """Padding by numbers that are operands."""
    low, high, interior = (list(site.sizes(n)) for n in (2, 3, 4))
    if not any((*low, *high, *interior)):
        return [site.operand(0)]
    numbers = {"low": low, "high": high, "interior": interior}
    return [site.emit("pad", [site.operand(0), site.operand(1)], numbers=numbers)]


@lowers("stablehlo.real_dynamic_slice")
def real_dynamic_slice(site: Site) -> list[Value]:
    """Bounds that are operands."""
    x = site.operand(0)
    start, limit, stride = (list(site.sizes(n)) for n in (1, 2, 3))
    if start == [0] * len(start) and limit == list(x.shape) and set(stride) <= {1}:
        return [x]
    return [site.emit("slice", [x], numbers={"start": start, "limit": limit, "stride": stride})]


def declared(site: Site, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is one of the op's type."""
    if not agrees(site.type, shape) or any(n < 0 for n in shape):
        raise InputError(f"`{site.op.name}` is declared as `{site.op.results[0].type}`, its shape is {list(shape)}")
    return shape


def assertion(site: Site) -> list[Value]:
    """A condition on sizes: holds, or the sizes are not the program's."""
    condition = site.known(site.values[0])
    if condition is None:
        raise InputError("a shape assertion that depends on data")
    if not all(condition.items):
        shown = [site.known(value) for value in site.values[1:]]
        text = site.text("error_message") if site.has("error_message") else "a shape assertion fails"
        for position, known in enumerate(shown):
            text = text.replace(f"{{{position}}}", str(known.items[0]) if known is not None and known.items else "?")
        raise InputError(text.partition(" Please see")[0], expected="sizes that the program was exported for")
    return []
