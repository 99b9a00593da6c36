"""Reads and writes at places that integers say."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np

from .elementwise import Elementwise
from .forms import Form, Unknown
from .integers import combined, mixed, table
from .permuted import each_once
from .programs import Op

Array = np.ndarray[Any, Any]


def gathered(of: Elementwise, op: Op, rank: int, x: Array, ids: Array, shape: tuple[int, ...]) -> Array:
    """XLA's gather: slices of `x` that begin where `ids` say, as far as they fit; ids below zero may count from the
    end."""
    mode = op.text("mode", "clamp")
    if mode not in ("clamp", "wrap"):
        raise Unknown("a gather of another mode")

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
        first = [(d, _start(of, ids[(*row, n)], x.shape[d], sizes[d], mode)) for n, d in enumerate(starts)]
        out[at] = _picked(of, x, base, first)
    return out


def _start(of: Elementwise, i: Any, size: int, width: int, mode: str) -> Any:
    """Where a slice begins."""
    if mode == "wrap":
        i = combined(of.atoms, lambda n: n + size if n < 0 else n, [i])
    return combined(of.atoms, lambda n: min(max(n, 0), size - width), [i])


def _picked(of: Elementwise, x: Array, base: dict[int, int], starts: list[tuple[int, Any]]) -> Any:
    """An element of an array at a place that integers say."""
    if not starts:
        return x[tuple(base[d] for d in range(x.ndim))]
    (dim, start), *rest = starts
    cases = table(of.atoms, start).cases
    found = {value: _picked(of, x, {**base, dim: base[dim] + value}, rest) for value in cases}
    return mixed(of, {n: cases[value] for n, value in enumerate(found)}, [*found.values()])


def scattered(of: Elementwise, op: Op, rank: int, x: Array, ids: Array, new: Array) -> Array:
    """XLA's scatter: windows of `new` are put, or added, where `ids` say; those that do not fit are dropped. Unknown
    where two may be put in one place."""
    reducer = op.text("reducer", "replace")
    if reducer not in ("replace", "sum"):
        raise Unknown(f"a scatter by {reducer}")

    def numbers(name: str) -> list[int]:
        return op.numbers(name, rank, [])

    window, inserted = numbers("update_window_dims"), numbers("inserted_window_dims")
    batching, batches_of_ids = numbers("input_batching_dims"), numbers("scatter_indices_batching_dims")
    starts, vector = numbers("scatter_dims_to_operand_dims"), op.number("index_vector_dim", rank)
    ids = np.moveaxis(ids[..., None] if vector == ids.ndim else ids, vector, -1)
    kept = [d for d in range(x.ndim) if d not in inserted and d not in batching]
    outer = [d for d in range(new.ndim) if d not in window]
    if len(kept) != len(window) or len(outer) != ids.ndim - 1 or len(starts) != ids.shape[-1]:
        raise Unknown("a scatter of another shape")
    sizes = dict.fromkeys(range(x.ndim), 1) | {d: new.shape[w] for d, w in zip(kept, window, strict=True)}
    out = np.array(x)
    put: dict[tuple[int, ...], list[tuple[Form, Any]]] = defaultdict(list)
    for at in np.ndindex(*new.shape):
        row = tuple(at[d] for d in outer)
        base = {d: at[w] for d, w in zip(kept, window, strict=True)}
        base |= {d: row[b - (b > vector)] for d, b in zip(batching, batches_of_ids, strict=True)}
        first = [table(of.atoms, ids[(*row, n)]).cases for n in range(len(starts))]
        for values in product(*first):
            low = dict(zip(starts, values, strict=True))
            if any(not 0 <= i <= x.shape[d] - sizes[d] for d, i in low.items()):
                continue
            truth = of.atoms.number(1)
            for cases, value in zip(first, values, strict=True):
                truth = truth * cases[value]
            place = tuple(base.get(d, 0) + low.get(d, 0) for d in range(x.ndim))
            if not truth.terms:
                continue
            if reducer == "sum":
                out[place] = of.add(out[place], of.multiply(truth, new[at]))
                continue
            if any((truth * other).terms for other, _ in put[place]):
                raise Unknown("a scatter that may put two in one place")
            put[place].append((truth, new[at]))
    for place, parts in put.items():
        truths, elements = [truth for truth, _ in parts], [element for _, element in parts]
        rest = each_once(sum((-truth for truth in truths), of.atoms.number(1)))
        if rest.terms:
            truths, elements = [*truths, rest], [*elements, out[place]]
        out[place] = mixed(of, dict(enumerate(truths)), elements)
    return out
