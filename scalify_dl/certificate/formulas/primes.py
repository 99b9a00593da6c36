"""Whole numbers as products of primes."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt


def factors(number: int) -> Iterator[tuple[int, int]]:
    """Prime factors and how often; what is left after small ones counts as one."""
    divisor = 2
    while divisor * divisor <= number and divisor < 2000:
        count = 0
        while number % divisor == 0:
            number, count = number // divisor, count + 1
        if count:
            yield divisor, count
        divisor += 1
    if number > 1:
        root = isqrt(number)
        yield (root, 2) if root * root == number else (number, 1)
