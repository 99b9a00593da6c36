"""Reads and writes at indices, running sums and orders, of tensors in which variables stand for whole dims.

x[i] is Σ_v [v = i]·x[v], as a one-hot product is; a write that adds is Σ_b [i[b] = v]·u[b] at v. Both are sums like all
others, so that programs that select, add up segments or multiply by masks are one. An index that is read at has to be
known to be in range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from scalify_dl.oracle.dtypes import is_float
from scalify_dl.sizes import above

from . import extended
from .cells import Array, as_cell, mapped, reals, total
from .contracting import reduced
from .extended import Cell
from .finite import Table
from .form import Form, Undecided
from .indexing import Dims, Site, alike, compared_integers, compared_values, demand, positions, rule
from .spread import of_dim, size, small
from .variables import Variable
from .whole import integer_bounds

Places = dict[int, tuple[list[Form], list[Variable]]]
"""By dim, the values of an index at the elements that are followed, and its variables."""


def vectors(site: Site, indices: Array, names: dict[Variable, Variable]) -> Array:
    """The indices with their vector last, with the variables that those of batch dims become."""
    at, dims = site.number("index_vector_dim"), site.ins[1]
    demand(at >= len(dims) or not of_dim(dims, at), "an access")
    indices = site.machine.renamed(indices, names)
    return indices[..., None] if at == indices.ndim else np.moveaxis(indices, at, -1)


def new_places(site: Site, dims: Dims, which: Sequence[int], name: str) -> Places:
    """Variables of their own for some dims."""
    found: Places = {}
    for d in which:
        names = [Variable((name, d, k), v.size) for k, v in enumerate(of_dim(dims, d))]
        found[d] = positions(site.machine.basis, dims[d], names), names
    return found


def renamed_dim(dims: Dims, d: int, names: Sequence[Variable]) -> dict[Variable, Variable]:
    """What the variables of a dim become."""
    return dict(zip(of_dim(dims, d), names, strict=True))


def is_at(index: Any, position: Form) -> Form:
    """Whether an index is this position."""
    return extended.finite(as_cell(position.field, compared_values("EQ", index, position)), "a truth")


@rule("gather")
def gather(site: Site) -> list[Array]:
    """Single elements along the dims that indices count, all of the others."""
    (dx, di), (do,), basis = site.ins, site.outs, site.machine.basis
    demand(is_float(site.call.results[0].dtype), "an access to integers")
    sizes, mapped = site.numbers("slice_sizes"), site.numbers("start_index_map")
    paired = dict(zip(site.numbers("operand_batching_dims"), site.numbers("start_indices_batching_dims"), strict=True))
    offsets, gone = site.numbers("offset_dims"), {*site.numbers("collapsed_slice_dims"), *paired}
    at = [d for d in range(len(do)) if d not in offsets]
    names_i: dict[Variable, Variable] = {}
    batch = [d for d in range(len(di)) if d != site.number("index_vector_dim")]
    for d, there in zip(batch, at, strict=True):
        demand(di[d] == do[there], "an access")
        names_i |= renamed_dim(di, d, of_dim(do, there))
    indices: Any = vectors(site, site.xs[1], names_i)
    picked = new_places(site, dx, [d for d in mapped if sizes[d] == 1 and size(dx[d]) != 1], "picked")
    names_x = {a: b for d, (_, names) in picked.items() for a, b in renamed_dim(dx, d, names).items()}
    windows = dict(zip((d for d in range(len(dx)) if d not in gone), offsets, strict=True))
    source = {d: windows[d] for d in windows if d not in picked}
    source |= {d: at[batch.index(index_dim)] for d, index_dim in paired.items()}
    for d, there in source.items():
        demand(dx[d] == do[there], "an access")
        names_x |= renamed_dim(dx, d, of_dim(do, there))
    x = reals(basis, site.machine.renamed(site.xs[0], names_x))
    bound = [v for _, names in picked.values() for v in names]
    out = np.empty(tuple(small(dim) for dim in do), dtype=object)
    for place in np.ndindex(*out.shape):
        here = tuple(place[d] for d in at)
        wanted = {d: in_range(site, indices[(*here, mapped.index(d))], size(dx[d])) for d in picked}
        parts: list[Cell] = []
        for chosen, flag in _picks(site, picked, wanted):
            read = tuple(chosen[d] if d in chosen else place[source[d]] if d in source else 0 for d in range(len(dx)))
            parts.append(extended.multiply(x[read], flag))
        out[place] = reduced("sum", total(basis, parts), bound)
    return [out]


def in_range(site: Site, index: Any, most: int) -> Any:
    """An index that is known to be below a number, and at least zero."""
    if isinstance(index, Table):
        low, high = int(index.values.min()), int(index.values.max())
    else:
        low, high = integer_bounds(extended.finite(as_cell(site.machine.basis, index), "an index"))
    if not above(low + 1) or not above(most - high):
        raise Undecided("an access at an index of unknown range")
    return index


def _picks(site: Site, picked: Places, wanted: dict[int, Any]) -> Iterator[tuple[dict[int, int], Form]]:
    """The elements that are followed along some dims, and whether an index is there."""
    for chosen in product(*(range(len(cells)) for cells, _ in picked.values())):
        flag = site.machine.basis.one
        for (d, (cells, _)), n in zip(picked.items(), chosen, strict=True):
            flag = flag * is_at(wanted[d], cells[n])
        if flag.value != 0:
            yield dict(zip(picked, chosen, strict=True)), flag


@rule("scatter")
def scatter(site: Site) -> list[Array]:
    """Additions to single elements along the dims that indices count, and to all of the others; none out of range. What
    is written replaces an element where each row of the updates has a place of its own (`_own_places`)."""
    (dx, di, du), (do,), basis = site.ins, site.outs, site.machine.basis
    demand(is_float(site.call.results[0].dtype) and len(site.xs) == 3, "a write of integers")
    reducer = site.call.symbol("reducer", "replace")
    demand(reducer in ("sum", "replace"), "a write")
    demand(dx == do, "a write")
    mapped = site.numbers("scatter_dims_to_operand_dims")
    paired = dict(zip(site.numbers("input_batching_dims"), site.numbers("scatter_indices_batching_dims"), strict=True))
    window, gone = site.numbers("update_window_dims"), {*site.numbers("inserted_window_dims"), *paired}
    at = [d for d in range(len(du)) if d not in window]
    batch = [d for d in range(len(di)) if d != site.number("index_vector_dim")]
    same = dict(zip((d for d in range(len(dx)) if d not in gone), window, strict=True))
    same |= {d: at[batch.index(index_dim)] for d, index_dim in paired.items()}
    froms = new_places(site, du, [d for d in at if d not in same.values()], "from")
    becomes = {d: names for d, (_, names) in froms.items()}
    for d, there in same.items():
        demand(dx[d] == du[there] and d not in mapped, "a write")
        becomes[there] = of_dim(do, d)
    names_u = {a: b for d, names in becomes.items() for a, b in renamed_dim(du, d, names).items()}
    names_i: dict[Variable, Variable] = {}
    for d, there in zip(batch, at, strict=True):
        demand(di[d] == du[there], "a write")
        names_i |= renamed_dim(di, d, becomes[there])
    indices: Any = vectors(site, site.xs[1], names_i)
    x: Any = reals(basis, site.xs[0])
    updates: Any = reals(basis, site.machine.renamed(site.xs[2], names_u))
    target = {d: positions(basis, do[d], of_dim(do, d)) for d in mapped}
    bound = [v for _, names in froms.values() for v in names]
    out = np.empty(x.shape, dtype=object)
    for place in np.ndindex(*out.shape):
        parts, flags = list[Cell](), list[Cell]()
        for chosen in product(*(range(small(du[d])) for d in froms)):
            spot: dict[int, Any] = {**dict(zip(froms, chosen, strict=True)), **{u: place[d] for d, u in same.items()}}
            index = [indices[(*(spot[u] for u in at), n)] for n in range(len(mapped))]
            if reducer == "replace":
                _own_places(site, index, [size(dx[d]) for d in mapped], [froms[d][0][spot[d]] for d in froms])
            flag = basis.one
            for n, d in enumerate(mapped):
                flag = flag * is_at(index[n], target[d][place[d]])
            if flag.value != 0:
                flags.append(flag)
                parts.append(extended.multiply(updates[tuple(spot[u] for u in range(len(du)))], flag))
        before = x[place]
        if reducer == "replace":
            written = extended.finite(reduced("sum", total(basis, flags), bound), "a truth")
            before = extended.multiply(before, basis.one - written)
        out[place] = extended.add(before, reduced("sum", total(basis, parts), bound))
    return [out]


def _own_places(site: Site, index: Sequence[Any], sizes: Sequence[Any], rows: Sequence[Form]) -> None:
    """No element is written twice: where an update goes says which row of the updates it is of, by some part of the
    index that counts rows. Example: grad[arange(n), labels] = u."""
    basis = site.machine.basis
    ranged = [in_range(site, i, n) for i, n in zip(index, sizes, strict=True)]
    counts = [extended.finite(as_cell(basis, i), "an index") for i in ranged]
    if not all(any((count - row).terms == {} for count in counts) for row in rows):
        raise Undecided("a write to large dims that may write an element twice")


@rule("cumulative")
def cumulative(site: Site) -> list[Array]:
    """A running sum is the sum over the positions up to this one, one by log-sum-exp the logarithm of such a sum."""
    (dx,), (do,), basis, dim = site.ins, site.outs, site.machine.basis, site.number("dimension")
    alike("a running sum", dx, do)
    if not of_dim(dx, dim):
        return site.at_small_sizes(site.xs)
    name = site.call.symbol("reducer", "sum")
    demand(name in ("sum", "logsumexp") and is_float(site.call.results[0].dtype), "a running reduction")
    ((cells, names),) = new_places(site, dx, [dim], "upto").values()
    here = positions(basis, do[dim], of_dim(do, dim))
    x = reals(basis, site.machine.renamed(site.xs[0], renamed_dim(dx, dim, names)))
    x = mapped(extended.exponential, x) if name == "logsumexp" else x
    direction = "GE" if site.numbers("reverse")[:1] == [1] else "LE"
    out = np.empty(x.shape, dtype=object)
    for place in np.ndindex(*out.shape):
        shown = (compared_integers(direction, cell, here[place[dim]]) for cell in cells)
        along = (x[(*place[:dim], n, *place[dim + 1 :])] for n in range(len(cells)))
        parts = [extended.multiply(cell, flag) for cell, flag in zip(along, shown, strict=True)]
        out[place] = reduced("sum", total(basis, parts), names)
    return [mapped(extended.logarithm, out) if name == "logsumexp" else out]


@rule("top-k", "sort")
def ordered(site: Site) -> list[Array]:
    """Rows that are followed element by element, all alike."""
    dim = len(site.ins[0]) - 1 if site.call.op.kind == "top-k" else site.number("dimension")
    for dims in (*site.ins, *site.outs):
        alike("an order", dims[:dim], site.ins[0][:dim])
        alike("an order", dims[dim + 1 :], site.ins[0][dim + 1 :])
        demand(not of_dim(dims, dim), "an order")
    return site.at_small_sizes(site.xs)
