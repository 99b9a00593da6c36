"""What ops other than elementwise ones make of formulas; ops that move elements are the oracle's own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from scalify_dl.ir.literals import rational
from scalify_dl.oracle.dtypes import integer_limits, is_float, is_integer, precision, storage
from scalify_dl.oracle.literals import ELIDED, literal_array
from scalify_dl.oracle.meaning import MEANINGS, Call
from scalify_dl.registry import registering

from . import elementwise, extended, laws
from .cells import Array, as_cell, folded, is_symbolic, mapped, number, over_axes, reals, total
from .extended import Cell, Masked
from .finite import Leaf, Table, cases, leaf_table, together
from .form import Field, Form, Undecided

Formula = Callable[[Field, Call, list[Array]], list[Array]]
FORMULAS: dict[str, Formula] = {}
formula = registering(FORMULAS)
"""Registers what some kinds make of formulas."""

MOVES = frozenset(["broadcast", "reshape", "transpose", "slice", "concatenate", "reverse"])
"""Kinds that the oracle's meaning, which copies elements, is used of as it is."""


def _real(call: Call) -> bool:
    return is_float(call.results[0].dtype)


def constants(field: Field, call: Call) -> Array:
    """The value of a constant, exactly; elements of an elided one are unknowns that equal hashes share."""
    tensor = call.results[0]
    if "value" in call.op.numbers or "value" in call.op.by_rank:
        value = np.broadcast_to(np.array(call.number("value")), tensor.shape)
        return reals(field, value) if _real(call) else value.astype(np.int64)
    if tensor.literal is None or tensor.literal == ELIDED:
        if tensor.items is not None:
            return literal_array(tensor)
        if tensor.sha256 is None:
            raise Undecided(f"the constant {tensor.id} is elided")
        sha, out = tensor.sha256, np.empty(tensor.shape, dtype=object)
        for i, at in enumerate(np.ndindex(*tensor.shape)):
            out[at] = field.of(field.element("constant", (sha, tensor.shape, i)))
        return out
    if not _real(call):
        return literal_array(tensor)
    words = tensor.literal.replace("{", "").replace("}", "").split(",")
    cells = np.empty(len(words), dtype=object)
    for i, word in enumerate(words):
        cells[i] = literal(field, word, tensor.dtype)
    if not tensor.literal.startswith("{"):
        return np.broadcast_to(cells.reshape(()), tensor.shape)
    return cells.reshape(tensor.shape)


def literal(field: Field, text: str, dtype: str) -> Cell:
    """The number that a literal text names: roots of small ratios, rounded to the type, are the roots."""
    if text in ("inf", "-inf", "nan"):
        return number(field, float(text))
    value = Fraction(text) if "/" in text else rational(text)
    if value.denominator < 4096 or "/" in text:
        return field.constant(value)
    square = value * value
    ratio = square.limit_denominator(1024)
    if ratio and ratio.numerator < 4096 and abs(square / ratio - 1) < Fraction(1, 1 << precision(dtype)):
        root = laws.constant_power(field, ratio, Fraction(1, 2))
        return root if value > 0 else -root
    return field.constant(value)


# ---- elementwise ----
def elementwise_cells(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """An elementwise op on arrays of which some hold formulas."""
    kind, dtype = call.op.kind, call.results[0].dtype
    if kind == "select":
        return [_selected(field, dtype, *xs)]
    if kind == "compare":
        return [_compared(field, call, xs)]
    if kind == "convert":
        return [_converted(field, xs[0], call)]
    if dtype == "pred" and kind in elementwise.TRUTHS:
        return [_tabled(field, call, xs, elementwise.TRUTHS[kind])]
    if is_integer(dtype):
        return [_tabled(field, call, xs, lambda *cells: _whole(field, kind, dtype, cells))]
    xs = [reals(field, x) for x in xs]
    if kind in elementwise.UNARY and len(xs) == 1:
        return [mapped(elementwise.UNARY[kind], *xs)]
    if kind in elementwise.BINARY and len(xs) == 2:
        return [mapped(elementwise.BINARY[kind], *xs)]
    if kind == "clamp":
        return [mapped(elementwise.clamped, *xs)]
    raise Undecided(f"no law is known of `{kind}`")


def _whole(field: Field, kind: str, dtype: str, cells: tuple[Cell, ...]) -> Form:
    """Integer arithmetic on formulas: as of real numbers where nothing can wrap round."""
    if kind not in ("add", "subtract", "multiply", "negate", "maximum", "minimum"):
        raise Undecided(f"`{kind}` of integers that depend on inputs")
    function = elementwise.UNARY.get(kind) or elementwise.BINARY[kind]
    return bounded(extended.finite(function(*cells), kind), dtype)


def bounded(form: Form, dtype: str) -> Form:
    """An integer formula that its type holds; Undecided where it may not."""
    lo, hi = _bounds(form)
    least, most = integer_limits(dtype)
    if lo < least or hi > most:
        raise Undecided(f"integers of {dtype} that may wrap round")
    return form


def _bounds(form: Form) -> tuple[float, float]:
    low = high = 0.0
    for monomial, coefficient in form.terms.items():
        lo, hi = 1.0, 1.0
        for element_number, exponent in monomial:
            kind, data = form.field.elements[element_number][:2]
            if kind in ("flag", "equals"):
                a, b = 0.0, 1.0
            elif kind == "integer":
                a, b = map(float, integer_limits(data[1]))  # type: ignore[index]
            else:
                raise Undecided(f"integers that may wrap round {kind}")
            for _ in range(int(exponent)):
                ends = [lo * a, lo * b, hi * a, hi * b]
                lo, hi = min(ends), max(ends)
        ends = [lo * float(coefficient), hi * float(coefficient)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _tabled(field: Field, call: Call, xs: list[Array], otherwise: Callable[..., Form]) -> Array:
    """An op on integers or truths: by tables where all elements are numbers or tables, else by formulas."""
    meaning = MEANINGS[call.op.kind]

    def apply(*cells: Any) -> Any:
        if any(isinstance(cell, (Form, Masked)) for cell in cells):
            return otherwise(*(as_cell(field, cell) for cell in cells))
        return _over_tables(lambda *arrays: meaning(call, list(arrays))[0], cells)

    return mapped(apply, *xs)


def _over_tables(function: Callable[..., Array], cells: tuple[Any, ...]) -> Any:
    tables = [cell if isinstance(cell, Table) else Table((), np.asarray(cell)) for cell in cells]
    leaves, arrays = together(tables)
    result = Table(leaves, np.asarray(function(*arrays))).simplified()
    return result if result.leaves else result.values[()]


def _selected(field: Field, dtype: str, truths: Array, yes: Array, no: Array) -> Array:
    real = is_float(dtype)

    def choose(which: Any, a: Any, b: Any) -> Any:
        if not isinstance(which, (Form, Table)):
            return a if which else b
        if not real and not any(isinstance(cell, (Form, Masked)) for cell in (which, a, b)):
            return _over_tables(np.where, (which, a, b))
        cell = extended.choose(elementwise.truth(field, which), as_cell(field, a), as_cell(field, b))
        return cell

    if real:
        yes, no = reals(field, yes), reals(field, no)
    return mapped(choose, truths, yes, no)


def _compared(field: Field, call: Call, xs: list[Array]) -> Array:
    direction, meaning = call.symbol("direction"), MEANINGS["compare"]
    if call.symbol("order", "") == "total":
        raise Undecided("a comparison by total order")

    def apply(left: Any, right: Any) -> Any:
        if any(isinstance(cell, (Form, Masked)) for cell in (left, right)):
            return elementwise.compared(direction, as_cell(field, left), as_cell(field, right))
        return _over_tables(lambda *arrays: meaning(call, list(arrays))[0], (left, right))

    return mapped(apply, *xs)


def _converted(field: Field, x: Array, call: Call) -> Array:
    after = call.results[0].dtype

    def apply(cell: Any) -> Any:
        if isinstance(cell, Table):
            return _over_tables(lambda values: MEANINGS["convert"](call, [values])[0], (cell,))
        form = extended.finite(cell, "a cast")
        if after == "pred":
            return form.field.one - laws.equal(form, form.field.zero)
        if is_integer(after):
            return bounded(form, after)
        raise Undecided(f"a cast to {after}")

    if is_float(after):
        return reals(field, x)
    return mapped(apply, x)


def rounded(x: Array, dtype: str) -> Array:
    """A cast to a type that holds fewer digits: a function that no law is known of, of what it does not hold."""

    def apply(cell: Cell) -> Cell:
        if isinstance(cell, Masked):
            return extended.masked(cell.flag, extended.finite(apply(cell.form), ""), cell.sign)
        value = cell.value
        if value is not None and Fraction(value).denominator == 1 and abs(value) <= 1 << min(precision(dtype), 8):
            return cell
        return laws.function(cell.field, "round", (dtype, cell))

    return mapped(apply, x)


# ---- reductions and contractions ----
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
    """Where the extreme of each row is: an unknown place, the same for equal rows."""
    dtype = storage(call.results[0].dtype)
    return over_axes(
        x, (axis,), lambda cells: leaf_table(Leaf((name, tuple(cells)), 0, len(cells)), dtype)  # type: ignore[arg-type, return-value]
    )


@formula("top-k")
def top_k(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """The k largest of each row and their places, unknown ones: the n-th of equal rows are the same."""
    x, k, dtype = reals(field, xs[0]), call.number("k"), storage(call.results[1].dtype)
    values, places = (np.empty((*x.shape[:-1], k), dtype=object) for _ in range(2))
    for at in np.ndindex(*values.shape):
        row = list(x[at[:-1]])
        leaf = Leaf(("top-k", at[-1], tuple(row)), 0, len(row))
        places[at] = leaf_table(leaf, dtype)
        values[at] = total(field, [extended.multiply(row[i], flag) for (i,), flag in cases(field, (leaf,))])
    return [values, places]


def _reducer(field: Field, name: str, dtype: str) -> Callable[[list[Cell]], Cell]:
    def held(cell: Cell) -> Cell:
        return bounded(extended.finite(cell, name), dtype) if is_integer(dtype) else cell

    if name == "sum":
        return lambda cells: held(total(field, cells))
    if name == "prod":
        return lambda cells: held(folded(extended.multiply, field.one)(cells))
    if name in ("max", "min") and is_float(dtype):
        sign = -1 if name == "max" else 1
        return folded(extended.maximum if name == "max" else extended.minimum, extended.infinite(field, sign))
    if name in ("and", "or") and dtype == "pred":
        first = field.one if name == "and" else field.zero
        return folded(lambda x, y: elementwise.TRUTHS[name](x, y), first)
    raise Undecided(f"a reduction by `{name}` of {dtype}")


@formula("cumulative")
def cumulative(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Inclusive scans along a dim."""
    axis, function = call.number("dimension"), _reducer(field, call.symbol("reducer"), call.results[0].dtype)
    x = np.moveaxis(reals(field, xs[0]), axis, -1)
    x = np.flip(x, -1) if call.number("reverse", 0) else x
    out = np.empty(x.shape, dtype=object)
    for at in np.ndindex(*x.shape):
        row = x[at[:-1]]
        out[at] = function([out[(*at[:-1], at[-1] - 1)], row[at[-1]]] if at[-1] else [row[0]])
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
    free = [[d for d in range(v.ndim) if d not in b and d not in c] for v, b, c in zip((x, y), batch, inner, strict=True)]
    left = x.transpose([*batch[0], *free[0], *inner[0]])
    right = y.transpose([*batch[1], *inner[1], *free[1]])
    batches = [x.shape[d] for d in batch[0]]
    depth = int(np.prod([x.shape[d] for d in inner[0]], dtype=int))
    rows, columns = [x.shape[d] for d in free[0]], [y.shape[d] for d in free[1]]
    result = contracted(field, left.reshape([*batches, int(np.prod(rows, dtype=int)), depth]),
                        right.reshape([*batches, depth, int(np.prod(columns, dtype=int))]))
    dtype = call.results[0].dtype
    if dtype == "pred":
        raise Undecided("a product of truths")
    if is_integer(dtype):
        result = mapped(lambda cell: bounded(extended.finite(cell, "a product"), dtype), result)
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
    low = extended.infinite(field, -1)
    if mask:
        if mask[0].dtype.kind == "b" or _truths(mask[0]):
            scores = mapped(lambda t, s: extended.choose(elementwise.truth(field, t), s, low), mask[0], scores)
        else:
            scores = mapped(extended.add, scores, reals(field, mask[0]))
    if call.number("causal", 0):
        rows, columns = np.indices(scores.shape[-2:])
        scores = np.where(columns <= rows, scores, low)
    weights = mapped(extended.exponential, scores)
    sums = over_axes(weights, (weights.ndim - 1,), lambda cells: total(field, cells))
    out = mapped(lambda x, s: extended.multiply(x, laws.power(s, -1)), contracted(field, weights, v), sums[..., None])
    return [out, mapped(extended.logarithm, sums)][: len(call.results)]


def _truths(x: Array) -> bool:
    return all(isinstance(cell, (Table, bool, np.bool_)) and (
        not isinstance(cell, Table) or cell.values.dtype.kind == "b") for cell in x.reshape(-1))


# ---- indexed access ----
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
        out[at] = total(field, [part[at] for part in parts])
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
    for at_ in np.ndindex(*out.shape):
        out[at_] = total(field, [part[at_] for part in parts])
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


@formula("pad")
def pad(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Padding with a scalar."""
    x, value = (reals(field, v) for v in xs) if _real(call) else xs
    if not is_symbolic(value):
        return MEANINGS["pad"](call, [x, value])
    index = np.arange(1, x.size + 1).reshape(x.shape)
    (places,) = MEANINGS["pad"](call, [index, np.array(0)])
    pool = np.empty(x.size + 1, dtype=object)
    pool[0], pool[1:] = value[()], x.reshape(-1)
    return [pool[places]]


@formula("convolution")
def convolution(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """Σ x·w over windows: which products, the oracle's meaning tells when run on unit kernels."""
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

