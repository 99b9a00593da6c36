"""Elementwise ATen ops: arithmetic, comparisons, activations and their backwards."""

from __future__ import annotations

import math

from scalify_dl.ir.graph import Tensor

from ..dtypes import category, is_floating, result_type
from .core import Context, Number, Unsupported, lower, plain, whole
from .dims import broadcast_shape

Value = Tensor | Number

# --- one operand -----------------------------------------------------------------------------------------------------

FLOAT_UNARY = {
    "exp": "exponential", "expm1": "exponential-minus-one", "log": "log", "log1p": "log-plus-one", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "sin": "sine", "cos": "cosine", "tan": "tan", "tanh": "tanh", "sigmoid": "logistic", "erf": "erf",
    "erfinv": "erf-inv", "lgamma": "lgamma",
}  # fmt: skip
PLAIN_UNARY = {
    "neg": "negate", "abs": "abs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "relu": "relu",
}  # fmt: skip


def _register_unary(name: str, kind: str, floating: bool) -> None:
    @lower(f"aten.{name}")
    def unary(c: Context, x: Tensor) -> Tensor:
        if kind in ("floor", "ceil", "trunc") and not is_floating(x.dtype):
            return x
        return c.unary(kind, x, floating)


for _name, _kind in FLOAT_UNARY.items():
    _register_unary(_name, _kind, True)
for _name, _kind in PLAIN_UNARY.items():
    _register_unary(_name, _kind, False)


@lower("aten.sign", "aten.sgn")
def sign(c: Context, x: Tensor) -> Tensor:
    """Of NaN it is 0."""
    if x.dtype == "pred":
        return x
    made = c.unary("sign", x, floating=False)
    return c.select(c.compare("NE", x, x), 0, made, dtype=x.dtype) if is_floating(x.dtype) else made


@lower("aten.positive")
def positive(c: Context, x: Tensor) -> Tensor:
    return x


@lower("aten.round")
def round_(c: Context, x: Tensor, *, decimals: int = 0) -> Tensor:
    if decimals:
        raise Unsupported("round to decimals")
    return x if category(x.dtype) < 2 else c.unary("round-nearest-even", x)


@lower("aten.reciprocal")
def reciprocal(c: Context, x: Tensor) -> Tensor:
    x = c.convert(x, "f32") if category(x.dtype) < 2 else x
    return c.divide(1, x)


@lower("aten.square")
def square(c: Context, x: Tensor) -> Tensor:
    x = c.convert(x, "s64") if x.dtype == "pred" else x
    return c.multiply(x, x)


@lower("aten.exp2")
def exp2(c: Context, x: Tensor) -> Tensor:
    return c.binary("power", 2.0, c.convert(x, "f32") if category(x.dtype) < 2 else x)


@lower("aten.log2")
def log2(c: Context, x: Tensor) -> Tensor:
    return c.divide(c.unary("log", x), math.log(2))


@lower("aten.log10")
def log10(c: Context, x: Tensor) -> Tensor:
    return c.divide(c.unary("log", x), math.log(10))


@lower("aten.bitwise_not", "aten.logical_not")
def not_(c: Context, x: Tensor) -> Tensor:
    if "logical" in c.target:
        x = c.convert(x, "pred")
    return c.unary("not", x, floating=False)


@lower("aten.isfinite")
def isfinite(c: Context, x: Tensor) -> Tensor:
    return c.emit("is-finite", (x,), "pred", x.shape)


@lower("aten.isinf")
def isinf(c: Context, x: Tensor) -> Tensor:
    return c.compare("EQ", c.unary("abs", x), math.inf)


GREATEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}
"""The greatest number of a type."""


@lower("aten.nan_to_num")
def nan_to_num(
    c: Context, x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Numbers in place of what is none, and of infinities: by default the greatest and the least ones."""
    if category(x.dtype) != 2:
        return x
    if x.dtype not in GREATEST:
        raise Unsupported(f"the greatest number of {x.dtype}")
    greatest, least = (
        sign * GREATEST[x.dtype] if given is None else given for sign, given in ((1, posinf), (-1, neginf))
    )
    below = c.select(c.compare("EQ", x, -math.inf), least, x, dtype=x.dtype)
    bounded = c.select(c.compare("EQ", x, math.inf), greatest, below, dtype=x.dtype)
    return c.select(c.compare("NE", x, x), nan or 0.0, bounded, dtype=x.dtype)


@lower("aten.isnan")
def isnan(c: Context, x: Tensor) -> Tensor:
    return c.compare("NE", x, x)


# --- two operands ----------------------------------------------------------------------------------------------------


def _scaled(c: Context, x: Value, alpha: Value, dtype: str) -> Value:
    """alpha · x, in the dtype of the result: of integers by a whole number."""
    if isinstance(alpha, Tensor):
        return c.multiply(c.operand(x, dtype, x.shape if isinstance(x, Tensor) else ()), c.convert(alpha, dtype))
    alpha = whole(alpha, dtype)
    if alpha == 1:
        return x
    return c.multiply(c.convert(x, dtype) if isinstance(x, Tensor) else c.scalar(x, dtype), alpha)


@lower("aten.add.Scalar")
def add_number(c: Context, x: Tensor, y: Number, alpha: Number = 1) -> Tensor:
    return add(c, x, y, alpha=alpha)


@lower("aten.sub.Scalar", "aten.subtract.Scalar")
def sub_number(c: Context, x: Tensor, y: Number, alpha: Number = 1) -> Tensor:
    return sub(c, x, y, alpha=alpha)


@lower("aten.add")
def add(c: Context, x: Value, y: Value, *, alpha: Number = 1) -> Tensor:
    if alpha == 1 and (_sum := _shifted(c, x, y)) is not None:
        return _sum
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype == y.dtype == "pred":
        return c.binary("or", x, y) if alpha else c.broadcast(x, broadcast_shape(x, y))
    return c.add(x, _scaled(c, y, alpha, result_type((plain(x), plain(y)))))


def _shifted(c: Context, x: Value, y: Value) -> Tensor | None:
    """index along a dim + a number: still known to be that, shifted (what slices through `index` are made of)."""
    if not (isinstance(x, Tensor) and x in c.iotas and isinstance(y, int) and not isinstance(y, bool)):
        return None
    result = c.add(x, y)
    dim, offset = c.iotas[x]
    c.index(result, dim, offset + y)
    return result


@lower("aten.sub", "aten.subtract")
def sub(c: Context, x: Value, y: Value, *, alpha: Number = 1) -> Tensor:
    return c.subtract(x, _scaled(c, y, alpha, result_type((plain(x), plain(y)))))


@lower("aten.rsub")
def rsub(c: Context, x: Value, y: Value, alpha: Number = 1) -> Tensor:
    return c.subtract(y, _scaled(c, x, alpha, result_type((plain(x), plain(y)))))


@lower("aten.mul", "aten.multiply")
def mul(c: Context, x: Value, y: Value) -> Tensor:
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype == y.dtype == "pred":
        return c.binary("and", x, y)
    return c.multiply(x, y)


@lower("aten.div", "aten.divide", "aten.true_divide")
def div(c: Context, x: Value, y: Value, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode == "floor":
        return floor_divide(c, x, y)
    dtype = result_type((plain(x), plain(y)))
    if rounding_mode is None and category(dtype) < 2:
        dtype = "f32"
    quotient = c.binary("divide", x, y, dtype)  # integer `divide` truncates
    return c.unary("trunc", quotient) if rounding_mode == "trunc" and category(dtype) == 2 else quotient


@lower("aten.floor_divide")
def floor_divide(c: Context, x: Value, y: Value) -> Tensor:
    return c.binary("floor-divide", x, y)


@lower("aten.remainder")
def remainder(c: Context, x: Value, y: Value) -> Tensor:
    """The sign of the divisor, as Python's `%`."""
    dtype = result_type((plain(x), plain(y)))
    if category(dtype) < 2:
        return c.subtract(x, c.multiply(floor_divide(c, x, y), y))
    left = c.binary("remainder", x, y)  # the sign of the dividend
    unlike = c.binary("xor", c.compare("LT", left, 0), c.compare("LT", y, 0) if isinstance(y, Tensor) else y < 0)
    other = c.binary("and", c.compare("NE", left, 0), unlike)
    return c.select(other, c.add(left, y), left, dtype=dtype)


@lower("aten.fmod")
def fmod(c: Context, x: Value, y: Value) -> Tensor:
    return c.binary("remainder", x, y)


@lower("aten.pow")
def pow_(c: Context, x: Value, y: Value) -> Tensor:
    """Small constant exponents become products and roots."""
    if not isinstance(x, Tensor) or isinstance(y, Tensor):
        return c.binary("power", x, y)
    base = c.convert(x, result_type((x, plain(y))))
    if y == 1:
        return base
    if y == 0:
        return c.splat(1, base.dtype, base.shape)
    if y in (2, 3, 4):
        squared = c.multiply(base, base)
        return squared if y == 2 else c.multiply(squared, base if y == 3 else squared)
    if category(base.dtype) == 2:
        if y in (0.5, -0.5):
            return c.unary("sqrt" if y > 0 else "rsqrt", base)
        if y in (-1, -2):
            return c.divide(1, base if y == -1 else c.multiply(base, base))
    return c.binary("power", base, y)


def _register_binary(name: str, kind: str) -> None:
    @lower(f"aten.{name}")
    def binary(c: Context, x: Value, y: Value) -> Tensor:
        return c.binary(kind, x, y)


for _name, _kind in {
    "maximum": "maximum", "minimum": "minimum", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "__and__": "and", "__or__": "or", "__xor__": "xor", "bitwise_left_shift": "shift-left",
    "__lshift__": "shift-left",
}.items():  # fmt: skip
    _register_binary(_name, _kind)


@lower("aten.fmax", "aten.fmin")
def greater_number(c: Context, x: Tensor, y: Tensor) -> Tensor:
    """What is no number loses against one."""
    found = c.binary("maximum" if "fmax" in c.target else "minimum", x, y)
    if category(found.dtype) != 2:
        return found
    x, y = (c.operand(value, found.dtype, found.shape) for value in (x, y))
    return c.select(c.compare("NE", x, x), y, c.select(c.compare("NE", y, y), x, found))


@lower("aten.bitwise_right_shift", "aten.__rshift__")
def shift_right(c: Context, x: Value, y: Value) -> Tensor:
    """Signs fill up, of unsigned types zeros."""
    unsigned = result_type((plain(x), plain(y))).startswith("u")
    return c.binary("shift-right-logical" if unsigned else "shift-right-arithmetic", x, y)


@lower("aten.atan2")
def atan2(c: Context, x: Tensor, y: Tensor) -> Tensor:
    dtype = result_type((x, y))
    return c.binary("atan2", x, y, dtype if category(dtype) == 2 else "f32")


@lower("aten.logaddexp")
def logaddexp(c: Context, x: Tensor, y: Tensor) -> Tensor:
    """log(exp x + exp y), without what overflows; of two infinities of one sign it is that."""
    top = c.binary("maximum", x, y)
    if category(top.dtype) != 2:
        raise Unsupported("the logarithm of a sum of exponentials of numbers that are not real")
    level = c.select(c.emit("is-finite", (top,), "pred", top.shape), top, 0, dtype=top.dtype)
    left, right = (c.unary("exponential", c.subtract(one, level)) for one in (x, y))
    return c.add(c.unary("log", c.add(left, right)), level)


@lower("aten.logical_and", "aten.logical_or", "aten.logical_xor")
def logical(c: Context, x: Tensor, y: Tensor) -> Tensor:
    kind = c.target.split("_")[1].split(".")[0]
    return c.binary(kind, c.convert(x, "pred"), c.convert(y, "pred"))


def _register_compare(name: str, direction: str) -> None:
    @lower(f"aten.{name}")
    def compare(c: Context, x: Value, y: Value) -> Tensor:
        return c.compare(direction, x, y)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _register_compare(_name, _name.upper())

# --- choices and bounds ----------------------------------------------------------------------------------------------


@lower("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(c: Context, condition: Tensor, x: Value, y: Value) -> Tensor:
    return c.select(condition, x, y)


@lower("aten.masked_fill")
def masked_fill(c: Context, x: Tensor, mask: Tensor, value: Value) -> Tensor:
    return c.broadcast(c.select(mask, value, x, dtype=x.dtype), broadcast_shape(x, mask))


@lower("aten.clamp", "aten.clip")
def clamp(c: Context, x: Tensor, min: Value | None = None, max: Value | None = None) -> Tensor:
    if min is not None:
        x = c.binary("maximum", x, min)
    return x if max is None else c.binary("minimum", x, max)


@lower("aten.clamp_min")
def clamp_min(c: Context, x: Tensor, bound: Value) -> Tensor:
    return c.binary("maximum", x, bound)


@lower("aten.clamp_max")
def clamp_max(c: Context, x: Tensor, bound: Value) -> Tensor:
    return c.binary("minimum", x, bound)


# --- fused arithmetic ------------------------------------------------------------------------------------------------


@lower("aten.addcmul")
def addcmul(c: Context, x: Tensor, y: Tensor, z: Tensor, *, value: Value = 1) -> Tensor:
    dtype = result_type((x, y, z))
    return c.add(x, _scaled(c, c.multiply(c.convert(y, dtype), z), value, dtype))


@lower("aten.addcdiv")
def addcdiv(c: Context, x: Tensor, y: Tensor, z: Tensor, *, value: Value = 1) -> Tensor:
    dtype = result_type((x, y, z))
    return c.add(x, _scaled(c, c.divide(c.convert(y, dtype), z), value, dtype))


@lower("aten.lerp")
def lerp(c: Context, start: Tensor, end: Tensor, weight: Value) -> Tensor:
    """From the end that is nearer."""

    def from_start() -> Tensor:
        return c.add(start, c.multiply(weight, c.subtract(end, start)))

    def from_end() -> Tensor:
        rest = c.subtract(1, weight) if isinstance(weight, Tensor) else 1 - weight  # (a number has no type of its own)
        return c.subtract(end, c.multiply(c.subtract(end, start), rest))

    if isinstance(weight, complex):
        raise Unsupported("lerp by a complex number")
    if not isinstance(weight, Tensor):
        return from_start() if -0.5 < weight < 0.5 else from_end()
    dtype = result_type((start, end, weight))
    start, end, weight = (c.convert(x, dtype) for x in (start, end, weight))
    return c.select(c.compare("LT", c.unary("abs", weight), 0.5), from_start(), from_end())
