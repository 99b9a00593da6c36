"""Reads, writes and windows at indices, which may depend on inputs with few values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, product
from operator import mul
from typing import Any

import numpy as np

from scalify_dl.oracle.dtypes import is_float
from scalify_dl.oracle.meaning import MEANINGS, Call

from . import extended
from .cases import is_zero
from .cells import Array, as_cell, is_symbolic, mapped, reals, total
from .extended import Masked
from .finite import FEW, Leaf, Table, cases, together
from .form import Field, Form, Undecided
from .formulas import formula
from .permuted import different, turned_back, values_of

MOST_OPTIONS = 600
"""Most places of all windows of a scatter."""


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


@dataclass(frozen=True)
class _Option:
    """A vector of starts that an access may have: for which values of the leaves, and the indicator of that."""

    at: tuple[int, ...]
    starts: list[int]
    flag: Form


@dataclass(frozen=True)
class _Access:
    """Where one window of a gather or scatter may be."""

    leaves: tuple[Leaf, ...]
    options: list[_Option]


def _accesses(field: Field, call: Call, indices: Array) -> list[_Access]:
    """For each position of the batch dims."""
    at = call.number("index_vector_dim")
    vectors = indices[..., None] if at == indices.ndim else np.moveaxis(indices, at, -1)
    found = []
    for position in np.ndindex(*vectors.shape[:-1]):
        cells = list(vectors[position])
        tables = [c if isinstance(c, Table) else Table((), np.asarray(c)) for c in cells if not isinstance(c, Form)]
        try:
            if len(tables) < len(cells):
                raise Undecided("an access at an index of unknown range")
            leaves, arrays = together(tables, FEW)
        except Undecided:  # of many inputs: by formulas
            found.append(
                _Access((), list(_by_formulas([extended.finite(as_cell(field, c), "an index") for c in cells])))
            )
            continue
        options = [_Option(at, [int(a[at]) for a in arrays], flag) for at, flag in cases(field, leaves)]
        found.append(_Access(leaves, options))
    return found


def _by_formulas(indices: list[Form]) -> Iterator[_Option]:
    """The vectors of starts that integers of few values may be."""
    for chosen in product(*(values_of(form).items() for form in indices)):
        yield _Option((), [value for value, _ in chosen], reduce(mul, (flag for _, flag in chosen)))


def _indices(call: Call, indices: Array, rows: list[list[int]]) -> Array:
    """Indices of the same shape, with these vectors."""
    at = call.number("index_vector_dim")
    if at == indices.ndim:
        return np.array(rows, dtype=np.int64).reshape(indices.shape)
    shape = [n for d, n in enumerate(indices.shape) if d != at]
    return np.moveaxis(np.array(rows, dtype=np.int64).reshape([*shape, indices.shape[at]]), -1, at)


@formula("gather")
def gather(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Reads at indices; where these depend on inputs, Σ [index = k] · x[k], of integers a table."""
    x, indices = xs
    if not is_symbolic(indices):
        return MEANINGS["gather"](call, [x, indices])
    accesses, dtype = _accesses(field, call, indices), call.results[0].dtype
    shape = [n for d, n in enumerate(indices.shape) if d != call.number("index_vector_dim")]
    ids = np.arange(x.size).reshape(x.shape)
    found = []
    for n in range(max(len(access.options) for access in accesses)):
        rows = [access.options[min(n, len(access.options) - 1)].starts for access in accesses]
        found.append(MEANINGS["gather"](call, [ids, _indices(call, indices, rows)])[0])
    flat = (reals(field, x) if is_float(dtype) else np.asarray(x, dtype=object)).reshape(-1)
    out = np.empty(found[0].shape, dtype=object)
    batch = [d for d in range(out.ndim) if d not in call.numbers("offset_dims", [])]
    for place in np.ndindex(*out.shape):
        access = accesses[int(np.ravel_multi_index([place[d] for d in batch], shape)) if shape else 0]
        read = [flat[found[n][place]] for n in range(len(access.options))]
        out[place] = _one_of(field, access, read, real=is_float(dtype))
    return [out]


def _one_of(field: Field, access: _Access, cells: list[Any], *, real: bool) -> Any:
    """What an access reads, of what each of its options does."""
    by_formulas = len(access.options) > 1 and not access.leaves
    if real or by_formulas or any(isinstance(cell, (Form, Masked)) for cell in cells):
        parts = [(as_cell(field, cell), option.flag) for cell, option in zip(cells, access.options, strict=True)]
        return total(field, [extended.multiply(cell, flag) if len(parts) > 1 else cell for cell, flag in parts])
    chosen = np.zeros([leaf.hi - leaf.lo for leaf in access.leaves], dtype=np.int64)
    for n, option in enumerate(access.options):
        chosen[option.at] = n
    tables = [cell if isinstance(cell, Table) else Table((), np.asarray(cell)) for cell in cells]
    try:
        leaves, (places, *arrays) = together([Table(access.leaves, chosen), *tables], FEW)
    except Undecided:  # of many inputs
        return _one_of(field, access, cells, real=True)
    table = Table(leaves, np.take_along_axis(np.stack(arrays), np.array(places)[None], 0)[0]).simplified()
    return table if table.leaves else table.values[()]


@formula("scatter")
def scatter(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Writes or additions at indices; where these depend on inputs, of Σ [index = k] · update."""
    x, indices, updates = xs
    reducer = call.symbol("reducer", "replace")
    if reducer not in ("sum", "replace") or (reducer == "sum" and call.results[0].dtype == "pred"):
        raise Undecided(f"a scatter of {call.results[0].dtype} by `{reducer}`")
    if reducer == "replace" and (back := _written_back(call, xs)):
        out = np.empty(x.shape, dtype=object)
        out[:] = [Table((leaf,), updates) for leaf in back]
        return [out]
    x, updates = np.array(reals(field, x)), reals(field, updates)
    if not is_symbolic(indices):
        ones = [np.zeros(x.shape), indices, np.ones(updates.shape)]
        if reducer == "replace" and (_added(call, ones) > 1).any():
            raise Undecided("a scatter that writes an element twice")
        return MEANINGS["scatter"](call, [x, indices, updates])
    accesses = _accesses(field, call, indices)
    apart = different([access.leaves for access in accesses]) and all(_tells(access) for access in accesses)
    writes = _writes(call, xs, accesses)
    out = np.empty(x.size, dtype=object)
    for i, cell in enumerate(x.reshape(-1)):
        parts = [extended.multiply(updates.reshape(-1)[source], flag) for source, flag in writes.get(i, [])]
        if reducer == "replace" and parts:
            flags = [flag for _, flag in writes[i]]
            if not apart and not all(is_zero(a * b) for a, b in combinations(flags, 2)):
                raise Undecided("a scatter that may write an element twice")
            cell = extended.multiply(cell, field.one - sum(flags, field.zero))
        out[i] = total(field, [cell, *parts])
    return [out.reshape(x.shape)]


def _written_back(call: Call, xs: list[Array]) -> list[Leaf] | None:
    """Of numbers that are written to all places of a row: which one comes to each element."""
    x, indices, updates = xs
    if x.ndim != 1 or updates.shape != x.shape or indices.size != x.size or is_symbolic(updates):
        return None
    if not is_symbolic(indices) or updates.dtype.kind != "i" or call.numbers("update_window_dims", []):
        return None
    return turned_back(list(indices.reshape(-1)))


def _tells(access: _Access) -> bool:
    """Whether each place of a row is written to another start."""
    return len({tuple(option.starts) for option in access.options}) == len(access.options)


def _writes(call: Call, xs: list[Array], accesses: list[_Access]) -> dict[int, list[tuple[int, Form]]]:
    """For each element of a result of a scatter which updates may come to it, and the flag of that."""
    x, indices, updates = xs
    away = [[-1] * len(access.options[0].starts) for access in accesses]
    if sum(len(access.options) for access in accesses) > MOST_OPTIONS:
        raise Undecided("a scatter to many places")
    sources = np.arange(1, updates.size + 1).reshape(updates.shape)
    found: dict[int, list[tuple[int, Form]]] = {}
    for position, access in enumerate(accesses):
        flags: dict[tuple[int, int], Form] = {}
        for option in access.options:
            rows = [*away[:position], option.starts, *away[position + 1 :]]
            reached = _replaced(call, [np.zeros(x.shape, dtype=np.int64), _indices(call, indices, rows), sources])
            for target in np.flatnonzero(reached):
                key = int(target), int(reached.reshape(-1)[target]) - 1
                flags[key] = flags[key] + option.flag if key in flags else option.flag
        for (i, source), flag in flags.items():
            found.setdefault(i, []).append((source, flag))
    return found


def _replaced(call: Call, xs: list[Array]) -> Array:
    op = replace(call.op, symbols={**call.op.symbols, "reducer": ["replace"]})
    return MEANINGS["scatter"](replace(call, op=op), xs)[0]


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
