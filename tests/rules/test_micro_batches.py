"""A mean of what is not ignored, over micro-batches of every rank's rows, by a count of integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse


def counted(g: Graph, labels: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Which labels are not ignored, and how many."""
    mask = g.emit("compare", [labels, g.splat(-1, "s32", labels.shape)], direction="NE")
    number = g.emit("reduce", [g.emit("convert", [mask], dtype=dtype)], dimensions=[0], reducer="sum")
    return mask, number


def scaled(g: Graph, x: Tensor, labels: Tensor, number: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """The sum of x where the label counts, over the number, and its gradient there."""
    mask, _ = counted(g, labels, "f32")
    zeros = g.splat(0.0, "f32", x.shape)
    kept = g.emit("reduce", [g.emit("select", [mask, x, zeros])], dimensions=[0], reducer="sum")
    each = g.emit("multiply", [g.emit("divide", [g.splat(1.0, "f32", ()), number]), g.splat(factor, "f32", ())])
    wide = spread(g, each, x.shape, [])
    slope = g.emit("reduce", [g.emit("select", [mask, wide, zeros])], dimensions=[0], reducer="sum")
    return g.emit("divide", [g.emit("multiply", [kept, g.splat(factor, "f32", ())]), number]), slope


def accumulated(*, rows: int = 12, through: str = "s64", everywhere: bool = True, again: bool = False) -> Pair:
    """Three micro-batches on each of two ranks, summed at twice the scale, and averaged over the ranks."""
    pair = Pair({"dp": 2})
    labels, own = pair.input((rows,), {0: "dp"}, dtype="s32", range=(-1, 3))
    pair.dist.inputs[-1].range = (-1, 3)
    x, part = pair.input((rows,), {0: "dp"})
    b, d = pair.base, pair.dist
    expected = scaled(b, x, labels, counted(b, labels, "f32")[1], 1.0)
    number = counted(d, own, through)[1]
    if everywhere:
        number = d.emit("all-reduce", [number], reducer="sum", groups=pair.groups("dp"))
    number = d.emit("convert", [number], dtype="f32")
    totals: list[Tensor] = []
    size = rows // 6
    for n in range(3):
        lo = 0 if again and n == 2 else n * size
        ids, values = (d.emit("slice", [t], start=[lo], limit=[lo + size], stride=[1]) for t in (own, part))
        found = scaled(d, values, ids, number, 2.0)
        totals = [d.emit("add", list(pair_)) for pair_ in zip(totals, found, strict=True)] if totals else [*found]
    for base, total in zip(expected, totals, strict=True):
        total = d.emit("all-reduce", [total], reducer="sum", groups=pair.groups("dp"))
        pair.outputs(base, d.emit("divide", [total, d.splat(2.0, "f32", ())]))
    return pair


def test_accumulated_micro_batches_are_one_batch() -> None:
    tables = accumulated().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


WRONG: dict[str, Callable[[], Pair]] = {
    "a count of the rank's own rows": lambda: accumulated(everywhere=False),
    "a count in 8 bits": lambda: accumulated(rows=900, through="s8"),
    "a micro-batch that is taken twice": lambda: accumulated(again=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_step_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert find_counterexample(load_program(tables)).best is not None


def stacked(*, count: int = 4, again: bool = False, by: int = 4, reducer: str = "sum") -> Pair:
    """The means of four micro-batches side by side, and their mean."""
    pair = Pair({"dp": 2})
    x, own = pair.input((8, 3))
    b, d = pair.base, pair.dist
    losses = []
    for n in range(count):
        lo = 0 if again and n == 2 else n * 2
        rows = d.emit("slice", [own], start=[lo, 0], limit=[lo + 2, 3], stride=[1, 1])
        loss = d.emit("reduce", [d.emit("multiply", [rows, rows])], dimensions=[0, 1], reducer="sum")
        losses.append(d.emit("reshape", [d.emit("divide", [loss, d.splat(6.0, "f32", ())])], shape=(1,)))
    row = d.emit("concatenate", losses, dimension=0)
    total = d.emit("reduce", [row], dimensions=[0], reducer=reducer)
    whole = b.emit("reduce", [b.emit("multiply", [x, x])], dimensions=[0, 1], reducer="sum")
    mean = d.emit("divide", [total, d.splat(float(by), "f32", ())])
    pair.outputs(b.emit("divide", [whole, b.splat(24.0, "f32", ())]), mean)
    return pair


def test_means_of_micro_batches_side_by_side_are_the_mean() -> None:
    tables = stacked().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize(
    "pair", [stacked(count=3, by=3), stacked(again=True), stacked(by=2), stacked(reducer="max")],
    ids=["one is left out", "one is there twice", "another number", "the largest"],
)  # fmt: skip
def test_wrong_means_of_micro_batches_are_not_proved(pair: Pair) -> None:
    tables = pair.tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None


def unequal(*parts: tuple[int, int]) -> Pair:
    """A product summed over rows that are taken apart into these parts."""
    pair = Pair({"dp": 2})
    (x, rows), (y, others) = pair.input((10, 3)), pair.input((10, 4))
    d, sums = pair.dist, []
    for lo, hi in parts:
        one = d.emit("slice", [rows], start=[lo, 0], limit=[hi, 3], stride=[1, 1])
        two = d.emit("slice", [others], start=[lo, 0], limit=[hi, 4], stride=[1, 1])
        sums.append(d.emit("dot", [one, two], lhs_contracting_dims=[0], rhs_contracting_dims=[0]))
    total = reduce(lambda a, b: d.emit("add", [a, b]), sums)
    pair.outputs(pair.base.emit("dot", [x, y], lhs_contracting_dims=[0], rhs_contracting_dims=[0]), total)
    return pair


def test_unequal_parts_of_a_batch_are_added_up() -> None:
    tables = unequal((0, 3), (3, 6), (6, 9), (9, 10)).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize(
    "parts", [((0, 3), (3, 6), (6, 9)), ((0, 3), (2, 6), (6, 10)), ((0, 3), (0, 3), (6, 10))],
    ids=["one is left out", "a row is there twice", "a part is there twice"],
)  # fmt: skip
def test_unequal_parts_that_are_not_the_batch_are_not_proved(parts: tuple[tuple[int, int], ...]) -> None:
    tables = unequal(*parts).tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None


def tensor_parallel(*, odd: str = "") -> Pair:
    """Two micro-batches of a layer of which every rank has some columns: what ranks add up within each, joined.
    `odd` is what the second one does otherwise."""
    pair = Pair({"dp": 2, "tp": 2})
    (x, own), (w, columns) = pair.input((8, 4), {1: "tp"}), pair.input((4, 6), {0: "tp"})
    b, d = pair.base, pair.dist
    total = None
    for n in range(2):
        rows = d.emit("slice", [own], start=[n * 4, 0], limit=[n * 4 + 4, 2], stride=[1, 1])
        part = d.emit("dot", [rows, columns], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
        if n == 0 or odd != "nobody":
            axis, reducer = ("dp", "sum") if n and odd == "others" else ("tp", "max" if n and odd == "max" else "sum")
            part = d.emit("all-reduce", [part], reducer=reducer, groups=pair.groups(axis))
        row = d.emit("reduce", [d.emit("tanh", [part])], dimensions=[0], reducer="sum")
        total = row if total is None else d.emit("add", [total, row])
    whole = b.emit("tanh", [b.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0])])
    assert total is not None
    pair.outputs(b.emit("reduce", [whole], dimensions=[0], reducer="sum"), total)
    return pair


def test_collectives_within_micro_batches_are_of_one_micro_batch() -> None:
    tables = tensor_parallel().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("odd", ["others", "max", "nobody"])
def test_micro_batches_that_meet_otherwise_are_not_joined(odd: str) -> None:
    tables = tensor_parallel(odd=odd).tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None
def gradient(g: Graph, x: Tensor, ids: Tensor, w: Tensor, bias: Tensor, number: Tensor, wrong: str) -> list[Tensor]:
    """Of a block of rows: its weight's gradient, that of a table and the loss, over a number."""
    h = g.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    h = g.emit("tanh", [g.emit("add", [spread(g, bias, h.shape, [1]), h])])
    if wrong == "positions of the block":
        h = g.emit("multiply", [h, g.emit("iota", [], dtype="f32", shape=h.shape, dimension=0)])
    hot = g.emit("compare", [spread(g, ids, h.shape, [0]), g.emit("iota", [], dtype="s32", shape=h.shape, dimension=1)],
                 direction="EQ")  # fmt: skip
    two = spread(g, g.constant(2.0, "f32"), h.shape, [])
    twos = g.emit("reduce", [g.emit("select", [hot, two, g.splat(0.0, "f32", h.shape)])], dimensions=[1], reducer="sum")
    h = g.emit("select", [hot, g.emit("negate", [h]), g.emit("multiply", [h, spread(g, twos, h.shape, [0])])])
    product = g.emit("dot", [x, h], lhs_contracting_dims=[0], rhs_contracting_dims=[0])
    table = g.emit("scatter", [g.splat(0.0, "f32", (3, h.shape[1])), ids, h], update_window_dims=[1],
                   inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1,
                   reducer="sum")  # fmt: skip
    loss = g.emit("reduce", [h], dimensions=[0, 1], reducer="sum")
    if wrong == "a number for each block":
        loss = g.emit("add", [loss, g.splat(1.0, "f32", ())])
    if wrong == "not linear":
        product = g.emit("abs", [product])
    each = [g.emit("transpose", [product], dimensions=[1, 0]), table, loss]
    return [g.emit("divide", [y, spread(g, number, y.shape, [])]) for y in each]


def both(base_blocks: int = 3, dist_blocks: int = 2, wrong: str = "", *, stacked: bool = False) -> Pair:
    """The baseline accumulates over its blocks, each of two ranks over others. `stacked`: losses stand in a row."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((12, 4), {0: "dp"})
    ids, dids = pair.input((12,), {0: "dp"}, dtype="s32", range=(0, 3))
    pair.dist.inputs[-1].range = (0, 3)
    held = [pair.input(shape) for shape in ((4, 3), (3,), ())]
    made = []
    for g, k, rows, labels, no in ((pair.base, base_blocks, x, ids, 0), (pair.dist, dist_blocks, dx, dids, 1)):
        size, totals, losses = rows.shape[0] // k, list[Tensor](), list[Tensor]()
        for n in range(k):
            if wrong == "a block left out" and g is pair.base and n == 1:
                continue
            at = 0 if wrong == "a block taken twice" and g is pair.base and n == 2 else n
            apart = g.emit("reshape", [rows], shape=[k, size, 4])  # (as torch's split is read)
            apart = g.emit("slice", [apart], start=[at, 0, 0], limit=[at + 1, size, 4], stride=[1, 1, 1])
            block = g.emit("reshape", [apart], shape=[size, 4])
            own = g.emit("slice", [labels], start=[at * size], limit=[at * size + size], stride=[1])
            found = gradient(g, block, own, *(one[no] for one in held), wrong)
            losses.append(g.emit("reshape", [found[2]], shape=[1]))
            totals = [g.emit("add", list(two)) for two in zip(totals, found, strict=True)] if totals else found
        if stacked:
            row = g.emit("concatenate", losses, dimension=0) if len(losses) > 1 else losses[0]
            totals[2] = g.emit("reduce", [row], dimensions=[0], reducer="sum")
        made.append(totals)
    for base, dist in zip(*made, strict=True):
        pair.outputs(base, pair.dist.emit("all-reduce", [dist], reducer="sum", groups=pair.groups("dp")))
    return pair


@pytest.mark.parametrize(("base_blocks", "dist_blocks"), [(3, 2), (2, 2), (2, 1), (4, 3)])
def test_both_sides_accumulate_over_blocks_of_their_own(base_blocks: int, dist_blocks: int) -> None:
    tables = both(base_blocks, dist_blocks).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.claims, trials=2).false == []


def test_losses_of_blocks_in_a_row_are_the_loss_of_the_batch() -> None:
    tables = both(stacked=True).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.claims, trials=2).false == []
    assert derive(both(wrong="a number for each block", stacked=True).tables()).unproved


def test_that_the_number_is_not_zero_is_listed() -> None:
    analysis = analyse(Facts(both().tables()), Options(refute=False))
    assert {row[0] for row in analysis.rows("assumption") if row[2] == "nonzero"}


@pytest.mark.parametrize(
    ("wrong", "outputs"),
    [("positions of the block", 3), ("a number for each block", 1), ("not linear", 1), ("a block left out", 3),
     ("a block taken twice", 3)],
)  # fmt: skip
def test_blocks_that_do_not_make_a_batch_are_not_proved(wrong: str, outputs: int) -> None:
    tables = both(wrong=wrong).tables()
    derived = derive(tables)
    assert len(derived.unproved) == outputs
    assert find_counterexample(load_program(tables)).best is not None


def counted_quotients(blocks: int, graph: Graph, x: Tensor, number: Tensor) -> Tensor:
    """The sum of what each block of integers adds up to, over a number."""
    size, total = x.shape[0] // blocks, None
    for n in range(blocks):
        part = graph.emit("slice", [x], start=[n * size], limit=[n * size + size], stride=[1])
        part = graph.emit("reduce", [part], dimensions=[0], reducer="sum")
        part = graph.emit("divide", [part, number])
        total = part if total is None else graph.emit("add", [total, part])
    assert total is not None
    return total


def test_quotients_of_integers_are_of_each_block() -> None:
    pair = Pair({"dp": 2})
    (x, dx), (number, own) = (pair.input(shape, dtype="s32", range=(1, 9)) for shape in ((8,), ()))
    for port in pair.dist.inputs:
        port.range = (1, 9)
    pair.outputs(counted_quotients(2, pair.base, x, number), counted_quotients(1, pair.dist, dx, own))
    tables = pair.tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None
