"""Element types: how the oracle stores them, and how a conversion rounds."""

from __future__ import annotations

from contextvars import ContextVar
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from scalify_dl.errors import InputError

Array = np.ndarray[Any, Any]

_INTEGERS = {
    "s1": np.int8, "s2": np.int8, "s4": np.int8, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u1": np.uint8, "u2": np.uint8, "u4": np.uint8, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
# bits of the significand after the leading one, smallest normal exponent, largest finite value
_FLOATS = {
    "f64": (52, -1022, np.finfo(np.float64).max),
    "f32": (23, -126, float(np.finfo(np.float32).max)),
    "tf32": (10, -126, float(np.finfo(np.float32).max)),
    "bf16": (7, -126, 255 * 2.0**120),
    "f16": (10, -14, 65504.0),
    "f8e5m2": (2, -14, 57344.0),
    "f8e5m2fnuz": (2, -15, 57344.0),
    "f8e4m3": (3, -6, 240.0),
    "f8e4m3fn": (3, -6, 448.0),
    "f8e4m3fnuz": (3, -7, 240.0),
    "f8e4m3b11fnuz": (3, -10, 30.0),
    "f8e3m4": (4, -2, 15.5),
    "f8e8m0fnu": (0, -127, 2.0**127),
    "f4e2m1fn": (1, 0, 6.0),
}
WITHOUT_INFINITIES = frozenset({"f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e8m0fnu", "f4e2m1fn"})
"""Real types in which an infinity, and what is beyond the largest number, is no number (or the largest, in four
bits)."""
POWERS_ALONE = frozenset({"f8e8m0fnu"})
"""Real types of positive powers of two: what is not above 0 is no number."""


def is_float(dtype: str) -> bool:
    """Whether the type is a real floating-point type."""
    return dtype in _FLOATS


def precision(dtype: str) -> int:
    """How many bits the significand of a real floating-point type has."""
    return _FLOATS[dtype][0] + 1


def largest(dtype: str) -> float:
    """The largest finite number of a real floating-point type."""
    return float(_FLOATS[dtype][2])


def smallest(dtype: str) -> Fraction:
    """The smallest number above 0 that a real floating-point type has with all its digits."""
    return Fraction(2) ** _FLOATS[dtype][1]


def holds_all(dtype: str, other: str) -> bool:
    """Whether every finite number of the other real floating-point type is one of this."""
    (bits, smallest, largest), (others_bits, others_smallest, others_largest) = _FLOATS[dtype], _FLOATS[other]
    least, others_least = smallest - bits, others_smallest - others_bits  # subnormals
    return bits >= others_bits and least <= others_least and largest >= others_largest


def is_integer(dtype: str) -> bool:
    """Whether the type is an integer type (booleans are not)."""
    return dtype in _INTEGERS


def integer_limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    bits = int(dtype[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def wrapped(x: Array, dtype: str) -> Array:
    """Numbers of a type that is narrower than its storage (`s4`), modulo its range; others as they are."""
    if dtype not in _INTEGERS or int(dtype[1:]) >= 8:
        return x
    least, most = integer_limits(dtype)
    if x.size == 0 or (x.min() >= least and x.max() <= most):
        return x
    low = x & x.dtype.type(most - least)
    return np.asarray(np.where(low > most, low - x.dtype.type(-2 * least), low) if least else low, dtype=x.dtype)


def wrapped_number(number: int, dtype: np.dtype[Any]) -> Array:
    """A whole number of any size in an integer type, modulo its range."""
    bits = 8 * dtype.itemsize
    return np.array(number % (1 << bits), dtype=f"u{dtype.itemsize}").astype(dtype)


@cache
def storage(dtype: str) -> np.dtype[Any]:
    """The numpy type that holds values of the type: floats in float64, integers as themselves (they wrap around)."""
    if dtype in _INTEGERS:
        return np.dtype(_INTEGERS[dtype])
    if dtype == "pred":
        return np.dtype(np.bool_)
    if dtype in _FLOATS:
        return np.dtype(np.float64)
    if dtype in ("c64", "c128"):
        return np.dtype(np.complex128)
    raise InputError(
        f"the element type `{dtype}` is not known", expected=f"pred, c64, c128, {', '.join([*_INTEGERS, *_FLOATS])}"
    )


def round_significand(x: Array, bits: int) -> Array:
    """Rounds to nearest even with `bits` bits after the leading one (exponent range not limited)."""
    mantissa, exponent = np.frexp(x)
    scale = 2.0 ** (bits + 1)
    return np.ldexp(np.round(mantissa * scale) / scale, exponent)


def is_narrow(dtype: str) -> bool:
    """Whether a real type holds fewer digits than f32."""
    return dtype in _FLOATS and precision(dtype) < precision("f32")


def round_to(x: Array, dtype: str) -> Array:
    """Values of a real type after rounding to nearest even, with its subnormals and overflow."""
    if dtype == "f64":
        return x
    bits, smallest, largest = _FLOATS[dtype]
    normal = round_significand(x, bits)
    quantum = 2.0 ** (smallest - bits)
    rounded = np.where(np.abs(x) < 2.0**smallest, np.round(x / quantum) * quantum, normal)
    overflow = np.nan if dtype in WITHOUT_INFINITIES else np.inf
    beyond = np.abs(rounded) > largest  # infinities too: some types have none
    return np.where(beyond | np.isinf(x), np.copysign(overflow, x), np.where(np.isnan(x), x, rounded))


def endless_beyond(x: Array, dtype: str) -> Array:
    """Values of a real type, not rounded, with infinities (or what it has for them) where they are beyond it."""
    beyond = np.abs(x) > _FLOATS[dtype][2]
    if not beyond.any():
        return x
    return np.where(beyond, np.copysign(np.nan if dtype in WITHOUT_INFINITIES else np.inf, x), x)


BEYOND: ContextVar[str] = ContextVar("BEYOND", default="end")
"""What is made of real numbers beyond the integer type that they are cast to: the `end` of the type, as XLA and most
machines have it, or what is left of them when they `wrap` round, as torch on a CPU. No specification says."""


def convert(x: Array, dtype: str, *, rounding: bool) -> Array:
    """A cast: floats to integers truncate (beyond the type: `BEYOND`), to `pred` test for non-zero, floats round in
    rounding mode."""
    target = storage(dtype)
    if dtype == "pred":
        return np.asarray(x != 0)
    if dtype in _INTEGERS and x.dtype.kind == "f":
        least, most = integer_limits(dtype)
        clean = np.trunc(np.nan_to_num(x, nan=0.0, posinf=float(most), neginf=float(least)))
        above, below = clean >= float(most), clean <= float(least)  # (the ends of 64 bits are no floats)
        if BEYOND.get() == "wrap" and most < 2**62:
            count = float(most - least + 1)
            return np.asarray(np.mod(clean - least, count) + least).astype(target)
        whole = np.where(above | below, 0, clean).astype(target)
        return np.where(above, target.type(most), np.where(below, target.type(least), whole))
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    result = x.astype(target)
    if dtype in WITHOUT_INFINITIES:
        lacking = np.isinf(result) | (result <= 0 if dtype in POWERS_ALONE else False)
        result = np.where(lacking, np.nan, result)
    return round_to(result, dtype) if rounding and dtype in _FLOATS else result
