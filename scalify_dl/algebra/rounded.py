"""Constants that programs computed of others and rounded: 1e-3·√0.002997001/0.271 as 2.0201061E-4, in steps of AdamW.

Which of them a constant is rounded from is not known, but where the correctly rounded product of powers of a few plain
constants of either program is the very constant, it is taken for that product, and this is listed (`rounded`). What
numbers it may change are changed by less than the rounding of that constant. Two and three are constants of any program
(a slope has the exponent in it), and those that have a name are what they are the name of: 0.1070322243 is
3·0.044715·0.79788456, and the last is √(2/π).
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

from scalify_dl.ir.literals import ELIDED, rational
from scalify_dl.oracle.dtypes import is_float, precision
from scalify_dl.oracle.program import Program

from .numbers import FEW_DIGITS, has_name, rounded_alike

Factors = tuple[tuple[Fraction, Fraction], ...]
"""Constants with their exponents."""
EXPONENTS = (Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 2))
PLAIN = 10**5
"""A decimal of fewer digits is what somebody wrote."""
WHOLE = (Fraction(2), Fraction(3))
MOST_FACTORS = 3
MOST_WORDS = 8
"""Elements of a constant up to which they are looked at."""
MOST_CONSTANTS = 16
"""Constants above zero, other than 1, of both programs: of more, many products are near any number."""


def is_plain(value: Fraction) -> bool:
    """Whether a number has few decimal digits, or is a ratio of small numbers."""
    if max(value.numerator, value.denominator) < PLAIN:
        return True
    while value.numerator % 10 == 0:
        value /= 10
    exponent = max(0, len(str(value.denominator)) + 1)
    return any((value * 10**e).denominator == 1 and value * 10**e < PLAIN for e in range(exponent))


def products(program: Program) -> dict[Fraction, Factors]:
    """For each constant that is the rounding of a product of powers of others: these and their exponents."""
    digits: dict[Fraction, int] = {}
    for role in ("base", "dist"):
        for graph in program.top(role):
            for result in (r for op in graph.ops if op.kind == "constant" for r in op.results):
                tensor = program.tensors[result]
                if tensor.literal in (None, ELIDED) or not is_float(tensor.dtype):
                    continue
                words = tensor.literal.replace("{", "").replace("}", "").split(",")
                if precision(tensor.dtype) < FEW_DIGITS or len(words) > MOST_WORDS:
                    continue
                for value in filter(None, (rational(word) for word in words if "/" not in word)):
                    digits[abs(value)] = min(digits.get(abs(value), 99), precision(tensor.dtype))
    digits.pop(Fraction(1), None)
    if len(digits) > MOST_CONSTANTS:
        return {}
    return explained(digits)


def explained(digits: dict[Fraction, int]) -> dict[Fraction, Factors]:
    """The same of constants with the digits of their types."""
    known = [value for value in digits if is_plain(value) or has_name(value, digits[value])]
    known += [value for value in WHOLE if value not in digits]
    found: dict[Fraction, Factors] = {}
    for value in digits:
        if value in known:
            continue
        factors = _factors(value, rounded_alike(value, digits[value]), known)
        if factors is None:
            known.append(value)
        else:
            found[value] = factors
    return found


def _factors(value: Fraction, interval: tuple[Fraction, Fraction], known: Iterable[Fraction]) -> Factors | None:
    """The fewest powers of known constants whose product is rounded to a value."""
    powers = [(base, exponent) for base in known for exponent in EXPONENTS]
    logs = [math.log(base) * float(exponent) for base, exponent in powers]
    order = sorted(range(len(powers)), key=logs.__getitem__)
    ranked = [logs[n] for n in order]
    low, high = (math.log(end) for end in interval)
    near = high - low
    for count in range(1, MOST_FACTORS + 1):
        found: list[tuple[int, ...]] = []
        for chosen in combinations(range(len(powers)), count - 1):
            rest = sum(logs[n] for n in chosen)
            first, last = bisect(ranked, low - near - rest), bisect(ranked, high + near - rest)
            found += ((*chosen, n) for n in order[first:last] if not chosen or n > chosen[-1])
        for places in sorted(found, key=lambda those: ([n // len(EXPONENTS) for n in those], those)):
            factors = tuple(powers[n] for n in places)
            square = math.prod((base ** int(2 * e) for base, e in factors), start=Fraction(1))
            if len(dict(factors)) == count and interval[0] ** 2 <= square <= interval[1] ** 2:
                return factors
    return None
