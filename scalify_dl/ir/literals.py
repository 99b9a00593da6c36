"""Values of constants: canonical text, exact rational value, items, hash (docs/facts.md, “Literal text”)."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isfinite, isqrt, prod, sqrt

LIMIT = 2**31
ELIDED = "{...}"
ITEMS_LIMIT = 4096
"""Items up to which a constant is written out; a list of integers (a table by rank) may have `TABLE_LIMIT`."""
TABLE_LIMIT = 2**14
ROOTED = (*(n for n in range(2, 65) if isqrt(n) ** 2 != n), 128, 512, 2048, 8192)
"""Numbers whose roots constants are taken for: sizes of groups, heads, layers (datalog/graph/rewrites/root_texts)."""


def written_out(dtype: str, shape: Sequence[int]) -> bool:
    """Whether an array of different numbers is written out, not known by a hash alone."""
    return prod(shape) <= (TABLE_LIMIT if len(shape) == 1 and dtype[0] in "psu" else ITEMS_LIMIT)


@dataclass(frozen=True, slots=True)
class Literal:
    """The value of a constant.

    `text` is canonical literal text: one scalar (a scalar or splat constant), nested braces, or `{...}` (elided).
    `rational` is the exact value of a scalar or splat; `items` the row-major integers of an integer or boolean
    constant;
    `sha256` the hash of the bytes of a constant too large to print (then `text` is `{...}`).
    """

    text: str
    rational: Fraction | None = None
    items: tuple[int, ...] | None = None
    sha256: str | None = None

    @classmethod
    def scalar(cls, value: int | float | bool | Fraction | str, dtype: str = "f32") -> Literal:
        """A scalar (or splat) from a Python number, an exact fraction or its text in a dump.

        A fraction without a finite decimal gets the text `num/den`: its value is exact, as means need it.
        """
        if isinstance(value, bool):
            return cls("1" if value else "0", Fraction(int(value)))
        if isinstance(value, int):
            return cls(str(value), Fraction(value))
        if isinstance(value, Fraction):
            if value.denominator == 1:
                return cls(str(value.numerator), value)
            decimal = float(value)
            if Fraction(repr(decimal)) == value:
                return cls(scalar_text(repr(decimal)), value)
            return cls(f"{value.numerator}/{value.denominator}", value)
        text = narrow(scalar_text(value if isinstance(value, str) else repr(value)), dtype)
        ratio = simple_ratio(text, dtype)
        return cls(text, rational(text)) if ratio is None else cls.scalar(ratio)

    @classmethod
    def elided(cls, sha256: str | None = None) -> Literal:
        """A constant whose value the dump does not print."""
        return cls(ELIDED, sha256=sha256)

    @property
    def is_elided(self) -> bool:
        """Whether the value is unknown."""
        return self.text == ELIDED


NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,9}))?\Z", re.ASCII)
SPECIAL = {
    "true": "1",
    "false": "0",
    "inf": "inf",
    "-inf": "-inf",
    "+inf": "inf",
    "infinity": "inf",
    "-infinity": "-inf",
}
EXPONENT_LIMIT = 400  # beyond every float type; keeps exact arithmetic on hostile text small


def scalar_text(text: str) -> str:
    """Canonical text of one number of a dump; ValueError where it is none."""
    lowered = text.strip().lower()
    if lowered in SPECIAL:
        return SPECIAL[lowered]
    if lowered in ("nan", "-nan", "+nan") or lowered.startswith(("nan(", "-nan(")):
        return "nan"
    if lowered.startswith("(") and lowered.endswith(")"):
        real, imaginary = lowered[1:-1].split(",")
        return f"({scalar_text(real)},{scalar_text(imaginary)})"
    match = NUMBER.match(lowered)
    if not match:
        raise ValueError(f"`{text}` is not a number")
    if match[1] and abs(int(match[1])) > EXPONENT_LIMIT:
        raise ValueError(f"`{text}` is outside the range of every number type")
    exact = Fraction(lowered)
    if exact.denominator == 1 and (abs(exact) < 10**16 or lowered.lstrip("+-").isdigit()):
        return str(exact.numerator)
    shortest = repr(float(lowered))
    # repr is the shortest text that names the same double; more digits than a double holds are kept as they stand
    if "inf" in shortest or Fraction(shortest) != exact:
        return lowered.lstrip("+")
    return shortest


FEW = 16
FORMATS = {"f32": "f", "f16": "e", "f64": "d"}
PRECISION = {"f32": 24, "f16": 11, "bf16": 8}


def is_short_binary(value: float, bits: int) -> bool:
    """Whether a finite number needs at most `bits` significant bits: a power of two, a small integer times one."""
    if value != value or value in (float("inf"), float("-inf")):
        return False
    numerator = abs(value.as_integer_ratio()[0])
    return numerator >> bits == 0 or (numerator // (numerator & -numerator)) >> bits == 0


@lru_cache(65536)
def narrow(text: str, dtype: str) -> str:
    """The shortest text that names the same value of a float type: dumps print f32 0.7978846 as `0.797884583` or, from
    Python's doubles, `0.7978845608028654`. Other types than f16, bf16 and f32 keep their text."""
    if dtype not in ("f16", "bf16", "f32") or text in ("inf", "-inf", "nan"):
        return text
    value = rounded(float(text), dtype)
    if is_short_binary(value, PRECISION[dtype] // 2):
        return scalar_text(repr(value))  # 1/8192 is meant exactly
    for digits in range(1, 10):
        short = f"{value:.{digits}g}"
        if rounded(float(short), dtype) == value:
            return scalar_text(short)
    return text


@lru_cache(65536)
def simple_ratio(text: str, dtype: str) -> Fraction | None:
    """The ratio of small integers that a float constant stands for: f32 `0.016666668` is 1/60, rounded.

    Of all ratios that round to the value, the simplest. None where the decimal digits say it as shortly, the text is
    exact as it stands, or it is likely met by accident: numerator times denominator from 2^(2/3 precision) on or, where
    either is below `FEW` (one over a count of elements), from 2^(precision - 1) on; no two ratios below that round to
    one value. No two values of a type give the same ratio, as each rounds to its value.
    """
    if dtype not in PRECISION or not NUMBER.match(text) or rational(text) == 0:
        return None
    value = abs(rounded(float(text), dtype))
    if value == float("inf") or is_short_binary(value, PRECISION[dtype] // 2):
        return None
    exact, half = Fraction(value), Fraction(value) / 2 ** PRECISION[dtype]  # at least half of the last place
    ratio = simplest(exact - half, exact + half)
    digits = len(re.sub(r"e.*|[-+.]", "", text).strip("0"))
    bits = PRECISION[dtype]
    few = min(ratio.numerator, ratio.denominator) < FEW
    simple = ratio.numerator * ratio.denominator < min(2 ** (bits - 1 if few else 2 * bits // 3), 10**digits)
    if not simple or ratio == rational(text) or rounded(float(ratio), dtype) != value:
        return None
    return -ratio if text.startswith("-") else ratio


def simplest(lo: Fraction, hi: Fraction) -> Fraction:
    """The fraction of the smallest numerator and denominator in an interval of positive numbers."""
    whole = -(-lo.numerator // lo.denominator)
    if whole <= hi:
        return Fraction(max(whole, 1))
    below = whole - 1
    return below + 1 / simplest(1 / (hi - below), 1 / (lo - below))


def rounded(value: float, dtype: str) -> float:
    """The nearest value of f16, bf16, f32 or f64 (ties to even; overflow to infinity)."""
    if value != value or value in (float("inf"), float("-inf")):
        return value
    try:
        if dtype != "bf16":
            (nearest,) = struct.unpack(FORMATS[dtype], struct.pack(FORMATS[dtype], value))
            return float(nearest)
        (bits,) = struct.unpack("I", struct.pack("f", value))
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return float(struct.unpack("f", struct.pack("I", bits))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def is_beyond(value: float | Fraction, dtype: str) -> bool:
    """Whether a finite number becomes infinite in f16, bf16, f32 or f64."""
    if dtype not in FORMATS and dtype != "bf16":
        return False
    try:
        number = float(value)
    except OverflowError:  # not even in f64
        return True
    return isfinite(number) and not isfinite(rounded(number, dtype))


def rational(text: str) -> Fraction | None:
    """The exact value of a canonical scalar text, None for what is not a finite real number."""
    if text[:1] == "(" or text in ("inf", "-inf", "nan"):
        return None
    if "." in text and is_short_binary(value := float(text), 12):
        return Fraction(value)
    return Fraction(text)


def is_rounded(text: str, dtype: str) -> bool:
    """Whether a scalar text has as many digits as f32 holds: what was rounded to it (a double, a root) is not known.

    Short decimals, ratios and powers of two are meant as they stand.
    """
    if dtype != "f32" or not NUMBER.match(text) or is_short_binary(float(text), PRECISION[dtype] // 2):
        return False
    return len(re.sub(r"e.*|[-+.]", "", text).strip("0")) >= 7 or text in root_texts(dtype)


@lru_cache
def root_texts(dtype: str) -> dict[str, tuple[int, int]]:
    """Texts of constants of a real type that are what the root of a small number, or one over it, is rounded to."""
    found: dict[str, tuple[int, int]] = {}
    for number in ROOTED if dtype in ("f32", "f64") else ():
        found[Literal.scalar(sqrt(number), dtype).text] = number, 1
        found[Literal.scalar(1 / sqrt(number), dtype).text] = 1, number
    return found
