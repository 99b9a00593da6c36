"""Choices that an order decides.

- A choice of two values that takes the greater one is their maximum.
- A choice of two places that takes that of the greater value is the place of the maximum. What is a place: a number,
  whose value is what is compared, or such a choice. Of equal values it takes the first place, or the last one: which
  one is told by running the condition for each order of the values and of the places.

A condition is `and`, `or`, `not` of comparisons of the two values, and of the two places; it is run in all orders that
are possible, so how it is written makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from scalify_dl.oracle.dtypes import is_float, is_integer

if TYPE_CHECKING:
    from .terms import Terms

PLACES = ("first maximum", "last maximum", "first minimum", "last minimum")
"""Kinds of nodes: operands are values, each followed by its place, by place."""
COMPARISONS = ("LT", "LE", "EQ", "NE")
MOST_COMPARISONS = 16
MOST_BELOW = 10_000
Pair = tuple[int, int]
Order = dict[Pair, int]
"""Of two nodes, the lower number first: −1 where the first is less, 0 where they are equal, 1 where it is greater."""


def chosen(terms: Terms, dtype: str, which: int, yes: int, no: int) -> int | None:
    """The node of a choice that an order decides; None where none does."""
    pairs = _compared_pairs(terms, which)
    mine = _pair(yes, no)
    if not pairs:
        return None
    whole = dtype == "int" or is_integer(dtype)
    if set(pairs) == {mine}:
        if (whole == bool(pairs[mine])) and (whole or is_float(dtype)) and _ordered(terms, mine, pairs[mine]):
            return _extreme_of_two(terms, pairs[mine] or dtype, which, yes, no)
        return None
    values = [pair for pair in pairs if pair != mine]
    if not whole or len(values) != 1 or not _ordered(terms, values[0], pairs[values[0]]):
        return None
    for extreme in ("maximum", "minimum"):
        for of_yes, of_no in (values[0], values[0][::-1]):
            found = _place(terms, extreme, pairs[values[0]], which, (yes, of_yes), (no, of_no))
            if found is not None:
                return found
    return None


def compared(terms: Terms, kind: str, dtype: str, row: tuple[int, int]) -> bool | None:
    """What a comparison of places tells by their bounds, and one with the ends of what a real may be."""
    if is_integer(dtype):
        (low, high), (least, most) = (_bounds(terms, node) for node in row)
        if high < least:
            return kind != "EQ"
        return kind == "NE" if low > most else None
    if not is_float(dtype):
        return None
    for at in (0, 1):
        end, x = row[at], row[1 - at]
        if end not in terms.values or x in terms.values or not terms.finite[x]:
            continue
        value = terms.values[end]
        sign = -1 if value < 0 else 1
        if abs(value) == float("inf") or (end == terms.end(dtype, sign) and not _below(terms, x, end)):
            if isinstance(value, Fraction):
                said = "least" if value < 0 else "greatest"
                terms.assumed.add(f"no value of {dtype} that is compared with the {said} one of its type is that one")
            return kind == "NE" if kind in ("EQ", "NE") else (value < 0) == (at == 0)
    return None


# ---- conditions ----
def _pair(a: int, b: int) -> Pair:
    return (a, b) if a <= b else (b, a)


def _compared_pairs(terms: Terms, which: int) -> dict[Pair, str]:
    """What a condition compares, and of which integer type ("" of others); nothing where it asks for anything else."""
    found: dict[Pair, str] = {}
    stack, seen = [which], 0
    while stack:
        node = stack.pop()
        kind, _, dtype = terms.names[terms.codes[node]].partition(":")
        seen += 1
        if kind in COMPARISONS and seen <= MOST_COMPARISONS:
            found[_pair(*terms.args(node))] = dtype
        elif kind in ("and", "or", "not") and not dtype:
            stack += terms.args(node)
        else:
            return {}
    return found


def _holds(terms: Terms, which: int, order: Order) -> bool:
    """Whether a condition holds where values stand in that order."""
    kind = terms.names[terms.codes[which]].partition(":")[0]
    args = terms.args(which)
    if kind == "not":
        return not _holds(terms, args[0], order)
    if kind in ("and", "or"):
        truths = [_holds(terms, x, order) for x in args]
        return all(truths) if kind == "and" else any(truths)
    sign = order[_pair(*args)] * (1 if args[0] <= args[1] else -1)
    return {"LT": sign < 0, "LE": sign <= 0, "EQ": sign == 0, "NE": sign != 0}[kind]


def _signed(a: int, b: int, sign: int) -> Order:
    return {_pair(a, b): sign if a <= b else -sign}


def _ordered(terms: Terms, pair: Pair, dtype: str) -> bool:
    """Whether one of two values is the greater one, or they are equal: neither is undefined."""
    return bool(dtype) or all(terms.finite[node] or node in terms.values for node in pair)


# ---- values ----
def _extreme_of_two(terms: Terms, dtype: str, which: int, yes: int, no: int) -> int | None:
    greater, less = (_holds(terms, which, _signed(yes, no, sign)) for sign in (1, -1))
    if greater == less:
        return None
    kind = "maximum" if greater else "minimum"
    return int(terms.canonical(terms.apply(kind, dtype, [np.array(yes), np.array(no)], dtype)))


# ---- places ----
def _place(terms: Terms, extreme: str, dtype: str, which: int, one: Pair, other: Pair) -> int | None:
    """The place of the extreme of the values at two places; each is given with the value there."""
    (yes, of_yes), (no, of_no) = one, other
    greater, less, ties = set(), set(), {}
    for sign in _orders(terms, yes, no):
        places = _signed(yes, no, sign)
        greater.add(_holds(terms, which, _signed(of_yes, of_no, 1) | places))
        less.add(_holds(terms, which, _signed(of_yes, of_no, -1) | places))
        ties[sign] = _holds(terms, which, _signed(of_yes, of_no, 0) | places)
    if (greater, less) != (({True}, {False}) if extreme == "maximum" else ({False}, {True})):
        return None
    for at, end in ((-1, "first"), (1, "last")):
        if any(tie != (sign == at) for sign, tie in ties.items()):
            continue
        name = f"{end} {extreme}"
        mine, theirs = (_members(terms, name, dtype, *pair) for pair in (one, other))
        if mine and theirs and not mine.keys() & theirs.keys():
            whole = sorted((mine | theirs).items(), key=lambda item: terms.values[item[0]])
            return terms.listed(name, np.array([x for place, value in whole for x in (value, place)], dtype=np.int64))
    return None


def _members(terms: Terms, name: str, dtype: str, node: int, value: int) -> dict[int, int]:
    """The values among which a place is that of the extreme, by place, if that is the value given."""
    if isinstance(terms.values.get(node), Fraction):
        return {node: value}
    kind, args = terms.names[terms.codes[node]], terms.args(node)
    values, places = args[::2], args[1::2]
    if kind not in PLACES or (kind != name and (len(values) > 2 or kind.split()[0] != name.split()[0])):
        return {}
    if kind != name:  # of two values the greater one is where the lesser one is not
        values = values[::-1]
    extreme = terms.fold(name.split()[1], dtype or "f32", np.array([values]))
    return dict(zip(places, values, strict=True)) if int(terms.canonical(extreme)[0]) == value else {}


def _orders(terms: Terms, a: int, b: int) -> Iterator[int]:
    """In which orders two different places may stand."""
    (low, high), (least, most) = _bounds(terms, a), _bounds(terms, b)
    if low < most:
        yield -1
    if high > least:
        yield 1


def _bounds(terms: Terms, node: int) -> tuple[Fraction | float, Fraction | float]:
    """Between which numbers a whole one is known to be."""
    if (value := terms.values.get(node)) is not None:
        return value, value
    if terms.names[terms.codes[node]] in PLACES:
        places = terms.args(node)[1::2]
        return terms.values[places[0]], terms.values[places[-1]]
    return -float("inf"), float("inf")


def _below(terms: Terms, node: int, part: int) -> bool:
    """Whether a node is made of another one, or may be."""
    stack, seen = [node], {node}
    while stack:
        top = stack.pop()
        if terms.names[terms.codes[top]].startswith(("dot", "gather")):
            return True
        for x in terms.args(top):
            if x == part or len(seen) > MOST_BELOW:
                return True
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return False
