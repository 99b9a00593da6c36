"""Integers that depend on inputs: those of which all that they may be is known, and those that only become real
numbers.

An integer of a small range is a table: for each value that it may have a form that is 1 where it has it, and else 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from .elementwise import Elementwise
from .forms import Atoms, Form, Unknown
from .programs import Op

Array = np.ndarray[Any, Any]
MOST_VALUES = 64
"""Values that an integer may have, if each is looked at."""
MOST_IN_ORDER = 8
"""Elements of a row of which the greatest is looked for."""


class Table:
    """What an integer may be, and where it is that: exactly one of the forms is 1, all others are 0."""

    __slots__ = ("cases",)

    def __init__(self, cases: dict[int, Form]) -> None:
        if len(cases) > MOST_VALUES:
            raise Unknown("an integer that may be much")
        self.cases = cases


class Whole:
    """An integer of which nothing is known but its bounds."""

    __slots__ = ("form", "high", "low")

    def __init__(self, form: Form, low: int, high: int) -> None:
        self.form, self.low, self.high = form, low, high


def unknown_integer(atoms: Atoms, name: Any, low: int, high: int) -> Table | Whole:
    """An unknown that is at least `low` and at most `high`."""
    if high - low >= MOST_VALUES:
        return Whole(atoms.atom("input", name), low, high)
    atoms.choices[name] = high - low + 1
    later = {low + n: atoms.atom("chosen", (name, n)) for n in range(1, high - low + 1)}
    first = atoms.number(1)
    for form in later.values():
        first = first - form
    return Table({low: first, **later})


def table(atoms: Atoms, x: Any) -> Table:
    """An integer as a table."""
    if isinstance(x, Table):
        return x
    if isinstance(x, int):
        return Table({x: atoms.number(1)})
    raise Unknown("integers that depend on inputs")


def combined(atoms: Atoms, function: Callable[..., int], xs: Iterable[Any]) -> Any:
    """A function of integers: an integer, or a table."""
    xs = list(xs)
    if all(isinstance(x, int) for x in xs):
        return function(*xs)
    tables = [table(atoms, x).cases.items() for x in xs]
    if prod(map(len, tables)) > MOST_VALUES**2:
        raise Unknown("integers that may be much")
    cases: dict[int, Form] = {}
    for parts in product(*tables):
        where = atoms.number(1)
        for _, form in parts:
            where = where * form
        if where.terms:
            found = function(*(value for value, _ in parts))
            cases[found] = cases[found] + where if found in cases else where
    return Table(cases)


def where(atoms: Atoms, which: Any, yes: Any, no: Any) -> Any:
    """One of two integers, by a truth."""
    if isinstance(which, int):
        return yes if which else no
    cases: dict[int, Form] = {}
    for truth, x in ((which, yes), (atoms.number(1) - which, no)):
        for value, form in table(atoms, x).cases.items():
            if (now := truth * form).terms:
                cases[value] = cases[value] + now if value in cases else now
    return Table(cases)


def compared(of: Elementwise, direction: str, x: Any, y: Any) -> Any:
    """A comparison of integers: 1 or 0, or a form that is one of them."""
    found = combined(of.atoms, lambda a, b: int(of.compare(direction, a, b)), [x, y])
    if isinstance(found, int):
        return found
    if len(found.cases) == 1:
        return next(iter(found.cases))
    return found.cases[1]


def as_real(atoms: Atoms, x: Table | Whole, most: int) -> Form:
    """An integer as a real number of a type that holds all whole numbers up to `most`."""
    ends = [x.low, x.high] if isinstance(x, Whole) else [*x.cases]
    if max(map(abs, ends)) > most:
        raise Unknown("integers that are rounded")
    if isinstance(x, Whole):
        return x.form
    total = atoms.number(0)
    for value, form in x.cases.items():
        total = total + form.times(Fraction(value))
    return total


def place_of_greatest(of: Elementwise, row: list[Any], *, least: bool) -> Table:
    """Where the greatest (or least) of a row is; of equals the first."""
    if len(row) > MOST_IN_ORDER:
        raise Unknown("the place of the greatest of many")
    beyond, at_least = ("LT", "LE") if least else ("GT", "GE")
    cases = {}
    for i, x in enumerate(row):
        form = of.atoms.number(1)
        for j, y in enumerate(row):
            if i != j:
                form = form * of.form(of.compare(beyond if j < i else at_least, x, y))
        if form.terms:
            cases[i] = form
    return Table(cases)


def gathered(of: Elementwise, op: Op, rank: int, x: Array, ids: Array, shape: tuple[int, ...]) -> Array:
    """XLA's gather: slices of `x` that begin where `ids` say, as far as they fit."""
    if op.text("mode", "clamp") != "clamp":
        raise Unknown("a gather of ids that count from the end")

    def numbers(name: str) -> list[int]:
        return op.numbers(name, rank, [])

    offset, collapsed, starts = numbers("offset_dims"), numbers("collapsed_slice_dims"), numbers("start_index_map")
    batching, batches_of_ids = numbers("operand_batching_dims"), numbers("start_indices_batching_dims")
    sizes, vector = numbers("slice_sizes"), op.number("index_vector_dim", rank)
    if vector == ids.ndim:
        ids = ids[..., None]
    ids = np.moveaxis(ids, vector, -1)
    kept = [d for d in range(x.ndim) if d not in collapsed and d not in batching]
    outer = [d for d in range(len(shape)) if d not in offset]
    if len(kept) != len(offset) or len(outer) != ids.ndim - 1 or len(starts) != ids.shape[-1]:
        raise Unknown("a gather of another shape")
    if any(sizes[d] != 1 for d in (*collapsed, *batching)):
        raise Unknown("a gather of slices that are dropped")
    batch_dims = [b - (b > vector) for b in batches_of_ids]
    out = np.empty(shape, dtype=object)
    for at in np.ndindex(*shape):
        row = tuple(at[d] for d in outer)
        base = dict.fromkeys(range(x.ndim), 0)
        base |= {d: at[o] for d, o in zip(kept, offset, strict=True)}
        base |= {d: row[b] for d, b in zip(batching, batch_dims, strict=True)}
        out[at] = _picked(of, x, base, [(d, ids[(*row, n)], x.shape[d] - sizes[d]) for n, d in enumerate(starts)])
    return out


def _picked(of: Elementwise, x: Array, base: dict[int, int], starts: list[tuple[int, Any, int]]) -> Any:
    """An element of an array at a place that integers say."""
    if not starts:
        return x[tuple(base[d] for d in range(x.ndim))]
    (dim, start, most), *rest = starts
    cases = table(of.atoms, combined(of.atoms, lambda i: min(max(i, 0), most), [start])).cases
    if len(cases) == 1:
        return _picked(of, x, {**base, dim: base[dim] + next(iter(cases))}, rest)
    total = of.atoms.number(0)
    for value, form in cases.items():
        total = total + form * of.form(_picked(of, x, {**base, dim: base[dim] + value}, rest))
    return total
