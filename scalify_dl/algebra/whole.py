"""Forms that are whole numbers: what they may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import product
from math import prod

from scalify_dl.oracle.dtypes import integer_limits
from scalify_dl.sizes import Size, Untold, greatest, least, symbol

from .form import Form, Undecided

WHOLE = ("flag", "equals", "integer", "position", "sum")
"""Kinds of elements that are whole numbers, sums where what they are of is."""


def is_whole(form: Form) -> bool:
    """Whether it is a sum of products of integers, places and whole numbers."""
    elements = form.field.elements
    return all(c == int(c) for c in form.terms.values()) and all(
        elements[number].kind in ("integer", "position") and e == int(e) and e > 0
        for monomial in form.terms
        for number, e in monomial
    )


def integer_bounds(form: Form) -> tuple[int, int]:
    """The least and the greatest value of a sum of products of integers, truths and sizes."""
    try:
        pieces = _pieces(form)
        if pieces is None:
            return _integer_bounds(form)
        bounds = [_integer_bounds(piece, within) for piece, within in pieces]
        return min(low for low, _ in bounds), max(high for _, high in bounds)
    except Untold as error:
        raise Undecided(str(error)) from error


def _pieces(form: Form) -> list[tuple[Form, dict[int, tuple[int, int]]]] | None:
    """A form with truths about an integer in it (`where(i >= 0, i, 0)`), for each part of the integer's range in which
    they do not change; None where there is none."""
    field = form.field
    flags: dict[int, tuple[int, int]] = {}  # whether sign · integer > end
    about: set[int] = set()
    for number in {number for monomial in form.terms for number, _ in monomial}:
        kind, data = field.elements[number][:2]
        found = _threshold(data[1]) if kind == "flag" and data[0] == "above" else None  # type: ignore[index]
        if found is not None:
            flags[number] = found[1:]
            about.add(found[0])
    if len(about) != 1:
        return None
    (integer,) = about
    low, high = field.elements[integer].data[2:]  # type: ignore[index]
    if isinstance(low, Size) or isinstance(high, Size):
        return None
    starts = {low, *(end + 1 if sign > 0 else -end for sign, end in flags.values())}
    first = sorted(start for start in starts if low <= start <= high)
    pieces = []
    for start, last in zip(first, [*(start - 1 for start in first[1:]), high], strict=True):
        hidden = {n for n, (sign, end) in flags.items() if not sign * start > end}
        kept = {m: c for m, c in form.terms.items() if hidden.isdisjoint(n for n, _ in m)}
        piece = field.zero
        for monomial, c in kept.items():
            piece = piece + Form(field, {tuple((n, e) for n, e in monomial if n not in flags): c})
        pieces.append((piece, {integer: (start, last)}))
    return pieces


def _threshold(form: Form) -> tuple[int, int, int] | None:
    """The integer, sign and end, of a form that is above zero where sign · integer > end; None for others."""
    end = -form.terms.get((), 0)
    others = [(monomial, c) for monomial, c in form.terms.items() if monomial]
    if len(others) != 1 or len(others[0][0]) != 1 or end != int(end):
        return None
    ((((number, exponent),), c),) = others
    if form.field.elements[number].kind != "integer" or exponent != 1 or abs(c) != 1:
        return None
    return number, int(c), int(end)


def _span(ends: Iterable[int], within: Iterable[int]) -> list[int]:
    """The least and the greatest product."""
    products = [a * b for a, b in product(ends, within)]
    return [reduce(least, products), reduce(greatest, products)]


def _integer_bounds(form: Form, narrower: Mapping[int, tuple[int, int]] | None = None) -> tuple[int, int]:
    from .sized import is_size, size_of  # which reads this module, by way of truths

    low = high = 0
    for monomial, coefficient in form.terms.items():
        ends = [int(coefficient), int(coefficient)]
        if coefficient != ends[0]:
            raise Undecided("a formula that need not be a whole number")
        for at, exponent in monomial:
            kind, data = form.field.elements[at][:2]
            if kind == "maximum" and exponent == 1:
                meets = [[integer_bounds(member) for member in meet] for meet in data]  # type: ignore[attr-defined]
                low_and_high = ((reduce(least, at) for at in zip(*meet, strict=True)) for meet in meets)
                ends = _span(ends, [reduce(greatest, at) for at in zip(*low_and_high, strict=True)])
                continue
            known = is_size(kind, data)
            held = kind == "function" and data[0] == "wrapped"  # type: ignore[index]
            if (kind not in WHOLE and not known and not held) or exponent != int(exponent) or exponent < 0:
                raise Undecided("a formula that need not be a whole number")
            within = (0, 1)
            if known:
                within = (symbol(data[1]),) * 2  # type: ignore[index]
            elif held:
                within = integer_limits(data[1])  # type: ignore[index]
            elif kind == "sum":
                count = prod(map(size_of, data[0]))  # type: ignore[index, arg-type]
                lo, hi = integer_bounds(data[1])  # type: ignore[index]
                within = (lo * count, hi * count)
            elif kind == "integer":
                within = (narrower or {}).get(at, data[2:])  # type: ignore[index]
            elif kind == "position":
                within = (0, size_of(data[0]) - 1)  # type: ignore[index]
            for _ in range(int(exponent)):
                ends = _span(ends, within)
        low, high = low + ends[0], high + ends[1]
    return low, high
