"""Variables, each of which stands for all whole numbers from 0 up to its size, and places: whole numbers that are made
of them by products with numbers, and sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from math import gcd, prod
from typing import NamedTuple

from ..forms import Unknown

Variable = tuple[int, int, int, int]
"""What kind it is, two numbers, and its size: it is at least 0 and less than this."""
FREE, BOUND, OTHER = range(3)
"""Kinds: of a dim and digit of a block; of a sum or maximum (nesting, number); of neither, for a moment."""


def variable(dim: int, digit: int, size: int) -> Variable:
    """That of a digit of a dim of a block."""
    return FREE, dim, digit, size


class Place(NamedTuple):
    """A number, and variables with what they are multiplied by, ascending."""

    start: int
    terms: tuple[tuple[Variable, int], ...] = ()

    def plus(self, other: Place, times: int = 1) -> Place:
        """The sum with a multiple of another."""
        found = dict(self.terms)
        for v, factor in other.terms:
            found[v] = found.get(v, 0) + factor * times
        return Place(self.start + other.start * times, tuple(sorted((v, f) for v, f in found.items() if f)))

    def times(self, number: int) -> Place:
        """A multiple."""
        return Place(0).plus(self, number)

    def put(self, values: Mapping[Variable, Place]) -> Place:
        """The place where some variables are other places."""
        found = Place(self.start)
        for v, factor in self.terms:
            found = found.plus(values.get(v) or Place(0, ((v, 1),)), factor)
        return found

    @property
    def least(self) -> int:
        """The least that it may be."""
        return self.start + sum(f * (v[3] - 1) for v, f in self.terms if f < 0)

    @property
    def most(self) -> int:
        """The most that it may be."""
        return self.start + sum(f * (v[3] - 1) for v, f in self.terms if f > 0)

    @property
    def variables(self) -> frozenset[Variable]:
        """Those of which it is made."""
        return frozenset(v for v, _ in self.terms)


def within(v: Variable, place: Place) -> Place:
    """The place, if the variable may be all that it may be."""
    if place.least < 0 or place.most >= v[3]:
        raise Unknown("a place beyond a variable")
    return place


def alone(v: Variable) -> Place:
    """The place that a variable is."""
    return Place(0, ((v, 1),))


def reduced(place: Place) -> Place:
    """A place that is at least zero where this one is: what its factors have in common is taken out."""
    common = gcd(*(f for _, f in place.terms))
    return Place(place.start // common, tuple((v, f // common) for v, f in place.terms))


# ---- digits: a place along a dim is written in mixed radix, one variable each ----
Digits = tuple[int, ...]
"""Their sizes, the first counting most; sizes of 1 are left out."""


def strides(digits: Digits) -> list[int]:
    """What each digit counts."""
    return [prod(digits[n + 1 :]) for n in range(len(digits))]


def of_dim(dim: int, digits: Digits, start: int = 0) -> Place:
    """The place along a dim of which these are the digits, counted from `start`."""
    parts = zip(range(len(digits)), digits, strides(digits), strict=True)
    return Place(start, tuple(sorted((variable(dim, n, size), stride) for n, size, stride in parts)))


def without_ones(digits: Iterable[int]) -> Digits:
    """Digits of which each may be more than one number."""
    return tuple(size for size in digits if size != 1)


def carried(dim: int, digits: Digits, place: Place) -> Iterator[tuple[Variable, Place]]:
    """Each old digit of a place along the dim that is written in new variables; Unknown where one is not made of
    whole new ones."""
    rest = place
    for n, (size, stride) in enumerate(zip(digits, strides(digits), strict=True)):
        upper = Place(rest.start // stride, tuple((v, f // stride) for v, f in rest.terms if f % stride == 0))
        rest = rest.plus(upper, -stride)
        if rest.least < 0 or rest.most >= stride:
            raise Unknown("digits that are cut otherwise")
        v = variable(dim, n, size)
        yield v, within(v, upper)
    if rest != Place(0):
        raise Unknown("digits that are cut otherwise")


def finer(left: Digits, right: Digits) -> Digits:
    """Digits of which both are made."""
    counts = sorted({*strides(left), *strides(right), prod(left), prod(right)})
    if prod(left) != prod(right) or any(b % a for a, b in pairwise(counts)):
        raise Unknown("digits of which none are made")
    return without_ones(b // a for a, b in reversed([*zip([1, *counts], counts, strict=False)]))
