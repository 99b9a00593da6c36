"""Reads, writes and windows at indices, which may depend on inputs with few values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scalify_dl.oracle.dtypes import is_float
from scalify_dl.oracle.meaning import MEANINGS, Call

from . import extended
from .cells import Array, is_symbolic, mapped, reals, total
from .extended import Masked
from .finite import Table, cases, together
from .form import Field, Form, Undecided
from .formulas import formula


def _start_cases(field: Field, cells: list[Any]) -> list[tuple[list[int], Form]]:
    """Each combination of values of some integers, with its indicator."""
    if any(isinstance(cell, (Form, Masked)) for cell in cells):
        raise Undecided("an access at an index of unknown range")
    tables = [cell if isinstance(cell, Table) else Table((), np.asarray(cell)) for cell in cells]
    leaves, arrays = together(tables)
    return [([int(values[at]) for values in arrays], flag) for at, flag in cases(field, leaves)]


@formula("dynamic-slice")
def dynamic_slice(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """A window; where its start depends on inputs, one of several."""
    x, starts = xs[0], [start[()] for start in xs[1:]]
    found = [
        (MEANINGS["dynamic-slice"](call, [x, *map(np.asarray, at)])[0], flag)
        for at, flag in _start_cases(field, starts)
    ]
    return [_mixed(field, found)]


def _mixed(field: Field, found: list[tuple[Array, Form]]) -> Array:
    if len(found) == 1:
        return found[0][0]
    parts = [mapped(lambda cell, flag=flag: extended.multiply(cell, flag), reals(field, part)) for part, flag in found]
    out = np.empty(parts[0].shape, dtype=object)
    for at in np.ndindex(*out.shape):
        out[at] = total(field, list[Any](part[at] for part in parts))
    return out


@formula("dynamic-update-slice")
def dynamic_update_slice(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """A window replaced; where its start depends on inputs, one of several."""
    starts = [start[()] for start in xs[2:]]
    x, update = (np.asarray(v, dtype=object) if any(map(is_symbolic, xs[:2])) else v for v in xs[:2])
    found = [
        (MEANINGS["dynamic-update-slice"](call, [x, update, *map(np.asarray, at)])[0], flag)
        for at, flag in _start_cases(field, starts)
    ]
    return [_mixed(field, found)]


def _index_cases(field: Field, indices: Array) -> list[tuple[Array, Array]]:
    """Arrays of numbers that the indices may be, each with the indicators of its elements.

    Each element of the indices depends on its own input: the n-th array has each one's n-th case.
    """
    if not is_symbolic(indices):
        return [(indices, np.array(True))]
    by_cell = [_start_cases(field, [cell]) for cell in indices.reshape(-1)]
    most = max(map(len, by_cell))
    found = []
    for n in range(most):
        values, flags = np.zeros(indices.size, dtype=np.int64), np.empty(indices.size, dtype=object)
        for i, options in enumerate(by_cell):
            values[i], flags[i] = (options[n][0][0], options[n][1]) if n < len(options) else (0, field.zero)
        found.append((values.reshape(indices.shape), flags.reshape(indices.shape)))
    return found


@formula("gather")
def gather(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Reads at indices; where these depend on inputs, Σ [index = k] · x[k]."""
    x, indices = xs
    options = _index_cases(field, indices)
    if len(options) == 1:
        return MEANINGS["gather"](call, [x, options[0][0]])
    flags = _one_component(call, indices)
    parts: list[Array] = []
    for values, indicator in options:
        found = MEANINGS["gather"](call, [x, values])[0]
        batch = [d for d in range(found.ndim) if d not in call.numbers("offset_dims", [])]
        at = indicator.reshape(flags)
        spread = at.reshape([at.shape[batch.index(d)] if d in batch else 1 for d in range(found.ndim)])
        parts.append(mapped(extended.multiply, reals(field, found), np.broadcast_to(spread, found.shape)))
    out = np.empty(parts[0].shape, dtype=object)
    for place in np.ndindex(*out.shape):
        out[place] = total(field, list[Any](part[place] for part in parts))
    return [out]


def _one_component(call: Call, indices: Array) -> list[int]:
    """The shape of the batch dims of indices that have one component."""
    at = call.number("index_vector_dim")
    if at < indices.ndim and indices.shape[at] != 1:
        raise Undecided("an access at several indices that depend on inputs")
    return [n for d, n in enumerate(indices.shape) if d != at]


@formula("scatter")
def scatter(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Additions at indices; where these depend on inputs, of Σ [index = k] · update."""
    x, indices, updates = xs
    options = _index_cases(field, indices)
    reducer = call.symbol("reducer", "replace")
    if reducer not in ("sum", "replace") or (reducer == "replace" and len(options) > 1):
        raise Undecided(f"a scatter by `{reducer}`")
    x, updates = np.array(reals(field, x)), reals(field, updates)
    if len(options) == 1:
        ones = [np.zeros(x.shape), options[0][0], np.ones(updates.shape)]
        if reducer == "replace" and (_added(call, ones) > 1).any():
            raise Undecided("a scatter that writes an element twice")
        return MEANINGS["scatter"](call, [x, options[0][0], updates])
    shape = _one_component(call, indices)
    windows = call.numbers("update_window_dims", [])
    batch = [d for d in range(updates.ndim) if d not in windows]
    for values, indicator in options:
        at = indicator.reshape(shape)
        spread = at.reshape([at.shape[batch.index(d)] if d in batch else 1 for d in range(updates.ndim)])
        flagged = mapped(extended.multiply, updates, np.broadcast_to(spread, updates.shape))
        (x,) = MEANINGS["scatter"](call, [x, values, flagged])
    return [x]


def _added(call: Call, xs: list[Array]) -> Array:
    """The scatter, adding up."""
    op = replace(call.op, symbols={**call.op.symbols, "reducer": ["sum"]})
    return MEANINGS["scatter"](replace(call, op=op), xs)[0]


@formula("pad")
def pad(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Padding with a scalar."""
    x, value = (reals(field, v) for v in xs) if is_float(call.results[0].dtype) else xs
    if not is_symbolic(value):
        return MEANINGS["pad"](call, [x, value])
    index = np.arange(1, x.size + 1).reshape(x.shape)
    (places,) = MEANINGS["pad"](call, [index, np.array(0)])
    pool = np.empty(x.size + 1, dtype=object)
    pool[0], pool[1:] = value[()], x.reshape(-1)
    return [pool[places]]
