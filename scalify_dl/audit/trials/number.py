"""Wrong programs by hand about numbers: of tables, of ranks, and of types that round."""

from __future__ import annotations

from functools import partial
from typing import Any

from scalify_dl.audit.fuzz.partitioner_steps import part
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.literals import Literal

from .moved import ROWS
from .registry import ROUNDED, TRIALS, rounded, trial


def numbers(g: Graph, kind: str, x: Tensor, number: float) -> Tensor:
    """An op on every element and a number."""
    return g.emit(kind, [x, g.splat(number, x.dtype, x.shape)])


def asked_by(pair: Pair, base: Tensor, dist: Tensor) -> None:
    """Outputs: both values times an input that is cut as their first dim is."""
    shape, dtype = base.shape, base.dtype
    x, dx = pair.input(shape, {0: "tp"}, dtype=dtype, range=(0, 6) if dtype.startswith("s") else None)
    pair.outputs(pair.base.emit("multiply", [x, base]), pair.dist.emit("multiply", [dx, dist]))


@trial
def two_numbers_of_a_table() -> Pair:
    """Two numbers from a table at a place of the rank's own are no number."""
    pair = Pair({"tp": 2})
    table = pair.dist.constant(Literal("{0,9,4,9}", items=(0, 9, 4, 9)), "s32", (4,))
    rank = pair.dist.emit("convert", [pair.dist.add("partition-id", [], [("u32", ())]).result], dtype="s32")
    start = pair.dist.emit("multiply", [rank, pair.dist.constant(2, "s32")])
    two = pair.dist.emit("dynamic-slice", [table, start], sizes=[2])
    fours = numbers(pair.base, "multiply", pair.base.emit("iota", [], shape=(2,), dtype="s32", dimension=0), 4)
    asked_by(pair, pair.base.emit("reshape", [spread(pair.base, fours, (2, 2), [0])], shape=(4,)), two)
    return pair


@rounded
def positions_that_a_cast_rounds() -> Pair:
    """Odd positions above 2 ** 24 are no f32."""
    pair, found = Pair({"tp": 1}), []
    for g, late in ((pair.base, False), (pair.dist, True)):
        x = numbers(g, "multiply", g.emit("iota", [], shape=(4,), dtype="s32", dimension=0), 2**24)
        x = x if late else numbers(g, "add", x, 1)
        x = g.emit("convert", [x], dtype="f32")
        found.append(numbers(g, "add", x, 1) if late else x)
    asked_by(pair, *found)
    return pair


@rounded
def a_mask_that_a_cast_rounds() -> Pair:
    """Whether m + 2 ** 24 is more than 2 ** 24, as f32."""
    pair = Pair({"tp": 2})
    (t, dt), (i, di) = pair.input((8, 2), {0: "tp"}), pair.input((8,), dtype="s32", range=(0, 8))
    g = pair.dist
    rank = g.emit("convert", [g.add("partition-id", [], [("u32", ())]).result], dtype="s32")
    low = spread(g, g.emit("multiply", [rank, g.constant(4, "s32")]), (8,), [])
    near = g.emit("subtract", [di, low])
    ends = [g.emit("compare", [near, g.splat(n, "s32", (8,))], direction=way) for n, way in ((0, "GE"), (4, "LT"))]
    more = numbers(g, "add", g.emit("convert", [g.emit("and", ends)], dtype="s32"), 2**24)
    large = g.emit("convert", [more], dtype="f32")
    mask = g.emit("compare", [large, g.splat(2**24, "f32", (8,))], direction="GT")
    read = g.emit("gather", [dt, near], **ROWS)
    kept = g.emit("select", [spread(g, mask, read.shape, [0]), read, g.splat(0.0, "f32", read.shape)])
    expected = pair.base.emit("gather", [t, i], **ROWS)
    pair.outputs(expected, g.emit("all-reduce", [kept], reducer="sum", groups=pair.groups("tp")))
    return pair


def cast_number(number: int) -> Pair:
    """A number that is no bf16."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2))
    one = pair.dist.emit("convert", [pair.dist.constant(number, "s32")], dtype="bf16")
    wide = spread(pair.dist, pair.dist.emit("convert", [one], dtype="f32"), dx.shape, [])
    pair.outputs(numbers(pair.base, "multiply", x, number), pair.dist.emit("multiply", [dx, wide]))
    return pair


ROUNDED |= {f"{n} as a bf16": partial(cast_number, n) for n in (257, -257)}


def chosen_by(dtype: str, kind: str, left: str, right: str, direction: str, bound: str) -> Pair:
    """x where an op of two numbers compares so with a third over the reals, and not in the type; `""`: no op."""
    pair = Pair({"tp": 2})
    (x, dx), (_, dy) = pair.input((4, 2)), pair.input((4, 2))
    g = pair.dist
    numbers_ = [g.constant(Literal.scalar(text, dtype), dtype) for text in (left, right, bound)]
    made = g.emit(kind, numbers_[:2]) if kind else numbers_[0]
    truth = g.emit("compare", [made, numbers_[2]], direction=direction)
    pair.outputs(x, g.emit("select", [spread(g, truth, dx.shape, []), dx, dy]))
    return pair


CHOSEN = {
    f"{left} {kind} {right} {direction} {bound} of {dtype}": partial(
        chosen_by, dtype, kind, left, right, direction, bound
    )
    for dtype, kind, left, right, direction, bound in (
        ("bf16", "add", "256.0", "1.0", "GT", "256.0"), ("bf16", "add", "-256.0", "-1.0", "LT", "-256.0"),
        ("f16", "multiply", "0.000244140625", "0.000244140625", "GT", "0.0"),
        ("f32", "add", "16777216.0", "1.0", "GT", "16777216.0"),
        ("f32", "add", "-16777216.0", "-1.0", "LT", "-16777216.0"),
        ("f64", "multiply", "0.1", "3.0", "EQ", "0.3"),
    )
}  # fmt: skip
"""Numbers that decide otherwise where each op rounds."""
ROUNDED |= CHOSEN


def times_made(dtype: str, kind: str, left: str, right: str, doubled: bool, other: int | float) -> Pair:
    """x times what an op makes of two numbers (twice that), and x times another number."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), {0: "tp"}, dtype=dtype, range=(0, 6) if dtype == "s32" else None)
    g = pair.dist
    made = g.emit(kind, [g.constant(Literal.scalar(text, dtype), dtype) for text in (left, right)])
    made = g.emit("add", [made, made]) if doubled else made
    pair.outputs(numbers(pair.base, "multiply", x, other), g.emit("multiply", [dx, spread(g, made, dx.shape, [])]))
    return pair


TRIALS |= {
    f"{left} {kind} {right} of {dtype}" + " twice" * doubled: partial(
        times_made, dtype, kind, left, right, doubled, other
    )
    for dtype, kind, left, right, doubled, other in (
        ("f32", "maximum", "3.0", "2.0", False, 2.0), ("s32", "divide", "7", "-2", True, -7),
    )
}  # fmt: skip


@trial
def a_quotient_beyond_the_integers_of_rules() -> Pair:
    """1 over 2 ** -29, 2 ** -29 and 2 ** -6 is 2 ** 64, of which 64 bits are 0."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), {0: "tp"}, dtype="f64")
    made = pair.dist.constant(1, "f64")
    for bits in (29, 29, 6):
        made = pair.dist.emit("divide", [made, pair.dist.constant(2.0**-bits, "f64")])
    times = pair.dist.emit("multiply", [dx, spread(pair.dist, made, dx.shape, [])])
    pair.outputs(numbers(pair.base, "multiply", x, 0), times)
    return pair


@trial
def a_divisor_beyond_the_integers_of_rules() -> Pair:
    """2 ** -29 over 2 ** 35 + 1, whose denominator is 2 ** 29 in 64 bits."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), {0: "tp"}, dtype="f64")
    made, more = pair.dist.constant(1, "f64"), pair.dist.constant(2.0**29, "f64")
    for _ in range(64):
        made = pair.dist.emit("add", [more, made])
    made = pair.dist.emit("divide", [pair.dist.constant(2.0**-29, "f64"), made])
    times = pair.dist.emit("multiply", [dx, spread(pair.dist, made, dx.shape, [])])
    pair.outputs(numbers(pair.base, "multiply", x, 2.0**-29), times)
    return pair


def chosen_by_sign(dtype: str, way: str) -> Pair:
    """x where what is made of a number is at least zero, else another input."""
    pair = Pair({"tp": 2})
    ports = [pair.input((4,), {0: "tp"}, dtype=dtype)]
    ports += [pair.input((4,), {0: "tp"}) for _ in range(2)]
    g, tested, dx, dy = pair.dist, *(dist for _, dist in ports)
    if way == "masked":
        low = g.splat(float("-inf"), dtype, tested.shape)
        tested = g.emit("select", [positive(g, dy), g.emit("abs", [tested]), low])
    elif way:
        tested = g.emit(way, [tested])
    mask = g.emit("compare", [tested, g.splat(0, dtype, tested.shape)], direction="GE")
    pair.outputs(ports[1][0], g.emit("select", [mask, dx, dy]))
    return pair


def positive(g: Graph, x: Tensor) -> Tensor:
    return g.emit("compare", [x, g.splat(0, x.dtype, x.shape)], direction="GT")


@trial
def a_choice_by_the_sign_of_an_integer() -> Pair:
    """An integer may be below zero."""
    return chosen_by_sign("s32", "")


@trial
def a_choice_by_the_sign_of_a_number() -> Pair:
    """So may a real number."""
    return chosen_by_sign("f32", "")


@trial
def a_choice_by_the_sign_of_a_mask() -> Pair:
    """What is a magnitude, or hidden by -inf."""
    return chosen_by_sign("f32", "masked")


@trial
def a_choice_by_the_sign_of_a_root() -> Pair:
    """A root is at least zero, or no number, which compares as nothing."""
    return chosen_by_sign("f32", "sqrt")


@trial
def what_ranks_on_a_diagonal_keep_in_every_turn() -> Pair:
    """Two turns of an unrolled loop that compute the same, kept on half of the ranks and added up: no sum over turns of
    what one of them has."""
    pair = Pair({"dp": 2, "tp": 2})
    (v, dv), (x, dx) = pair.input((2,)), pair.input((4, 2))
    g = pair.dist
    mark = g.add("constant", [], [("pred", ())])
    mark.rank_numbers["value", 0] = {0: 1, 1: 0, 2: 0, 3: 1}
    wide, there = spread(g, dv, (8, 2), [1]), spread(g, mark.result, (4, 2), [])
    turns = []
    for n in (0, 4):
        one = g.emit("multiply", [dx, part(g, wide, 0, n, n + 4)])
        turns.append(g.emit("select", [there, one, g.splat(0.0, "f32", (4, 2))]))
    pair.outputs(pair.base.emit("multiply", [x, spread(pair.base, v, (4, 2), [1])]), g.emit("add", turns))
    return pair


def undone_logarithm(masked: bool) -> Pair:
    """exp(x) over y, and exp(x - log y), y of any sign or -inf in places."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4, 2), {0: "tp"}), pair.input((4, 2), {0: "tp"})
    if masked:
        y, dy = (
            g.emit("select", [
                g.emit("compare", [v, g.splat(0.25, "f32", v.shape)], direction="GT"), g.emit("abs", [v]),
                g.splat(float("-inf"), "f32", v.shape),
            ])
            for g, v in ((pair.base, y), (pair.dist, dy))
        )  # fmt: skip
    quotient = pair.base.emit("divide", [pair.base.emit("exponential", [x]), y])
    less = pair.dist.emit("subtract", [dx, pair.dist.emit("log", [dy])])
    pair.outputs(quotient, pair.dist.emit("exponential", [less]))
    return pair


@trial
def a_logarithm_undone_of_what_may_be_negative() -> Pair:
    """exp(0 - log(-2)) is no number, and 1 / -2 is one."""
    return undone_logarithm(masked=False)


@trial
def a_logarithm_undone_of_minus_infinity() -> Pair:
    """exp(0 - log(-inf)) is no number, and 1 / -inf is 0."""
    return undone_logarithm(masked=True)


def read_of_a_difference(read: tuple[int, ...], spread_along: tuple[int, ...]) -> Pair:
    """One element read of each row of x - y, index dim i going along with dim read[i] of x: x's element less y, in the
    baseline; y's dim i goes along with dim spread_along[i] of x."""
    pair = Pair({"tp": 2})
    dims = len(read)
    shape = (4,) * (dims + 1)
    (x, dx), (y, dy) = pair.input(shape), pair.input((4,) * dims)
    ids, dids = pair.input((*shape[1:], 1), dtype="s32", range=(0, 4))
    pair.dist.inputs[-1].range = (0, 4)
    (gone,) = set(range(dims + 1)) - set(read)
    attributes: dict[str, Any] = {
        "offset_dims": [], "collapsed_slice_dims": [gone], "start_index_map": [gone], "index_vector_dim": [dims],
        "slice_sizes": [1] * (dims + 1), "operand_batching_dims": sorted(read),
        "start_indices_batching_dims": [read.index(d) for d in sorted(read)], "mode": "clamp",
    }  # fmt: skip
    taken = pair.base.emit("gather", [x, ids], **attributes)
    less = pair.dist.emit("subtract", [dx, spread(pair.dist, dy, shape, spread_along)])
    pair.outputs(pair.base.emit("subtract", [taken, y]), pair.dist.emit("gather", [less, dids], **attributes))
    return pair


@trial
def what_is_read_less_what_varies_along_the_row() -> Pair:
    """A row less four numbers, one of which goes with what is read."""
    return read_of_a_difference((0,), (1,))


@trial
def what_is_read_in_another_order_than_it_is_spread() -> Pair:
    """x[j, i, id] - y[j, i] is not that less y[i, j]."""
    return read_of_a_difference((1, 0), (0, 1))


@trial
def what_is_spread_in_another_order_than_it_is_read() -> Pair:
    """x[i, j, id] - y[j, i] is not that less y[i, j]."""
    return read_of_a_difference((0, 1), (1, 0))


def added_to_zeros(*, rows: int = 1, extent: int = 1, width: int = 3) -> Pair:
    """A quarter added to a row of zeros; the baseline has quarters everywhere."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((extent, 3))
    g = pair.dist
    made = g.emit(
        "scatter", [g.splat(0.0, "f32", x.shape), g.splat(0, "s32", (rows, 1)), g.splat(0.25, "f32", (rows, width))],
        update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1,
        reducer="sum",
    )  # fmt: skip
    pair.outputs(numbers(pair.base, "multiply", x, 0.25), g.emit("multiply", [dx, made]))
    return pair


@trial
def a_number_added_twice_to_zeros() -> Pair:
    return added_to_zeros(rows=2)


@trial
def a_number_added_to_one_row_of_zeros() -> Pair:
    return added_to_zeros(extent=4)


@trial
def a_number_added_to_some_columns_of_zeros() -> Pair:
    return added_to_zeros(width=2)
