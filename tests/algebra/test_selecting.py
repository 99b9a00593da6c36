"""Sums of which a comparison selects one term, and accesses at indices of large dims: right ones and wrong twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.algebra import laws, truths
from scalify_dl.algebra.form import Field, Form
from scalify_dl.algebra.sums import summed
from scalify_dl.algebra.variables import Variable
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .programs import SIZE, compared, decided, matmul

V, W, FEW = Variable(("v",), 4096), Variable(("w",), 4096), Variable(("f",), 64)
HIGH, LOW = Variable(("h",), 64), Variable(("l",), 64)


@pytest.fixture
def basis() -> Field:
    return Field()


def x(basis: Field, *variables: Variable) -> Form:
    return basis.of(basis.element("input", ("x", *variables)))


def position(basis: Field, v: Variable) -> Form:
    return basis.of(basis.element("position", (v,), nonnegative=True))


def identity(basis: Field, least: int, most: int) -> Form:
    return basis.of(basis.element("integer", (("id",), "s32", least, most)))


def is_at(basis: Field, v: Variable, wanted: Form) -> Form:
    return truths.equal(position(basis, v), wanted)


def test_a_diagonal_is_an_access_at_another_variable(basis: Field) -> None:
    found = summed(basis, is_at(basis, V, position(basis, W)) * x(basis, V, W), [V])
    assert found == x(basis, W, W)
    other = summed(basis, is_at(basis, FEW, position(basis, W)) * x(basis, FEW, W), [FEW])
    assert other != x(basis, W, W)  # of fewer values: no place beyond them is selected


def test_digits_are_told_apart_by_their_strides(basis: Field) -> None:
    index = position(basis, HIGH).scaled(64) + position(basis, LOW)
    others = [Variable((name,), 64) for name in "ab"]
    wanted = position(basis, others[0]).scaled(64) + position(basis, others[1])
    turned = position(basis, others[1]).scaled(64) + position(basis, others[0])
    chosen = summed(basis, truths.equal(index, wanted) * x(basis, HIGH, LOW), [HIGH, LOW])
    assert chosen == x(basis, *others)
    assert summed(basis, truths.equal(index, turned) * x(basis, HIGH, LOW), [HIGH, LOW]) != chosen


@pytest.mark.parametrize(("least", "most", "one"), [(0, 4095, True), (0, 4096, False), (-1, 4095, False)])
def test_one_value_is_selected_where_the_index_is_in_range(basis: Field, least: int, most: int, one: bool) -> None:
    shown = summed(basis, is_at(basis, V, identity(basis, least, most)), [V])
    assert (shown == basis.one) == one


def in_block(basis: Field, start: int, index: Form) -> Form:
    """How many places of a block of 64 are the index."""
    return summed(basis, truths.equal(position(basis, FEW) + basis.constant(start), index), [FEW])


def test_blocks_that_cover_a_range_have_an_index_of_it_once(basis: Field) -> None:
    index = identity(basis, 0, 191)
    for starts, whole in (((0, 64, 128), True), ((0, 65, 128), False), ((0, 63, 128), False), ((0, 64), False)):
        found = basis.zero
        for start in starts:
            found = found + in_block(basis, start, index)
        assert (found == basis.one) == whole
    beyond = identity(basis, 0, 192)
    assert in_block(basis, 0, beyond) + in_block(basis, 64, beyond) + in_block(basis, 128, beyond) != basis.one


def test_an_index_need_not_be_a_multiple_of_a_stride(basis: Field) -> None:
    found = summed(basis, truths.equal(position(basis, FEW).scaled(2), identity(basis, 0, 126)), [FEW])
    assert found != basis.one  # odd ones are nowhere


@pytest.mark.parametrize(("most", "inside"), [(4095, True), (4096, False)])
def test_functions_go_inside_where_one_value_is_selected(basis: Field, most: int, inside: bool) -> None:
    flag = is_at(basis, V, identity(basis, 0, most))
    chosen, grown = (summed(basis, flag * f, [V]) for f in (x(basis, V), laws.exponential(x(basis, V))))
    assert (laws.exponential(chosen) == grown) == inside
    assert (laws.logarithm(grown) == chosen) == inside


def test_functions_do_not_go_inside_what_is_summed_over_more(basis: Field) -> None:
    flag = is_at(basis, V, identity(basis, 0, 4095))
    chosen = summed(basis, flag * x(basis, V, W), [V, W])
    grown = summed(basis, flag * laws.exponential(x(basis, V, W)), [V, W])
    assert laws.exponential(chosen) != grown


def beyond(basis: Field, more: int, *, back: bool = False) -> Form:
    """Whether v is beyond w less some places, or the other way round."""
    ahead = position(basis, V) - position(basis, W)
    return truths.greater((-ahead if back else ahead) + basis.constant(more), basis.zero)


def test_of_two_comparisons_the_stricter_one_counts(basis: Field) -> None:
    for strict in (-3, 0, 31):
        both = summed(basis, beyond(basis, strict) * beyond(basis, 32) * x(basis, V), [V])
        assert both == summed(basis, beyond(basis, strict) * x(basis, V), [V])
        assert both != summed(basis, beyond(basis, 32) * x(basis, V), [V])


@pytest.mark.parametrize(("more", "none"), [(0, True), (-1, True), (1, False)])
def test_comparisons_exclude_each_other(basis: Field, more: int, none: bool) -> None:
    found = summed(basis, beyond(basis, 0) * beyond(basis, more, back=True) * x(basis, V), [V])
    assert (found == basis.zero) == none


# ---- programs ----
WORDS = 1000


def rows(g: Graph, table: Tensor, ids: Tensor) -> Tensor:
    """table[ids] of a matrix."""
    return g.emit(
        "gather", [table, g.emit("reshape", [ids], shape=(*ids.shape, 1))],
        offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1,
        slice_sizes=[1, table.shape[1]],
    )  # fmt: skip


def hot(g: Graph, ids: Tensor) -> Tensor:
    """Which word each id is."""
    table = g.emit("iota", [], shape=(ids.shape[0], WORDS), dtype="s32", dimension=1)
    same = compared(g, g.emit("broadcast", [ids], shape=table.shape, dimensions=[0]), table, "EQ")
    return g.emit("convert", [same], dtype="f32")


def lookup(*, bound: int = WORDS) -> Pair:
    """An embedding, by access and by a product with one-hot rows."""
    pair = Pair({"tp": 1})
    table, dtable = pair.input((WORDS, SIZE))
    ids, dids = pair.input((SIZE,), dtype="s32", range=(0, bound))
    shown = hot(pair.dist, dids)
    pair.outputs(rows(pair.base, table, ids), matmul(pair.dist, shown, dtable))
    return pair


def added(*, replaced: bool = False) -> Pair:
    """Its gradient, by additions at the ids and by a product."""
    pair = Pair({"tp": 1})
    ids, dids = pair.input((SIZE,), dtype="s32", range=(0, WORDS))
    rows_, drows = pair.input((SIZE, SIZE))
    g, h = pair.base, pair.dist
    out = g.emit(
        "scatter",
        [g.splat(0.0, "f32", (WORDS, SIZE)), g.emit("reshape", [ids], shape=(SIZE, 1)), rows_],
        update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1,
        reducer="replace" if replaced else "sum",
    )  # fmt: skip
    shown = hot(h, dids)
    pair.outputs(out, h.emit("dot", [shown, drows], lhs_contracting_dims=[0], rhs_contracting_dims=[0]))
    return pair


def running(*, direction: str = "LE") -> Pair:
    """Running sums, and a product with a triangle."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((SIZE, SIZE))
    g, h = pair.base, pair.dist
    column, row = (h.emit("iota", [], shape=(SIZE, SIZE), dtype="s32", dimension=d) for d in (0, 1))
    triangle = h.emit("convert", [compared(h, row, column, direction)], dtype="f32")
    pair.outputs(g.emit("cumulative", [x], dimension=0, reducer="sum"), matmul(h, triangle, dx))
    return pair


def centred(*, blocks: int = 2, gap: int = 0) -> Pair:
    """Rows of a table less one row, looked up at ids; and products with one-hot rows of blocks of it, less that row."""
    pair = Pair({"tp": 1})
    (table, dtable), (m, dm) = pair.input((WORDS, SIZE)), pair.input((SIZE,))
    ids, dids = pair.input((SIZE,), dtype="s32", range=(0, WORDS))
    g, h, size = pair.base, pair.dist, WORDS // blocks
    less = g.emit("subtract", [table, g.emit("broadcast", [m], shape=table.shape, dimensions=[1])])
    found: Tensor | None = None
    for n in range(blocks):
        block = h.emit("slice", [dtable], start=[n * size, 0], limit=[(n + 1) * size, SIZE], stride=[1, 1])
        places = h.emit("iota", [], shape=(SIZE, size), dtype="s32", dimension=1)
        own = h.emit("subtract", [dids, h.splat(n * size + gap * n, "s32", dids.shape)])
        same = compared(h, h.emit("broadcast", [own], shape=places.shape, dimensions=[0]), places, "EQ")
        part = matmul(h, h.emit("convert", [same], dtype="f32"), block)
        found = part if found is None else h.emit("add", [found, part])
    assert found is not None
    subtrahend = h.emit("broadcast", [dm], shape=found.shape, dimensions=[1])
    pair.outputs(rows(g, less, ids), h.emit("subtract", [found, subtrahend]))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {"lookup": lookup, "additions": added, "running sums": running,
    "blocks, less a row": centred, "four blocks, less a row": lambda: centred(blocks=4)}  # fmt: skip
WRONG: dict[str, Callable[[], Pair]] = {
    "ids may be beyond the table": lambda: lookup(bound=WORDS + 1),
    "writes replace each other": lambda: added(replaced=True),
    "each position without its own": lambda: running(direction="LT"),
    "from the end": lambda: running(direction="GE"),
    "a place between two blocks": lambda: centred(gap=1),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_one_is_equal(name: str) -> None:
    assert decided(RIGHT[name]())


@pytest.mark.parametrize("name", WRONG)
def test_the_wrong_twin_is_not(name: str) -> None:
    assert not decided(WRONG[name]())
