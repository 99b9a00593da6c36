"""What ops other than elementwise ones make of formulas; ops that move elements are the oracle's own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from scalify_dl.oracle.dtypes import (
    POWERS_ALONE,
    WITHOUT_INFINITIES,
    integer_limits,
    is_float,
    is_integer,
    precision,
)
from scalify_dl.oracle.literals import ELIDED, literal_array
from scalify_dl.oracle.meaning import MEANINGS, Call
from scalify_dl.oracle.meaning.elementwise import COMPARISONS
from scalify_dl.oracle.program import Op
from scalify_dl.oracle.rewrites import OF_REALS
from scalify_dl.registry import registering
from scalify_dl.sizes import Size, above

from . import elementwise, extended, laws, thresholds, truths
from .cells import Array, as_cell, mapped, reals
from .extended import Cell, Masked
from .finite import Table, together
from .form import Field, Form, Undecided
from .numbers import literal
from .permuted import by_places, truth_of
from .whole import integer_bounds

Formula = Callable[[Field, Call, list[Array]], list[Array]]
FORMULAS: dict[str, Formula] = {}
formula = registering(FORMULAS)
"""Registers what some kinds make of formulas."""

MOVES = frozenset(["broadcast", "reshape", "transpose", "slice", "concatenate", "reverse"])
"""Kinds that the oracle's meaning, which copies elements, is used of as it is."""


def is_outer(op: Op) -> bool:
    """Whether it is a product of each element of one operand with each of another: nothing is summed."""
    return op.kind == "dot" and not op.number("lhs_contracting_dims", 0, [])


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
            element = field.of(field.element("constant", (sha, tensor.shape, i)))
            field.need("finite", element)
            out[at] = element
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


# ---- elementwise ----
def elementwise_cells(field: Field, call: Call, xs: list[Array]) -> list[Array]:
    """An elementwise op on arrays of which some hold formulas."""
    kind, dtype = call.op.kind, call.results[0].dtype
    if kind == "select":
        return [_selected(field, dtype, *xs)]
    if kind == "compare":
        return [_compared(field, call, xs)]
    if kind == "convert":
        return [converted(field, xs[0], call)]
    if dtype == "pred" and kind in elementwise.TRUTHS:
        return [_tabled(field, call, xs, elementwise.TRUTHS[kind])]
    if is_integer(dtype):
        return [_tabled(field, call, xs, lambda *cells: _whole(kind, dtype, cells))]
    xs = [reals(field, x) for x in xs]
    if kind in elementwise.UNARY and len(xs) == 1:
        function = elementwise.UNARY[kind]
        return [mapped(function if kind == "negate" else by_places(function), *xs)]
    if kind in elementwise.BINARY and len(xs) == 2:
        return [mapped(elementwise.BINARY[kind], *xs)]
    if kind == "clamp":
        return [mapped(elementwise.clamped, *xs)]
    if kind in OF_REALS and not call.op.symbols and not call.op.numbers:
        return [mapped(elementwise.unknown(kind), *xs)]
    raise Undecided(f"no law is known of `{kind}`")


def _whole(kind: str, dtype: str, cells: tuple[Cell, ...]) -> Form:
    """Integer arithmetic on formulas: as of real numbers, wrapped round."""
    if kind == "clamp":
        low, x, high = (extended.finite(cell, "integers") for cell in cells)
        return laws.minimum(laws.maximum(x, low), high)
    if kind not in ("add", "subtract", "multiply", "negate", "maximum", "minimum"):
        raise Undecided(f"`{kind}` of integers that depend on inputs")
    function = elementwise.UNARY.get(kind) or elementwise.BINARY[kind]
    return wrapped(extended.finite(function(*cells), kind), dtype)


FAR = 2**31 - 1
"""The greatest number of integer types whose numbers no size is beyond."""


def bounded(form: Form, dtype: str, most: int | None = None) -> Form:
    """A formula whose values are whole numbers that an integer type holds, and none beyond `most`; Undecided where they
    may not be."""
    lo, hi = integer_bounds(form)
    low, high = integer_limits(dtype)
    if most is not None:
        low, high = max(low, -most), min(high, most)
    for value, limit in ((-lo, -low), (hi, high)):
        if above(limit - value + 1):
            continue
        if not isinstance(value, Size) or limit < FAR:
            raise Undecided(f"integers of {dtype} that may wrap round")
        form.field.bounds[value] = None
    return form


def wrapped(form: Form, dtype: str) -> Form:
    """What an integer type holds of a whole number: itself, or what is left of it modulo 2ⁿ, which is the same for all
    sums of products that are equal modulo 2ⁿ."""
    low, high = integer_limits(dtype)
    lo, hi = integer_bounds(form)
    if isinstance(lo, Size) or isinstance(hi, Size) or (low <= lo and hi <= high):
        return bounded(form, dtype)
    count = high - low + 1
    form = _open(form, count)
    found = Form(form.field, {at: left for at, c in form.terms.items() if (left := (int(c) - low) % count + low)})
    lo, hi = integer_bounds(found)
    return found if low <= lo and hi <= high else laws.function(form.field, "wrapped", (dtype, found))


def _open(form: Form, count: int) -> Form:
    """With what numbers that were wrapped round are of, where that is the same modulo `count`."""
    field, result = form.field, form.field.zero
    for monomial, coefficient in form.terms.items():
        term = field.constant(coefficient)
        for at, exponent in monomial:
            kind, data = field.elements[at][:2]
            inner: Form | None = None
            if kind == "function" and data[0] == "wrapped":  # type: ignore[index]
                low, high = integer_limits(data[1])  # type: ignore[index]
                inner = data[2] if (high - low + 1) % count == 0 else None  # type: ignore[index]
            for _ in range(int(exponent)):
                field.tick()
                term = term * (inner if inner is not None else field.of(at))
        result = result + term
    return result


def _tabled(field: Field, call: Call, xs: list[Array], otherwise: Callable[..., Form]) -> Array:
    """An op on integers or truths: by tables where all elements are numbers or tables, else by formulas."""
    meaning = MEANINGS[call.op.kind]

    def apply(*cells: Any) -> Any:
        if any(isinstance(cell, (Form, Masked)) for cell in cells):
            return otherwise(*(as_cell(field, cell) for cell in cells))
        return over_tables(lambda *arrays: meaning(call, list(arrays))[0], cells)

    return mapped(apply, *xs)


def over_tables(function: Callable[..., Array], cells: tuple[Any, ...]) -> Any:
    """A function of tables and numbers, as a table."""
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
            return over_tables(np.where, (which, a, b))
        truth, yes, no = elementwise.truth(field, which), as_cell(field, a), as_cell(field, b)
        if field.leaves_out and real and isinstance(yes, Form) and isinstance(no, Form):
            found = thresholds.beyond(truth, yes, no, dtype)
            if found is not None:
                return found
        return extended.choose(truth, yes, no)

    if real:
        yes, no = reals(field, yes), reals(field, no)
    return mapped(choose, truths, yes, no)


def _compared(field: Field, call: Call, xs: list[Array]) -> Array:
    direction, meaning = call.symbol("direction"), MEANINGS["compare"]
    if call.symbol("order", "") == "total":
        raise Undecided("a comparison by total order")

    def apply(left: Any, right: Any) -> Any:
        if any(isinstance(cell, (Form, Masked)) for cell in (left, right)):
            found = _of_few_values(direction, as_cell(field, left), as_cell(field, right))
            return (
                found
                if found is not None
                else elementwise.compared(direction, as_cell(field, left), as_cell(field, right))
            )
        return over_tables(lambda *arrays: meaning(call, list(arrays))[0], (left, right))

    return mapped(apply, *xs)


def _of_few_values(direction: str, left: Cell, right: Cell) -> Form | None:
    """A comparison of integers that are chosen among few."""
    if not isinstance(left, Form) or not isinstance(right, Form):
        return None
    return truth_of(left - right, lambda value: bool(COMPARISONS[direction](value, 0)))


def converted(field: Field, x: Array, call: Call, before: str | None = None) -> Array:
    """A cast of integers, or (`before`) of real numbers of a type: beyond what an integer type holds each machine
    has an answer of its own, the end of its range or anything."""
    after = call.results[0].dtype

    def apply(cell: Any) -> Any:
        if isinstance(cell, Table):
            return over_tables(lambda values: MEANINGS["convert"](call, [values])[0], (cell,))
        form = extended.finite(as_cell(field, cell), "a cast")
        if after == "pred":
            return form.field.one - truths.equal(form, form.field.zero)
        if is_integer(after):
            return wrapped(form, after) if before is None else bounded(form, after, most=1 << precision(before))
        raise Undecided(f"a cast to {after}")

    if is_float(after):
        return counted(reals(field, x), after)
    return mapped(apply, x)


def counted(x: Array, dtype: str) -> Array:
    """Whole numbers as reals of a type: rounded where they may be beyond those that it holds one by one."""
    most = 1 << precision(dtype)

    @extended.of_numbers
    def apply(cell: Cell) -> Cell:
        if isinstance(cell, Form):
            low, high = integer_bounds(cell)
            if dtype in POWERS_ALONE or not above(low + most + 1) or not above(most - high + 1):
                return laws.function(cell.field, "round", (dtype, cell))
        return cell

    return mapped(apply, x)


def widened(x: Array, dtype: str) -> Array:
    """A cast of values of this type to a wider one: a number that the type does not hold was rounded to it before."""

    @extended.of_numbers
    def apply(cell: Cell) -> Cell:
        if not isinstance(cell, Form) or cell.value is None:
            return cell
        parts = Fraction(cell.value).denominator
        return cell if parts & (parts - 1) == 0 else laws.function(cell.field, "round", (dtype, cell))

    return mapped(apply, x)


def rounded(x: Array, dtype: str) -> Array:
    """A cast to a type that holds fewer digits: a function that no law is known of, of what it does not hold."""

    @extended.of_numbers
    def apply(cell: Cell) -> Cell:
        if isinstance(cell, Masked):
            if dtype in WITHOUT_INFINITIES:
                raise Undecided(f"an infinity that is cast to {dtype}")
            return extended.masked(cell.flag, extended.finite(apply(cell.form), ""), cell.sign)
        value = None if cell.value is None else Fraction(cell.value)
        few = 1 << min(precision(dtype), 8)
        if value is not None and value.denominator == 1 and abs(value) <= few and dtype not in POWERS_ALONE:
            return cell
        return laws.function(cell.field, "round", (dtype, cell))

    return mapped(apply, x)
