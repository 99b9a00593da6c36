"""Reductions, scans, extremes and contractions of formulas."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from scalify_dl.oracle.dtypes import is_float, storage
from scalify_dl.oracle.meaning import MEANINGS, Call
from scalify_dl.oracle.meaning.windows import Window

from . import elementwise, extended, laws, order
from .cells import Array, as_cell, folded, is_symbolic, mapped, over_axes, reals, total
from .extended import Cell, Masked
from .finite import FEW, Leaf, Table, cases, leaf_table, together
from .form import Field, Form, Undecided
from .formulas import formula
from .numbers import literal
from .permuted import turned_back


@formula("reduce")
def reduce(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Sums, products, maxima and minima, truths."""
    if len(xs) != 1:
        raise Undecided("a reduction of several operands")
    axes = tuple(call.numbers("dimensions", []))
    if call.symbol("reducer") in ("argmax", "argmin"):
        (axis,) = axes
        return [_places(call, "argmax" if call.symbol("reducer") == "argmax" else "argmin", reals(field, xs[0]), axis)]
    return [over_axes(reals(field, xs[0]), axes, _reducer(field, call.symbol("reducer"), call.results[0].dtype))]


def _places(call: Call, name: str, x: Array, axis: int) -> Array:
    """Where the extreme of each row is (the first of equals); where it may be infinite, an unknown place."""
    dtype = storage(call.results[0].dtype)
    return over_axes(x, (axis,), lambda cells: leaf_table(_place(cells, 0, name), dtype))  # type: ignore[arg-type, return-value]


def _row(cells: list[Cell], j: int, name: str) -> tuple[list[Form], int] | None:
    """Numbers, and which of them in order the j-th greatest element of a row is (minus the j-th least where the name
    says so): of a row of which the greatest, found before, are −∞ now, one further on. None of other infinities."""
    seen = [extended.negate(cell) if name == "argmin" else cell for cell in cells]
    masked = [Masked(cell.field.one, cell) if isinstance(cell, Form) else cell for cell in seen]
    count = 0 if all(isinstance(cell, Form) for cell in cells) else None
    if count is None and all(isinstance(cell, Masked) and cell.sign < 0 for cell in masked):
        count = order.hidden(masked)
    return None if count is None or count + j >= len(cells) else ([cell.form for cell in masked], count + j)


def _place(cells: list[Cell], j: int, name: str) -> Leaf:
    """Where the j-th greatest element of a row is; the j-th least where the name says so."""
    row = _row(cells, j, name)
    return order.place(*row) if row else Leaf((name, j, tuple(cells)), 0, len(cells))


def _in_order(field: Field, cells: list[Cell], j: int, name: str) -> Cell:
    """The j-th greatest (or least) element of a row."""
    found = _number_in_order(cells, j, name)
    return found if found is not None else _picked(field, cells, _place(cells, j, name))


def _number_in_order(cells: list[Cell], j: int, name: str) -> Form | None:
    row = _row(cells, j, name)
    if row is None:
        return None
    forms, n = row
    return order.greatest(*row) if name != "argmin" else order.greatest([-f for f in forms], len(forms) - 1 - n)


def _picked(field: Field, cells: list[Cell], leaf: Leaf) -> Cell:
    return total(field, [extended.multiply(cells[i], flag) for (i,), flag in cases(field, (leaf,))])


@formula("top-k")
def top_k(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """The k largest of each row and their places."""
    x, k, dtype = reals(field, xs[0]), call.number("k"), storage(call.results[1].dtype)
    _ordered(field, x, call.number("stable", 1))
    if is_float(call.results[0].dtype):
        _of_one_sign(field, x)
    values, places = (np.empty((*x.shape[:-1], k), dtype=object) for _ in range(2))
    for at in np.ndindex(*values.shape):
        row = list(x[at[:-1]])
        places[at] = leaf_table(_place(row, at[-1], "top-k"), dtype)
        values[at] = _in_order(field, row, at[-1], "top-k")
    return [values, places]


@formula("sort")
def sort(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """All operands in the order of the first; of equals the first comes first."""
    axis, direction = call.number("dimension"), call.symbol("direction", "region")
    if direction not in ("ASC", "DESC"):
        raise Undecided("a sort by a comparator that was not recognised")
    moved = [np.moveaxis(x, axis, -1) for x in xs]
    if len(xs) > 1:
        _ordered(field, xs[0], call.number("stable", 0))
    if not is_symbolic(moved[0]) or any(isinstance(cell, Table) for cell in moved[0].reshape(-1)):
        found = _sorted_integers(field, call, moved)
    else:
        name = "top-k" if direction == "DESC" else "argmin"
        moved = [reals(field, moved[0]), *(np.asarray(x, dtype=object) for x in moved[1:])]
        found = [np.empty(x.shape, dtype=object) for x in moved]
        for at in np.ndindex(*moved[0].shape):
            row = list(moved[0][at[:-1]])
            found[0][at] = _in_order(field, row, at[-1], name)
            leaf = _place(row, at[-1], name)
            for x, out, result in zip(moved[1:], found[1:], call.results[1:], strict=True):
                out[at] = _element(field, list(x[at[:-1]]), leaf_table(leaf, np.dtype(np.int64)), result.dtype)
    return [np.moveaxis(x, -1, axis) for x in found]


def _ordered(field: Field, x: Array, stable: int) -> None:
    """Notes that equals are found in order where an op does not say so."""
    first = next((cell for cell in x.reshape(-1) if isinstance(cell, Form)), field.one)
    if not stable and x.size > 1:
        field.need("order", first)


def _of_one_sign(field: Field, x: Array) -> None:
    """Notes that rows have not zeros of both signs: XLA's top-k puts 0 before -0, other orders by their places."""
    doubtful = next((c for c in x.reshape(-1) if not (isinstance(c, Form) and c.is_nonzero())), None)
    if doubtful is not None and x.size > 1:
        field.need("zeros", doubtful if isinstance(doubtful, Form) else field.one)


def _sorted_integers(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """A sort by integers of few values: the place that each element comes from is a table of them."""
    name = "argmin" if call.symbol("direction") == "ASC" else "top-k"
    found = [np.empty(x.shape, dtype=object) for x in xs]
    for at in np.ndindex(*xs[0].shape[:-1]):
        keys = [k if isinstance(k, Table) else Table((), np.asarray(k)) for k in xs[0][at]]
        if any(isinstance(k, (Form, extended.Masked)) for k in xs[0][at]):
            raise Undecided("a sort by integers of unknown range")
        back = turned_back(keys) if name == "argmin" else None
        try:
            leaves, arrays = together(keys, 0 if back else FEW)
        except Undecided:  # of many inputs: then a place is one in the order of a row
            cells = list(map(partial(as_cell, field), keys))
            for j in range(len(keys)):
                place = leaf_table(back[j] if back else _place(cells, j, name), np.dtype(np.int64))
                for x, out, result in zip(xs, found, call.results, strict=True):
                    out[(*at, j)] = _element(field, list(x[at]), place, result.dtype)
            continue
        stacked = np.stack(arrays, axis=-1)
        if call.symbol("direction") == "ASC":
            places = np.argsort(stacked, axis=-1, kind="stable")
        else:
            turned = np.argsort(np.flip(stacked, -1), axis=-1, kind="stable")
            places = np.flip(stacked.shape[-1] - 1 - turned, -1)
        for j in range(stacked.shape[-1]):
            place = Table(leaves, places[..., j]).simplified()
            for x, out, result in zip(xs, found, call.results, strict=True):
                out[(*at, j)] = _element(field, list(x[at]), place, result.dtype)
    return found


def _element(field: Field, cells: list[object], place: Table, dtype: str) -> object:
    """The element of a row at a place that a table tells."""
    if not place.leaves:
        return cells[int(place.values[()])]
    if any(isinstance(cell, (Form, extended.Masked)) for cell in cells) or is_float(dtype):
        options = [(as_cell(field, cells[int(place.values[at])]), flag) for at, flag in cases(field, place.leaves)]
        return total(field, [extended.multiply(cell, flag) for cell, flag in options])
    tables = [cell if isinstance(cell, Table) else Table((), np.asarray(cell)) for cell in cells]
    try:
        leaves, (chosen, *arrays) = together([place, *tables], FEW)
    except Undecided:  # of many inputs
        return _element(field, [as_cell(field, cell) for cell in cells], place, dtype)
    return Table(leaves, np.take_along_axis(np.stack(arrays), chosen[None], 0)[0]).simplified()


def _reducer(field: Field, name: str, dtype: str) -> Callable[[list[Cell]], Cell]:
    if dtype == "pred" and name in ("sum", "prod"):
        raise Undecided(f"a reduction by `{name}` of truths")
    if name == "sum":
        return lambda cells: total(field, cells)
    if name == "prod":
        return folded(extended.multiply, field.one)
    if name in ("max", "min") and dtype != "pred":
        function = extended.maximum if name == "max" else extended.minimum
        one_by_one = folded(function, extended.infinite(field, -1 if name == "max" else 1))
        return lambda cells: one_by_one(cells) if (found := _extreme(cells, name)) is None else found
    if name in ("and", "or") and dtype == "pred":
        first = field.one if name == "and" else field.zero
        return folded(lambda x, y: elementwise.TRUTHS[name](x, y), first)
    raise Undecided(f"a reduction by `{name}` of {dtype}")


def _extreme(cells: list[Cell], name: str) -> Form | None:
    """The greatest (or least) of many numbers: all together, since each step of a fold looks at all before it. None
    where some may be infinite, unless these are the greatest, found before."""
    if cells and all(isinstance(cell, Form) for cell in cells):
        forms: list[Form] = [extended.finite(cell, name) for cell in cells]
        return laws.most(forms) if name == "max" else laws.least(forms)
    return _number_in_order(cells, 0, "top-k" if name == "max" else "argmin") if cells else None


@formula("reduce-window")
def reduce_window(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """The reduction of every window, without its padding."""
    x = reals(field, xs[0])
    function = _reducer(field, call.symbol("reducer"), call.results[0].dtype)
    window = Window(call, x.ndim)
    places = window.pad(np.arange(1, x.size + 1).reshape(x.shape), 0)
    out = np.empty(window.count(places.shape), dtype=object)
    for at in np.ndindex(*out.shape):
        seen = tuple(
            slice(a * s, a * s + (n - 1) * d + 1, d)
            for a, s, n, d in zip(at, window.stride, window.size, window.dilation, strict=True)
        )
        out[at] = function([x.reshape(-1)[place - 1] for place in places[seen].reshape(-1) if place])
    return [out]


@formula("cumulative")
def cumulative(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Inclusive scans along a dim; one by log-sum-exp is the logarithm of a running sum."""
    name, axis = call.symbol("reducer"), call.number("dimension")
    logarithmic = name == "logsumexp"
    function = _reducer(field, "sum" if logarithmic else name, call.results[0].dtype)
    x = np.moveaxis(reals(field, xs[0]), axis, -1)
    x = mapped(extended.exponential, x) if logarithmic else x
    x = np.flip(x, -1) if call.number("reverse", 0) else x
    out = np.empty(x.shape, dtype=object)
    for at in np.ndindex(*x.shape):
        cells: list[Any] = [x[at]] if at[-1] == 0 else [out[(*at[:-1], at[-1] - 1)], x[at]]
        out[at] = function(cells)
    out = mapped(extended.logarithm, out) if logarithmic else out
    return [np.moveaxis(np.flip(out, -1) if call.number("reverse", 0) else out, -1, axis)]


def contracted(field: Field, left: Array, right: Array) -> Array:
    """Matrix products, batch dims first and alike."""
    out = np.empty((*left.shape[:-1], right.shape[-1]), dtype=object)
    if out.size * left.shape[-1] > 400_000:
        raise Undecided("a product of large matrices")
    for at in np.ndindex(*out.shape):
        row, column = left[at[:-1]], right[at[:-2]][:, at[-1]]
        out[at] = total(field, [extended.multiply(a, b) for a, b in zip(row, column, strict=True)])
    return out


@formula("dot")
def dot(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Result dims: batch, free dims of the left, free dims of the right."""
    batch = call.numbers("lhs_batch_dims", []), call.numbers("rhs_batch_dims", [])
    inner = call.numbers("lhs_contracting_dims", []), call.numbers("rhs_contracting_dims", [])
    x, y = (reals(field, x) for x in xs)
    free = [
        [d for d in range(v.ndim) if d not in b and d not in c] for v, b, c in zip((x, y), batch, inner, strict=True)
    ]
    left = x.transpose([*batch[0], *free[0], *inner[0]])
    right = y.transpose([*batch[1], *inner[1], *free[1]])
    batches = [x.shape[d] for d in batch[0]]
    depth = int(np.prod([x.shape[d] for d in inner[0]], dtype=int))
    rows, columns = [x.shape[d] for d in free[0]], [y.shape[d] for d in free[1]]
    result = contracted(
        field,
        left.reshape([*batches, int(np.prod(rows, dtype=int)), depth]),
        right.reshape([*batches, depth, int(np.prod(columns, dtype=int))]),
    )
    if call.results[0].dtype == "pred":
        raise Undecided("a product of truths")
    return [result.reshape([*batches, *rows, *columns])]


@formula("attention")
def attention(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """softmax(scale · q kᵀ + mask) v, and the log of the sum of exponentials."""
    q, k, v, *mask = xs
    q, k, v = (reals(field, x) for x in (q, k, v))
    text = call.symbol("scale", "")
    scale = literal(field, text, "f32") if text else laws.constant_power(field, q.shape[-1], Fraction(-1, 2))
    if q.shape[:-2] != k.shape[:-2]:
        raise Undecided("attention whose query and key heads differ")
    scores = mapped(lambda s: extended.multiply(s, scale), contracted(field, q, np.swapaxes(k, -1, -2)))
    low = np.empty((), dtype=object)
    low[()] = extended.infinite(field, -1)
    if mask:
        scores = mapped(extended.add, scores, reals(field, mask[0]))
    if call.number("causal", 0):
        rows, columns = np.indices(scores.shape[-2:])
        scores = np.where(columns <= rows, scores, low)
    weights = mapped(extended.exponential, scores)
    sums = over_axes(weights, (weights.ndim - 1,), lambda cells: total(field, cells))
    out = mapped(lambda x, s: extended.multiply(x, laws.power(s, -1)), contracted(field, weights, v), sums[..., None])
    return [out, mapped(extended.logarithm, sums)][: len(call.results)]


@formula("convolution")
def convolution(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Σ x·w over windows: which products, the oracle's meaning tells when run on unit kernels."""
    if call.results[0].dtype == "pred":
        raise Undecided("a product of truths")
    x, w = (reals(field, v) for v in xs)
    if x.size * w.size > 100_000:
        raise Undecided("a large convolution")
    result: Array | None = None
    for at in product(*(range(n) for n in w.shape)):
        unit = np.zeros(w.shape)
        unit[at] = 1
        # each output element is one input element (counted from 1), or none, times this kernel element
        (places,) = MEANINGS["convolution"](call, [np.arange(1.0, x.size + 1).reshape(x.shape), unit])
        pool = np.empty(x.size + 1, dtype=object)
        pool[0] = field.zero
        pool[1:] = [extended.multiply(cell, w[at]) for cell in x.reshape(-1)]
        part = pool[np.rint(places).astype(int)]
        result = part if result is None else mapped(extended.add, result, part)
    assert result is not None
    return [result]
