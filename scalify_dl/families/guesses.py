"""Which function of a size a number of a program may be: what people write where they do not write a number.

A table of forms, not a proof: at a size of 23, 3/23 may be three over it, 4.7958 its root.
"""

from __future__ import annotations

from fractions import Fraction
from math import isclose, log, log2

CLOSE = 1e-6
"""How near a number is to what it may be, relative to it."""
FEW = 4
"""Multiples and exponentials of sizes up to this one are no sign of them."""
MULTIPLE = 4
"""How many times a size whole numbers may be that are made of it."""
POWERS = (0.5, 1.5, 0.25, -0.5, -1.5, -0.25)
TIMES = 8
"""Most times that a step of an exponential is taken."""


def function(value: Fraction, size: int, name: str, plain: bool) -> str | None:
    """In words, which function of a size from 2 on a positive number may be, if any; `name` is the size in words, and
    `plain` says that it is a product of sizes."""
    above, below = value.numerator, value.denominator
    name = name if name.isidentifier() else f"({name})"
    if below == size and (above > 1 or not plain):
        return f"{above}/{name}"
    if above == size and below > 1:
        return f"{name}/{below}"
    if not plain:
        return None
    if below in (2 * size, size**2):
        return f"{above}/({2 if below == 2 * size else name}*{name})"
    if above in (2 * size, size**2, size**3) or (below == 1 and size > FEW and above % size == 0):
        return f"a multiple of {name}"
    return None if below == 1 else _real(float(value), size, name)


def _real(value: float, size: int, name: str) -> str | None:
    for power in POWERS:
        if isclose(value, size**power, rel_tol=CLOSE) and (size > 2 or abs(power) == 0.5):
            return f"the root of {name if power > 0 else '1/' + name}" if abs(power) == 0.5 else f"a power of {name}"
    if any(isclose(value, x, rel_tol=CLOSE) for x in (log(size), 1 / log(size), log2(size), 1 / log2(size))):
        return f"the logarithm of {name}"
    for steps in (log(value) * size, log2(value) * size) if size > FEW else ():
        whole = round(steps)
        if 0 < abs(whole) <= TIMES and whole % size and isclose(steps, whole, rel_tol=CLOSE * size):
            return f"an exponential of 1/{name}"
    return None


def part(value: Fraction, size: int, name: str) -> str | None:
    """A whole number that is a part of a size, or up to a few times that; one over half or a quarter of it."""
    if value.denominator == 1 and 1 < value <= MULTIPLE * size:
        if value > size:
            return f"{name} + {value - size}"
        return f"{name}/{size // value}" if size % value == 0 else f"a part of {name}"
    share = next((k for k in (2, 4) if size > k and size % k == 0 and value * size == k), None)
    return f"1/({name}/{share})" if share else None
