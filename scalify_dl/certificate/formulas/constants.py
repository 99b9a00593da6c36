"""What a printed constant is: a number near which no other number of its type is, so that nothing but rounding is lost.

Two texts that are one number of the type are one number here. Those with many digits may be roots, or have π in them.
"""

from __future__ import annotations

from fractions import Fraction
from math import frexp, log, pi

import numpy as np

from .forms import Atoms, Form

FEW = 64
"""The largest numerator and denominator of a square or fourth power, where that is not a fraction of its own."""
MANY = 4096
"""The same of a square; whole numbers up to this, times powers of two, are what they are."""


def constant(atoms: Atoms, word: str, dtype: str) -> Form:
    """A finite number of a real type, printed in decimal digits."""
    if dtype == "f32" and len(_digits(word)) >= 7:
        single = float(np.float32(float(Fraction(word))))
        if single and np.isfinite(single) and not _few_bits(single):
            found = _named(atoms, single)
            return atoms.number(Fraction(str(np.float32(single)))) if found is None else found
        return atoms.number(Fraction(single) if np.isfinite(single) else Fraction(word))
    double = float(Fraction(word))
    return atoms.number(Fraction(double) if "." in word and _few_bits(double) else Fraction(word))


def _few_bits(number: float) -> bool:
    """Whether it is a whole number up to 4096 times a power of two: that is what it is, though fewer digits may be
    printed."""
    return (frexp(number)[0] * MANY).is_integer()


def _digits(word: str) -> str:
    return word.partition("e")[0].replace(".", "").replace("-", "").strip("0")


def _named(atoms: Atoms, number: float) -> Form | None:
    """A root of a fraction, or a fraction (or root) that is multiplied by π or by log 2, or divided, that is the same
    number in f32."""
    size, one = abs(number), (1.0, atoms.number(1))
    turns = [(pi**sign, atoms.pi(Fraction(sign))) for sign in (1, -1)]
    logs = [(log(2) ** sign, atoms.power(atoms.logarithm(atoms.number(2)), Fraction(sign))) for sign in (1, -1)]
    alone = [(root, base, FEW) for root, base in [(2, one), (4, one), *((1, base) for base in (*turns, *logs))]]
    for root, (base, form), most in [*alone, *((2, base, FEW) for base in turns), (2, one, MANY)]:
        power = size**root / base
        if not 1e-9 < power < 1e9:
            continue
        fraction = Fraction(power).limit_denominator(most)
        if not 0 < fraction.numerator <= most:
            continue
        if np.float32((float(fraction) * base) ** (1 / root)) == np.float32(size):
            found = atoms.constant_power(fraction, Fraction(1, root)) * atoms.power(form, Fraction(1, root))
            return -found if number < 0 else found
    return None
