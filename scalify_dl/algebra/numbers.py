"""What a constant of a program is: a fraction, or a root or a logarithm that it is the rounding of."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from operator import mul

from scalify_dl.ir.literals import rational
from scalify_dl.oracle.dtypes import precision

from . import laws
from .cells import number
from .extended import Cell
from .form import Field, Form, Number, Undecided

EXACT = 4096
"""Fractions with smaller denominators are what they are."""
LOGARITHMS = {
    2: Fraction("0.693147180559945309417232121458176568075500134360255254120680009"),
    10: Fraction("2.302585092994045684017991454684364207601101488628772976033327901"),
}
PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459")
FEW_DIGITS = 24
"""Types with fewer digits have roots for too many of their numbers."""


MOST_NAMED = 4096
"""Greatest product of numerator and denominator of the square of what stands beside log 2, log 10 or π."""
MOST_FOURTH = 1024
"""Greatest product of numerator and denominator of the fourth power of a fourth root."""
MASK = 10**9
"""What is below minus this may be a mask (`huge.py`)."""


def literal(field: Field, text: str, dtype: str) -> Cell:
    """The number that a literal text names.

    What a small ratio's root (square or fourth), or that times or over log 2, log 10, π or √π, is rounded to, is that.
    """
    if text in ("inf", "-inf", "nan"):
        return number(field, float(text))
    value = Fraction(text) if "/" in text else rational(text)
    if value is None:
        raise Undecided(f"the constant {text}")
    if field.huge is not None and value <= -MASK:
        number_above_all = field.element("huge", -value, positive=True)
        field.huge.add(number_above_all)
        field.need("masked", field.of(number_above_all))
        return -field.of(number_above_all)
    if value.denominator < EXACT or "/" in text:
        return field.constant(value)
    if abs(value) in field.products:
        factors = field.products[abs(value)]
        found = reduce(mul, (laws.power(_worth(field, base, precision(dtype)), power) for base, power in factors))
        field.need("rounded", found)
    else:
        found = _worth(field, abs(value), precision(dtype))
    return found if value > 0 else -found


def _worth(field: Field, value: Fraction, digits: int) -> Form:
    """What a number above zero is, in a type with so many digits: the number that it has the name of, or itself."""
    if value.denominator < EXACT:
        return field.constant(value)
    named = _named(field, rounded_alike(value, digits), few=digits < FEW_DIGITS)
    return field.constant(value) if named is None else named


def has_name(value: Fraction, digits: int) -> bool:
    """Whether a number above zero is the rounding of one that has a name."""
    return value.denominator >= EXACT and _worth(Field(), value, digits).value is None


def _named(field: Field, interval: tuple[Fraction, Fraction], *, few: bool) -> Form | None:
    """The simplest number with a name in an interval."""
    named: list[tuple[Fraction, Number, Form]] = [(Fraction(1), 1, field.one)]
    if not few:
        logs = {base: laws.logarithm(field.constant(base)) for base in LOGARITHMS}
        named += [(log, power, logs[base]) for base, log in LOGARITHMS.items() for power in (1, -1)]
        named += [(PI, power, pi(field)) for power in (1, -1, Fraction(1, 2), Fraction(-1, 2))]
    best: tuple[int, Form] | None = None
    for what, power, form in named:
        square = what ** int(2 * power)
        ratio = _simplest(interval[0] ** 2 / square, interval[1] ** 2 / square)
        size = ratio.numerator * ratio.denominator
        plain = power == 1 and form == field.one and ratio.numerator < 4096 and ratio.denominator <= 1024
        if (plain or size < MOST_NAMED) and (best is None or size < best[0]):
            best = size, laws.constant_power(field, ratio, Fraction(1, 2)) * laws.power(form, power)
    ratio = _simplest(interval[0] ** 4, interval[1] ** 4)  # a root of √d, by which queries and keys are scaled alike
    size = ratio.numerator * ratio.denominator
    if not few and size < MOST_FOURTH and (best is None or size < best[0]):
        return laws.constant_power(field, ratio, Fraction(1, 4))
    return None if best is None else best[1]


def pi(field: Field) -> Form:
    """π."""
    return field.of(field.element("number", "pi", positive=True))


def rounded_alike(value: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """The least and greatest number that a type with so many binary digits rounds as it rounds this one."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - digits
    ulp = Fraction(2) ** exponent
    if value / ulp >= 2**digits:
        ulp *= 2
    held = round(value / ulp) * ulp
    return held - ulp / 2, held + ulp / 2


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in an interval above zero."""
    whole = -(-low.numerator // low.denominator)
    if whole <= high:
        return Fraction(whole)
    below = whole - 1
    return below + 1 / _simplest(1 / (high - below), 1 / (low - below))
