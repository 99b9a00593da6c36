"""Elementwise ops: one numpy expression each. Integer results wrap around; reals are float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from ..dtypes import convert, is_integer, round_significand, storage
from .base import MEANINGS, Array, Call, Unsupported, meaning

_erf = np.frompyfunc(math.erf, 1, 1)
_normal = NormalDist()


def erf(x: Array) -> Array:
    """The error function in float64."""
    return np.asarray(_erf(x), dtype=np.float64)


def _erf_inv_scalar(y: float) -> float:
    if abs(y) >= 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    x = _normal.inv_cdf((y + 1) / 2) / math.sqrt(2)
    for _ in range(2):
        x -= (math.erf(x) - y) * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x


_erf_inv = np.frompyfunc(_erf_inv_scalar, 1, 1)


def _lgamma_scalar(x: float) -> float:
    return math.inf if x == -math.inf or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


_lgamma = np.frompyfunc(_lgamma_scalar, 1, 1)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def gelu(x: Array) -> Array:
    """x Φ(x)."""
    return np.asarray(x * 0.5 * (1 + erf(x / math.sqrt(2))))


def _tanh_argument(x: Array) -> Array:
    return np.asarray(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def gelu_tanh(x: Array) -> Array:
    """The tanh approximation of gelu."""
    return np.asarray(0.5 * x * (1 + np.tanh(_tanh_argument(x))))


def gelu_backward(grad: Array, x: Array) -> Array:
    """grad · d gelu / dx."""
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return np.asarray(grad * (0.5 * (1 + erf(x / math.sqrt(2))) + x * density))


def gelu_tanh_backward(grad: Array, x: Array) -> Array:
    """grad · d gelu_tanh / dx."""
    t = np.tanh(_tanh_argument(x))
    inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return np.asarray(grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner))


def _integral(x: Array) -> bool:
    return x.dtype.kind in "iu"


def divide(a: Array, b: Array) -> Array:
    """Division; of integers it truncates toward zero, and by zero gives all ones."""
    if not _integral(a):
        return a / b
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    quotient = a // safe
    quotient = quotient + ((a % safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(b == 0, np.array(-1).astype(a.dtype), quotient).astype(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend; of integers by zero: the dividend."""
    if not _integral(a):
        return np.fmod(a, b)
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, a, np.fmod(a, safe)).astype(a.dtype)


def floor_divide(a: Array, b: Array) -> Array:
    """Quotient rounded toward minus infinity; of reals as Python's `//`, so that it is NaN of an infinite dividend."""
    if not _integral(a):
        return np.asarray(np.floor_divide(a, b))
    return np.where(b == 0, np.array(-1).astype(a.dtype), a // np.where(b == 0, 1, b).astype(a.dtype)).astype(a.dtype)


def power(a: Array, b: Array) -> Array:
    """a to the b; a negative integer exponent gives 0 unless |a| = 1."""
    if not _integral(a):
        return np.asarray(np.float_power(a, b))  # `power` takes roots for one exponent of 0.5, of -inf, too
    positive = np.power(a, np.maximum(b, 0))
    if a.dtype.kind == "u":
        return np.asarray(positive)
    negative = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0)).astype(a.dtype)
    return np.where(b < 0, negative, positive)


def _unsigned(x: Array, bits: int) -> Array:
    """The bits of integers of a type of so many, which may be stored in more."""
    whole = np.asarray(x, order="C").copy().view(f"u{x.dtype.itemsize}")
    return np.asarray(whole & whole.dtype.type(2**bits - 1))


def _shift(direction: str) -> Callable[[Array, Array, int], Array]:
    def shift(a: Array, b: Array, bits: int) -> Array:
        inside = (b >= 0) & (b < bits)
        amount = np.where(inside, b, 0).astype(a.dtype)
        if direction == "left":
            return np.where(inside, a << amount, 0).astype(a.dtype)
        if direction == "arithmetic":
            unused = 8 * a.dtype.itemsize - bits
            signed = (_unsigned(a, bits) << unused).view(f"i{a.dtype.itemsize}") >> unused
            # (the top bit fills up, in unsigned types, too)
            moved = np.where(inside, signed >> amount.astype(signed.dtype), np.where(signed < 0, -1, 0))
            return moved.astype(signed.dtype).view(a.dtype)
        logical = (_unsigned(a, bits) >> _unsigned(amount, bits)).view(a.dtype)
        return np.where(inside, logical, 0).astype(a.dtype)

    return shift


def _count_bits(x: Array, bits: int) -> Array:
    return np.bitwise_count(_unsigned(x, bits)).astype(x.dtype)


def _leading_zeros(x: Array, bits: int) -> Array:
    value = _unsigned(x, bits).astype(np.uint64)
    count = np.full(x.shape, bits, dtype=np.int64)
    while np.any(value):
        count -= (value > 0).astype(np.int64)
        value = value >> np.uint64(1)
    return count.astype(x.dtype)


def _round_afz(x: Array) -> Array:
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


def _by_type(real: Callable[..., Any], logical: Callable[..., Any]) -> Callable[..., Any]:
    """`logical` on booleans, `real` elsewhere."""
    return lambda *xs: logical(*xs) if xs[0].dtype.kind == "b" else real(*xs)


def complex_of(real: Array, imaginary: Array) -> Array:
    """The complex number of two parts, which may be infinite."""
    result = np.empty(np.shape(real), np.complex128)
    result.real, result.imag = real, imaginary
    return result


PLAIN: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": _by_type(np.add, np.logical_or),
    "and": np.bitwise_and,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "clamp": lambda lo, x, hi: np.minimum(np.maximum(x, lo), hi),
    "complex": complex_of,
    "cosine": np.cos,
    "divide": divide,
    "erf": erf,
    "erf-inv": lambda x: np.asarray(_erf_inv(x), dtype=np.float64),
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "floor": np.floor,
    "floor-divide": floor_divide,
    "gelu": gelu,
    "gelu-backward": gelu_backward,
    "gelu-tanh": gelu_tanh,
    "gelu-tanh-backward": gelu_tanh_backward,
    "imag": np.imag,
    "is-finite": np.isfinite,
    "lgamma": lambda x: np.asarray(_lgamma(x), dtype=np.float64),
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": logistic,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": _by_type(np.multiply, np.logical_and),
    "negate": np.negative,
    "not": _by_type(np.bitwise_not, np.logical_not),
    "or": np.bitwise_or,
    "power": power,
    "real": np.real,
    "relu": lambda x: np.maximum(x, 0),
    "remainder": remainder,
    "round-nearest-afz": _round_afz,
    "round-nearest-even": np.round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": np.where,
    "sign": np.sign,
    "sine": np.sin,
    "softplus": lambda x: np.logaddexp(x, 0),
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "xor": np.bitwise_xor,
}


def _plain(function: Callable[..., Any]) -> Callable[[Call, list[Array]], list[Array]]:
    return lambda call, xs: [np.asarray(function(*xs))]


for _kind, _function in PLAIN.items():
    MEANINGS[_kind] = _plain(_function)

OF_BITS: dict[str, Callable[..., Any]] = {
    "clz": _leading_zeros, "popcnt": _count_bits, "shift-left": _shift("left"),
    "shift-right-arithmetic": _shift("arithmetic"), "shift-right-logical": _shift("logical"),
}  # fmt: skip
"""What depends on how many bits an integer type has, as it is said: of s4 there are 4."""


def _of_bits(function: Callable[..., Any]) -> Callable[[Call, list[Array]], list[Array]]:
    return lambda call, xs: [np.asarray(function(*xs, int(call.results[0].dtype[1:])))]


for _kind, _function in OF_BITS.items():
    MEANINGS[_kind] = _of_bits(_function)

COMPARISONS = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


@meaning("compare")
def compare(call: Call, xs: list[Array]) -> list[Array]:
    """`direction` names the comparison."""
    direction = call.symbol("direction")
    if direction not in COMPARISONS:
        raise Unsupported(f"compare of op {call.op.id} has the direction `{direction}`")
    return [np.asarray(COMPARISONS[direction](*xs))]


@meaning("convert")
def convert_(call: Call, xs: list[Array]) -> list[Array]:
    """A cast to the result's type."""
    return [convert(xs[0], call.results[0].dtype, rounding=call.rounding)]


BITS: dict[str, type[Any]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@meaning("bitcast-convert")
def bitcast_convert(call: Call, xs: list[Array]) -> list[Array]:
    """The same bits as another type; floats in their own width first."""
    before, after = (t if is_integer(t) else BITS.get(t) for t in (call.symbol("from"), call.results[0].dtype))
    if before is None or after is None:
        raise Unsupported(f"bitcast-convert of op {call.op.id} from {call.symbol('from')} to {call.results[0].dtype}")
    source = storage(before) if isinstance(before, str) else np.dtype(before)
    target = storage(after) if isinstance(after, str) else np.dtype(after)
    return [xs[0].astype(source).view(target)]


@meaning("reduce-precision")
def reduce_precision(call: Call, xs: list[Array]) -> list[Array]:
    """A rounding to `exponent_bits` and `mantissa_bits`, in rounding mode."""
    if not call.rounding:
        return [xs[0]]
    bits = call.number("mantissa_bits", 23)
    exponent = call.number("exponent_bits", 8)
    rounded = round_significand(xs[0], bits)
    largest = (2 - 2.0**-bits) * 2.0 ** (2 ** (exponent - 1) - 1)
    return [np.where(np.abs(rounded) > largest, np.copysign(np.inf, rounded), rounded)]
