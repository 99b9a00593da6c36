"""Dtypes as torch names and promotes them (the rules of `torch.result_type`)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import isfinite

from scalify_dl.ir.graph import Tensor

__all__ = [
    "FLOATING",
    "TORCH",
    "category",
    "exact_integers",
    "holds",
    "is_floating",
    "is_integer",
    "promote",
    "result_type",
    "wrapped",
]

TORCH = {
    "torch.bool": "pred", "torch.int8": "s8", "torch.int16": "s16", "torch.short": "s16", "torch.int32": "s32",
    "torch.int": "s32", "torch.int64": "s64", "torch.long": "s64", "torch.uint8": "u8", "torch.uint16": "u16",
    "torch.uint32": "u32", "torch.uint64": "u64", "torch.float16": "f16", "torch.half": "f16", "torch.bfloat16": "bf16",
    "torch.float32": "f32", "torch.float": "f32", "torch.float64": "f64", "torch.double": "f64",
    "torch.complex64": "c64", "torch.complex128": "c128", "torch.float8_e4m3fn": "f8e4m3fn",
    "torch.float8_e5m2": "f8e5m2", "torch.float8_e4m3fnuz": "f8e4m3fnuz", "torch.float8_e5m2fnuz": "f8e5m2fnuz",
}  # fmt: skip
"""`torch.float32` → `f32`."""

FLOATING = frozenset({"f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"})
WIDTH = {"s8": 8, "s16": 16, "s32": 32, "s64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
SIGNIFICAND = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3fn": 4, "f8e5m2": 3, "f8e4m3fnuz": 4, "f8e5m2fnuz": 3}
NARROW = {
    "f16": (Fraction(1, 2**14), 65504), "bf16": (Fraction(1, 2**126), 2**128 - 2**120),
    "f8e4m3fn": (Fraction(1, 2**6), 448), "f8e5m2": (Fraction(1, 2**14), 57344),
    "f8e4m3fnuz": (Fraction(1, 2**7), 240), "f8e5m2fnuz": (Fraction(1, 2**15), 57344),
}  # fmt: skip
"""The least and the largest number between which a dtype holds those of few digits."""
REAL_PART = {"c64": "f32", "c128": "f64"}
COMPLEX_OF = {"f16": "c64", "bf16": "c64", "f32": "c64", "f64": "c128"}


def is_floating(dtype: str) -> bool:
    """Whether a dtype is a real floating-point one."""
    return dtype in FLOATING


def is_integer(dtype: str) -> bool:
    """Whether a dtype is an integer one (not boolean)."""
    return dtype in WIDTH


def exact_integers(dtype: str) -> tuple[int, int]:
    """The least and the largest integer up to which a dtype holds every one exactly."""
    if dtype in WIDTH:
        width = WIDTH[dtype]
        return (0, 2**width - 1) if dtype[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    most = 2 ** SIGNIFICAND.get(dtype, 0)
    return -most, most


def holds(dtype: str, value: float | Fraction) -> bool:
    """Whether a narrow real dtype holds a number as it is; wide ones count as reals."""
    if dtype not in NARROW or not isfinite(value) or value == 0:
        return True
    least, most = NARROW[dtype]
    number = abs(Fraction(value))
    odd = number.numerator // (number.numerator & -number.numerator)
    return least <= number <= most and odd.bit_length() <= SIGNIFICAND[dtype]


def wrapped(value: int, dtype: str) -> int:
    """An integer as a dtype of integers holds it."""
    low, high = exact_integers(dtype)
    return (value - low) % (high - low + 1) + low


def category(dtype: str) -> int:
    """Boolean 0, integer 1, real 2, complex 3."""
    return 0 if dtype == "pred" else 1 if dtype in WIDTH else 2 if dtype in FLOATING else 3


def promote(a: str, b: str) -> str:
    """`torch.promote_types`."""
    if a == b:
        return a
    if category(a) != category(b):
        low, high = sorted((a, b), key=category)
        if category(high) == 3 and category(low) == 2:
            return "c128" if "f64" in (low, REAL_PART[high]) else "c64"
        return high
    kind = category(a)
    if kind == 3:
        return "c128"
    if kind == 2:
        return "f64" if "f64" in (a, b) else "f32"
    signed = [d for d in (a, b) if d[0] == "s"]
    unsigned = [d for d in (a, b) if d[0] == "u"]
    if signed and unsigned:
        width = max(WIDTH[signed[0]], 2 * WIDTH[unsigned[0]])
        return f"s{min(width, 64)}" if width <= 64 else "f32"
    return max(a, b, key=WIDTH.__getitem__)


def result_type(operands: Iterable[Tensor | int | float | complex | bool]) -> str:
    """`torch.result_type`: tensors with dims decide, then tensors without, then Python numbers, by category."""
    dimensioned = zero = number = None
    for x in operands:
        if isinstance(x, Tensor):
            if x.shape:
                dimensioned = promote(dimensioned, x.dtype) if dimensioned else x.dtype
            else:
                zero = promote(zero, x.dtype) if zero else x.dtype
        else:
            dtype = {bool: "pred", int: "s64", float: "f32", complex: "c64"}[type(x)]
            number = promote(number, dtype) if number else dtype
    return _combine(dimensioned, _combine(zero, number)) or "f32"


def _combine(high: str | None, low: str | None) -> str | None:
    """What a weaker class of operands adds to a stronger one."""
    if high is None or low is None:
        return high or low
    if category(high) == 3:
        return high
    if category(high) == 2:
        return COMPLEX_OF.get(high, "c64") if category(low) == 3 else high
    if category(high) == 0 or category(low) >= 2:
        return promote(high, low)
    return high
