"""Arrays of formulas: what an element may be, and functions of elements as functions of arrays.

A tensor is an array of numbers (integers and truths that depend on no input), or an object array whose elements are
forms, forms that may be infinite, or tables of integers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from . import extended
from .extended import Cell, Masked, NotANumber
from .finite import Table, as_form
from .flagged import absorbs, is_heavy
from .form import Field, Form, Number, Undecided

Array = np.ndarray[Any, Any]
MOST_HEAVY = 16
"""Terms with a huge number of a sum that are looked at two by two."""


def is_symbolic(array: Array) -> bool:
    """Whether it holds formulas."""
    return bool(array.dtype.kind == "O")


def mapped(function: Callable[..., Any], *arrays: Array) -> Array:
    """A function of elements as one of arrays; equal elements are computed once."""
    arrays = tuple(np.broadcast_arrays(*arrays)) if len(arrays) > 1 else arrays
    out = np.empty(arrays[0].shape, dtype=object)
    flat = out.reshape(-1)
    done: dict[tuple[int, ...], Any] = {}
    for i, cells in enumerate(zip(*(array.reshape(-1) for array in arrays), strict=True)):
        key = tuple(map(id, cells))
        if key not in done:
            done[key] = function(*cells)
        flat[i] = done[key]
    return flat.reshape(arrays[0].shape)


def number(field: Field, value: float | Number) -> Cell:
    """A number as an element; a float is the fraction that it is."""
    if isinstance(value, float):
        if value != value:
            return NotANumber()  # type: ignore[return-value]
        if abs(value) == float("inf"):
            return extended.infinite(field, 1 if value > 0 else -1)
        value = Fraction(value)
    return field.constant(value)


def as_cell(field: Field, element: Any) -> Cell:
    """Any element as a real number."""
    if isinstance(element, (Form, Masked, NotANumber)):
        return element  # type: ignore[return-value]
    if isinstance(element, Table):
        return as_form(field, element)
    if isinstance(element, (bool, np.bool_, int, np.integer)):
        return field.constant(int(element))
    if not isinstance(element, (Fraction, float, np.floating)):
        raise Undecided(f"a number of another sort than reals ({type(element).__name__})")
    return number(field, element if isinstance(element, Fraction) else float(element))


def reals(field: Field, array: Array) -> Array:
    """An array as one of real elements."""
    if not is_symbolic(array) and array.dtype.kind == "c":
        raise Undecided("complex numbers")
    done: dict[Any, Cell] = {}

    def cell(element: Any) -> Cell:
        if isinstance(element, (Form, Masked, NotANumber)):
            return element  # type: ignore[return-value]
        key = id(element) if isinstance(element, Table) else element
        if key not in done:
            done[key] = as_cell(field, element)
        return done[key]

    out = np.empty(array.shape, dtype=object)
    flat, source = out.reshape(-1), array.reshape(-1)
    for i in range(source.size):
        flat[i] = cell(source[i])
    return flat.reshape(array.shape)


def total(field: Field, cells: list[Cell]) -> Cell:
    """The sum of many elements."""
    field.tick()
    terms: dict[Any, Number] = {}
    infinite: Cell | None = None
    for cell in cells:
        if not isinstance(cell, Form):
            infinite = extended.add(field.zero if infinite is None else infinite, cell)
            continue
        for monomial, coefficient in cell.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
    if len(terms) > field.most_terms:
        raise Undecided(f"a sum has more than {field.most_terms:,} terms")
    finite = Form(field, {m: c for m, c in terms.items() if c})
    heavy = [cell for cell in cells if field.huge and isinstance(cell, Form) and is_heavy(cell)]
    if len(heavy) > MOST_HEAVY or any(absorbs(a, b) for a, b in combinations(heavy, 2)):
        field.need("absorbed", finite)
    return finite if infinite is None else extended.add(infinite, finite)


def over_axes(array: Array, axes: tuple[int, ...], function: Callable[[list[Cell]], Cell]) -> Array:
    """A function of the elements along some axes, for each position of the others."""
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    rows = array.transpose([*kept, *axes]).reshape([*(array.shape[k] for k in kept), -1])
    out = np.empty(rows.shape[:-1], dtype=object)
    for at in np.ndindex(*rows.shape[:-1]):
        out[at] = function(list(rows[at]))
    return out


def folded(function: Callable[[Cell, Cell], Cell], first: Cell) -> Callable[[list[Cell]], Cell]:
    """A function of two as one of many."""

    def fold(cells: list[Cell]) -> Cell:
        result = first
        for cell in cells:
            result = function(result, cell)
        return result

    return fold
