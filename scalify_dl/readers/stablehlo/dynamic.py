"""Shape-polymorphic StableHLO at given sizes: what is computed from sizes is folded, `dynamic_X` becomes the static X.

Sizes are known where a module is lowered (`get_dimension_size` is a number), so every integer that follows from sizes
alone is known as well, and the ops that take a shape as an operand have it. What remains are the ops of the program of
these sizes. Integers are folded as the ops compute them: divisions round to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.ir.dtypes import integers_of
from scalify_dl.ir.graph import Tensor

from .elementwise import comparison
from .known import FOLDS, Known
from .scope import Site, Value, lowers
from .structural import expand, scalar_function, windowed
from .types import agrees

if TYPE_CHECKING:
    from jaxlib.mlir import ir


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
    held = range(2) if dtype == "pred" else integers_of(dtype)
    return held.start, held.stop - 1


def elementwise(site: Site, operands: list[Known]) -> tuple[int, ...] | None:
    """One function of every element; scalars stand for all elements. What overflows stays an op."""
    name = site.op.name.partition(".")[2]
    dtype, shape = site.type
    function: Callable[..., Any] | None
    if name == "compare":
        function = COMPARE[comparison(site.text("comparison_direction"))]
    elif operands[-1].dtype == "pred" and name != "select":
        function = LOGIC.get(name)
    else:
        function = ELEMENTWISE.get(name)
    if function is None or (name in ("divide", "remainder") and 0 in operands[1].items):
        return None
    count = prod(shape)
    columns = [o.items * count if len(o.items) == 1 else o.items for o in operands]
    items = tuple(int(function(*(column[i] for column in columns))) for i in range(count))
    low, high = _bounds(dtype)
    return items if all(low <= item <= high for item in items) else None


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
    """Vectors, or rows, one behind the other."""
    return tuple(item for x in operands for item in x.items) if site.number("dimension") == 0 else None


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
    """Bounds that are operands: numbers, or a start that depends on data (or is clamped at some sizes only) and a size
    that does not."""
    x = site.operand(0)
    stride = list(site.sizes(3))
    if set(stride) <= {1} and (site.known(site.values[1]) is None or clamped_at_some_sizes(site)):
        return [windowed_slice(site, x)]
    start, limit = list(site.sizes(1)), list(site.sizes(2))
    if start == [0] * len(start) and limit == list(x.shape) and set(stride) <= {1}:
        return [x]
    return [site.emit("slice", [x], numbers={"start": start, "limit": limit, "stride": stride})]


def windowed_slice(site: Site, x: Tensor) -> Tensor:
    """A slice from `start` to `start + sizes`. JAX clamps the start before, just as a `dynamic-slice` does."""
    start, limit = site.op.operands[1], producer(site.op.operands[2])
    sizes = None
    if limit is not None and limit.name == "stablehlo.add" and start in list(limit.operands):
        other = [operand for operand in limit.operands if operand != start]
        sizes = site.known(site.scope.value(other[0])) if len(other) == 1 else None
    if sizes is None:
        raise InputError(f"`{site.op.name}`: the size of the slice depends on data")
    clamp = producer(start)
    if clamp is not None and clamp.name == "stablehlo.clamp":
        low, high = (site.known(site.scope.value(clamp.operands[n])) for n in (0, 2))
        last = tuple(n - size for n, size in zip(x.shape, sizes.items, strict=True))
        if low is not None and high is not None and not any(low.items) and high.items == last:
            start = clamp.operands[1]
    starts = components(site, start, len(x.shape))
    type_ = (x.dtype, declared(site, sizes.items))
    return site.emit("dynamic-slice", [x, *starts], type_, numbers={"sizes": list(sizes.items)})


def clamped_at_some_sizes(site: Site) -> bool:
    """Whether a start is a number in the text, other than 0, clamped along a dim that the text leaves open: what it is
    clamped to has no formula. (One that is computed from sizes is what it is computed to.)"""
    clamp = producer(site.op.operands[1])
    made = producer(clamp.operands[1]) if clamp is not None and clamp.name == "stablehlo.clamp" else None
    parts = list(made.operands) if made is not None and made.name == "stablehlo.concatenate" else []
    source = site.op.operands[0].type
    if len(parts) != source.rank:
        return False
    return any(source.is_dynamic_dim(n) and _written(site, part) not in (None, 0) for n, part in enumerate(parts))


def _written(site: Site, part: ir.Value) -> int | None:
    """The number that a text writes, perhaps reshaped or converted; None for what it computes."""
    made = producer(part)
    while made is not None and made.name in ("stablehlo.reshape", "stablehlo.convert"):
        made = producer(made.operands[0])
    known = site.known(site.scope.value(part)) if made is not None and made.name == "stablehlo.constant" else None
    return known.items[0] if known is not None and len(known.items) == 1 else None


def components(site: Site, vector: ir.Value, count: int) -> list[Tensor]:
    """The scalars of a vector; those that it was put together from, where it was."""
    made = producer(vector)
    parts = list(made.operands) if made is not None and made.name == "stablehlo.concatenate" else []
    if len(parts) != count:
        whole = site.scope.tensor(site.scope.value(vector))
        bounds = ({"start": [n], "limit": [n + 1], "stride": [1]} for n in range(count))
        cut = (site.emit("slice", [whole], (whole.dtype, (1,)), numbers=numbers) for numbers in bounds)
        return [site.emit("reshape", [x], (x.dtype, ())) for x in cut]
    scalars = []
    for part in parts:
        inner = producer(part)
        if inner is not None and inner.name == "stablehlo.reshape" and len(inner.operands[0].type.shape) == 0:
            scalars.append(site.scope.tensor(site.scope.value(inner.operands[0])))
        else:
            x = site.scope.tensor(site.scope.value(part))
            scalars.append(site.emit("reshape", [x], (x.dtype, ())))
    return scalars


def producer(value: ir.Value) -> ir.Operation | None:
    """The op of the same block that makes a value; None for arguments."""
    from jaxlib.mlir import ir

    return None if isinstance(value.owner, ir.Block) else value.owner.operation


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


def reduce_window(site: Site) -> list[Value]:
    """A reduction over windows whose sizes are operands."""
    sizes, strides, base, dilation, padding = (list(site.sizes(n)) for n in range(2, 7))
    numbers = {
        "window_size": sizes,
        "window_stride": strides,
        "window_pad_low": padding[::2],
        "window_pad_high": padding[1::2],
        "window_dilation": dilation,
        "base_dilation": base,
    }
    x, init = site.operand(0), site.operand(1)
    (called,) = site.attribute("called_computations")
    function = site.module.functions.get(str(called).lstrip("@").strip('"'))
    if function is None:
        raise InputError(f"`{called}` is called but not defined in the module")
    return windowed(site, x, init, scalar_function(site, function.regions[0], [init, init]), numbers)


def top_k(site: Site) -> list[Value]:
    """The k largest along the last dim, k an operand."""
    types = [type_ for type_ in site.types if type_ is not None]
    return list(site.add("top-k", [site.operand(0)], types, numbers={"k": list(site.sizes(1))}).results)


DYNAMIC: dict[str, Callable[[Site], list[Value]]] = {
    "shape_assertion": assertion,
    "stablehlo.dynamic_reduce_window": reduce_window,
    "stablehlo.dynamic_top_k": top_k,
}
"""Custom calls that take sizes as operands."""
