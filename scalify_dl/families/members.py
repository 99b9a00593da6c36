"""Members of a family: sizes of its domain, and the pair of programs there, checked and executed.

What is proved for all sizes is a claim about every one of them; these are the ones to try, boundaries first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import islice
from math import ceil, prod

from scalify_dl.errors import InputError
from scalify_dl.facts.validate import validate
from scalify_dl.ir.expression import Expression

from .domain import Domain
from .family import Family

SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 28, 30, 32, 36, 40, 48, 60, 64)
LONG = 600
"""The largest size of a symbol."""
TRIED = 60_000
"""Most points that are looked at."""

Point = dict[str, int]


def family_domain(family: Family) -> Domain:
    """The sizes that a family has."""
    axes = [symbol.name for symbol in family.symbols if symbol.axis]
    return Domain([symbol.name for symbol in family.symbols], family.sizes, family.integers, axes)


def some_sizes(
    domain: Domain, count: int, rng: random.Random, fits: Callable[[Point], bool] = lambda point: True
) -> list[Point]:
    """Up to `count` different points of a domain that fit: half of them the smallest and those at which a bound is
    reached, the others anywhere."""
    choices = {name: _values(domain, name) for name in domain.symbols}
    found: dict[tuple[int, ...], Point] = {}
    for point in islice(_ascending(choices, rng), TRIED):
        if domain.holds(point) and fits(point):
            found.setdefault(tuple(point.values()), point)
            if len(found) >= 40 * count:
                break
    points = list(found.values())
    tight = sorted(points, key=lambda p: (-sum(size.at(p) == 1 for size in domain.sizes), sum(p.values())))
    smallest = sorted(points, key=lambda p: (sum(p.values()), list(p.values())))
    chosen: dict[tuple[int, ...], Point] = {}
    for one, other in zip(smallest[: count // 4 + 1], tight[: count // 4 + 1], strict=False):
        for point in (one, other):
            chosen.setdefault(tuple(point.values()), point)
    rng.shuffle(points)
    for point in points:
        chosen.setdefault(tuple(point.values()), point)
    return list(chosen.values())[:count]


def _values(domain: Domain, name: str) -> list[int]:
    """Small sizes of a symbol, and those around its bounds."""
    values = set(SMALL)
    for size in domain.sizes:
        slope = sum((c for powers, c in size.terms if powers == ((name, 1),)), Fraction(0))
        if size.symbols == {name} and slope:
            edge = ceil((1 - (size - Expression.of([(((name, 1),), slope)])).at({name: 1})) / slope)
            values |= {edge - 1, edge, edge + 1, edge + 2, 2 * edge}
    return sorted(value for value in values if 1 <= value <= LONG)


def _ascending(choices: Mapping[str, list[int]], rng: random.Random) -> Iterator[Point]:
    """Points of the small sizes, then random ones unless these are all there are."""
    names = list(choices)
    few = max(2, round((TRIED / 3) ** (1 / len(names))))
    boxes = [values[:few] for values in choices.values()]
    every = all(len(values) <= few for values in choices.values())
    total = prod(map(len, boxes))
    for index in rng.sample(range(total), total) if total <= TRIED else ():
        point = {}
        for name, values in zip(names, boxes, strict=True):
            index, at = divmod(index, len(values))
            point[name] = values[at]
        yield point
    while not (every and total <= TRIED):
        yield {name: rng.choice(values) for name, values in choices.items()}


def ranks(family: Family, point: Mapping[str, int]) -> Fraction:
    """How many ranks a member has."""
    return prod((size.at(point) for _, size in family.axes), start=Fraction(1))


def check_members(family: Family, domain: Domain, count: int, most: int) -> None:
    """InputError where a member with at most so many ranks is no valid pair of programs."""
    for point in some_sizes(domain, count, random.Random(0), lambda p: ranks(family, p) <= most):
        try:
            validate(family.instantiate(point))
        except (InputError, ValueError) as error:
            at = ", ".join(f"{name}={size}" for name, size in point.items())
            message = error.message if isinstance(error, InputError) else str(error)
            raise InputError(
                f"at {at} the formulas make no valid programs: {message}",
                hint="the captures do not tell some numbers from sizes: add a capture at sizes that differ more",
            ) from None


def executed(family: Family, point: Mapping[str, int]) -> str:
    """What a member computes, both programs run on random inputs: `agrees`, else how they differ or what is wrong."""
    from scalify_dl.oracle import find_counterexample, load_program

    facts = family.instantiate(point)
    validate(facts)
    found = find_counterexample(load_program(facts.tables))
    return found.status if not found.problems else f"{found.status}: {'; '.join(found.problems)}"
