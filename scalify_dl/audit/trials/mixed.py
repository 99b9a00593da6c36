"""Blocks, turns, padding, and what is gathered late."""

from __future__ import annotations

from functools import partial
from typing import Any

from scalify_dl.audit.fuzz.halo_steps import Window, rolled, with_borders
from scalify_dl.audit.fuzz.order_steps import reordered
from scalify_dl.audit.fuzz.padding_steps import first, gathered, uneven_shard
from scalify_dl.audit.fuzz.partitioner_steps import exchanged, part, rank_scalar
from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Graph, Tensor

from .moved import ROWS
from .registry import TRIALS, summed, trial


@trial
def one_of_65_blocks() -> Pair:
    """A product over 65 rows, of which the distributed side takes the first (rewrites/unrolled/: bits of a mask)."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((4, 65)), pair.input((65, 2))
    turns = [matmul(pair.dist, part(pair.dist, dx, 1, n, n + 1), part(pair.dist, dw, 0, n, n + 1)) for n in range(2)]
    base = matmul(pair.base, x, w)
    pair.outputs(base, turns[0])
    pair.outputs(base, pair.dist.emit("add", turns))
    return pair


@trial
def one_of_65_ranks() -> Pair:
    """A sum over a ring of 65 ranks of which two terms are added."""
    pair = Pair({"tp": 65})
    (x, dx), (w, dw) = pair.input((65, 2), {0: "tp"}), pair.input((2, 2))
    moved = pair.dist.emit("collective-permute", [dx], pairs=[(r, (r + 1) % 65) for r in range(65)])
    turns = [pair.dist.emit("reduce", [matmul(pair.dist, v, dw)], dimensions=[0], reducer="sum") for v in (dx, moved)]
    base = pair.base.emit("reduce", [matmul(pair.base, x, w)], dimensions=[0], reducer="sum")
    pair.outputs(base, turns[0])
    pair.outputs(base, pair.dist.emit("add", turns))
    return pair


def dropped(g: Graph, x: Tensor) -> Tensor:
    """A random mask of the value."""
    return g.emit("convert", [g.emit("dropout-mask", [x], probability="0.5")], dtype="f32")


@trial
def a_mask_drawn_again_for_the_padded_value() -> Pair:
    """The baseline uses one mask twice, the distributed side draws another one for the padded value."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((5, 2))
    base = dropped(pair.base, x)
    shard = uneven_shard(pair, dx, 0, "tp")
    pair.outputs(base, dropped(pair.dist, dx))
    pair.outputs(
        pair.base.emit("multiply", [x, base]),
        gathered(pair, pair.dist.emit("multiply", [shard, dropped(pair.dist, shard)]), 0, "tp", 5),
    )
    return pair


@trial
def a_maximum_over_nothing() -> Pair:
    """-inf in the padding, times the zeros of a padded weight."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((0, 5)), pair.input((5,))
    top = pair.base.emit("reduce", [x], dimensions=[0], reducer="max")
    mine = pair.dist.emit("reduce", [uneven_shard(pair, dx, 1, "tp")], dimensions=[0], reducer="max")
    weight = pair.dist.emit("exponential", [dw])
    base = pair.base.emit("multiply", [top, pair.base.emit("exponential", [w])])
    one = pair.dist.emit("multiply", [mine, uneven_shard(pair, weight, 0, "tp")])
    pair.outputs(pair.base.emit("reduce", [base], dimensions=[0], reducer="sum"), summed(pair, one, [0]))
    return pair


@trial
def a_whole_quotient_of_positive_numbers() -> Pair:
    """1 / 2 is 0 where numbers are whole, and 0 / 0 is not 0."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = (pair.input((5,), dtype="s32", range=(4, 9)) for _ in range(2))
    half = pair.base.emit("divide", [x, pair.base.splat(2, "s32", (5,))])
    mine, over = uneven_shard(pair, dx, 0, "tp", filler=1), uneven_shard(pair, dw, 0, "tp", filler=0)
    less = pair.dist.emit("divide", [mine, pair.dist.splat(2, "s32", mine.shape)])
    pair.outputs(
        pair.base.emit("reduce", [pair.base.emit("divide", [w, half])], dimensions=[0], reducer="sum"),
        summed(pair, pair.dist.emit("divide", [over, less]), [0]),
    )
    return pair


def logarithm_of_a_difference(*, spread_out: bool) -> Pair:
    """log(exp(x) - 0.3), where the padding has exp(-5) - 0.3, times the zeros of a padded weight."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((5, 2)), pair.input((5, 2))
    logs = []
    for g, v in ((pair.base, x), (pair.dist, uneven_shard(pair, dx, 0, "tp", filler=-5.0))):
        number = spread(g, g.constant(-0.3, "f32"), v.shape, []) if spread_out else g.splat(-0.3, "f32", v.shape)
        logs.append(g.emit("log", [g.emit("add", [g.emit("exponential", [v]), number])]))
    one = pair.dist.emit("multiply", [logs[1], uneven_shard(pair, dw, 0, "tp")])
    base = pair.base.emit("reduce", [pair.base.emit("multiply", [logs[0], w])], dimensions=[0], reducer="sum")
    pair.outputs(base, summed(pair, one, [0]))
    return pair


@trial
def a_logarithm_of_what_is_less_than_nothing() -> Pair:
    """The subtracted number is a constant of the value's shape."""
    return logarithm_of_a_difference(spread_out=False)


@trial
def a_logarithm_of_what_is_less_than_a_number() -> Pair:
    """The subtracted number is spread."""
    return logarithm_of_a_difference(spread_out=True)


@trial
def a_corner_cut_by_a_pad() -> Pair:
    """A pad that cuts the padded dim and another one."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((5, 4))
    shard = uneven_shard(pair, dx, 0, "tp")
    pair.outputs(x, gathered(pair, shard, 0, "tp", 5, cut=True, beside=1))
    return pair


@trial
def a_logarithm_of_negative_padding() -> Pair:
    """log(x + 3) where the padding of x is -5, times the zeros of a padded weight."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((5, 2)), pair.input((5, 2))
    logs = []
    for g, v in ((pair.base, x), (pair.dist, uneven_shard(pair, dx, 0, "tp", filler=-5.0))):
        logs.append(g.emit("log", [g.emit("add", [v, g.splat(3.0, "f32", v.shape)])]))
    one = pair.dist.emit("multiply", [logs[1], uneven_shard(pair, dw, 0, "tp")])
    base = pair.base.emit("multiply", [logs[0], w])
    pair.outputs(pair.base.emit("reduce", [base], dimensions=[0], reducer="sum"), summed(pair, one, [0]))
    return pair


@trial
def a_diagonal_that_is_passed_on() -> Pair:
    """Round a ring, a product of K's rows and R's columns on the diagonal is passed on, where its factors would be
    computed anew."""
    pair = Pair({"tp": 2})
    (k, dk), (r, dr) = pair.input((4, 3), {0: "tp"}), pair.input((3, 6), {1: "tp"})
    p, dp = pair.input((4,), {0: "tp"})
    g, b, ring = pair.dist, pair.base, [(0, 1), (1, 0)]

    def sent(v: Tensor) -> Tensor:
        return g.emit("collective-permute", [v], pairs=ring)

    product, weight = matmul(g, dk, dr), spread(g, dp, (2, 3), [0])
    other, other_weight = matmul(g, sent(dk), dr), spread(g, sent(dp), (2, 3), [0])
    weighed = g.emit("multiply", [product, weight])
    whole, wide = matmul(b, k, r), spread(b, p, (4, 6), [0])
    sums = [(whole, [product, other]), (wide, [weight, other_weight])]
    for base, turns in [*sums, (b.emit("multiply", [whole, wide]), [weighed, sent(weighed)])]:
        blocks = b.emit("reshape", [base], shape=(2, 2, 6))
        pair.outputs(b.emit("reduce", [blocks], dimensions=[0], reducer="sum"), g.emit("add", turns))
    return pair


@trial
def a_convolution_over_blocks_in_another_order() -> Pair:
    """Positions matter to a convolution, and it adds up, too."""
    pair = Pair({"tp": 4})
    (x, dx), (k, dk) = pair.input((2, 8, 2), {1: "tp"}), pair.input((3, 2, 2))
    whole = reordered(pair, dx, 1, "tp", [0, 1, 3, 2])
    window = Window(3, kind="convolution")
    pair.outputs(window.apply(pair.base, x, k, 1, 1), window.apply(pair.dist, whole, dk, 1, 1))
    return pair


@trial
def a_part_without_elements_is_passed_on() -> Pair:
    """Parts of the shards, one without elements, and one from the wrong place."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    pair.outputs(part(pair.base, x, 0, 1, 1), exchanged(pair, dx, 0, "tp", 1, 0))
    pair.outputs(part(pair.base, x, 0, 1, 5), exchanged(pair, dx, 0, "tp", 1, 2, slip=1))
    return pair


@trial
def one_of_two_rolls() -> Pair:
    """The baseline rolls a value by one and by two; the shards with their borders roll it by one."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    z = part(pair.dist, with_borders(pair, dx, 0, "tp", 0, 1, around=True), 0, 1, 5)
    pair.outputs(rolled(pair, x, 0, 1), z)
    pair.outputs(rolled(pair, x, 0, 2), pair.dist.emit("negate", [pair.dist.emit("negate", [z])]))
    return pair


@trial
def a_shift_and_a_column() -> Pair:
    """One pad of the baseline moves the value along its rows and adds a column."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    number = pair.base.constant(0.0, "f32")
    padded = pair.base.emit("pad", [x, number], low=[1, 0], high=[0, 1], interior=[0, 0])
    z = part(pair.dist, with_borders(pair, dx, 0, "tp", 1, 0), 0, 0, 4)
    pair.outputs(part(pair.base, padded, 0, 0, 8), z)
    return pair


def late(mesh: dict[str, int], axes: list[str], gathered_part: str) -> Pair:
    """Rows of a table over `tp`, by ids over `axes`; what is called `gathered_part` is made of the rank's own ids and
    gathered then, though it depends on the rank."""
    pair = Pair(mesh)
    (t, dt), (i, di) = pair.input((8, 2), {0: "tp"}), pair.input((8,), {0: axes}, dtype="s32", range=(0, 8))
    g, own = pair.dist, first(pair, "tp", 4)

    def rank(values: list[int], x: Tensor) -> Tensor:
        return g.emit("broadcast", [rank_scalar(pair, values)], shape=x.shape, dimensions=[])

    def whole(x: Tensor) -> Tensor:
        return g.emit("all-gather", [x], dimension=0, groups=pair.groups(*axes))

    def outside(x: Tensor) -> Tensor:
        ends = [(own, "LT"), ([v + 4 for v in own], "GE")]
        return g.emit("or", [g.emit("compare", [x, rank(v, x)], direction=way) for v, way in ends])

    def near(x: Tensor) -> Tensor:
        return g.emit("subtract", [x, rank(own, x)])

    def choice(x: Tensor, bound: Tensor, way: str, one: Tensor, other: Tensor) -> Tensor:
        return g.emit("select", [g.emit("compare", [x, bound], direction=way), one, other])

    zero, ids = g.splat(0, "s32", di.shape), whole(di)
    mask = whole(g.emit("not", [outside(di)])) if gathered_part == "negation" else g.emit("not", [outside(ids)])
    local = {
        "negation": lambda: near(ids),
        "difference": lambda: whole(near(di)),
        "condition": lambda: near(whole(choice(di, rank(own, di), "GE", di, zero))),
        "first arm": lambda: whole(choice(di, zero, "GE", near(di), zero)),
        "second arm": lambda: whole(choice(di, zero, "LT", zero, near(di))),
    }[gathered_part]()
    rows = g.emit("gather", [dt, local], **ROWS)
    kept = g.emit("select", [spread(g, mask, rows.shape, [0]), rows, g.splat(0.0, "f32", rows.shape)])
    expected = pair.base.emit("gather", [t, i], **ROWS)
    pair.outputs(expected, g.emit("all-reduce", [kept], reducer="sum", groups=pair.groups("tp")))
    return pair


for what in ("negation", "condition", "first arm", "second arm", "difference"):
    TRIALS[f"a {what} that is gathered late"] = partial(late, {"tp": 2}, ["tp"], what)
TRIALS["a difference that is gathered late over two axes"] = partial(
    late, {"dp": 2, "tp": 2}, ["dp", "tp"], "difference"
)


@trial
def casts_of_a_pending_maximum() -> Pair:
    """To truth values, where -1 counts as true, and to narrow numbers, which wrap round."""
    pair = Pair({"tp": 2})
    x, y = (
        pair.input((16,), pending={"tp": "max"}, dtype=dtype, range=bounds)
        for dtype, bounds in (("f32", None), ("s32", (100, 200)))
    )
    low = [g.emit("floor", [v]) for g, v in zip((pair.base, pair.dist), x, strict=True)]
    for values, dtype in ((low, "pred"), (y, "s8")):
        casts = (g.emit("convert", [v], dtype=dtype) for g, v in zip((pair.base, pair.dist), values, strict=True))
        pair.outputs(*casts, layout="[0:1x16]|tp=max2")
    return pair


@trial
def parts_that_are_no_blocks() -> Pair:
    """Parts of the size of a half or of nearly a half that begin elsewhere."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2))
    parts = [pair.input((n, 2)) for n in (2, 4, 2)]
    joined = pair.dist.emit("concatenate", [d for _, d in parts], dimension=0)
    pair.outputs(pair.base.emit("concatenate", [b for b, _ in parts], dimension=0), joined)
    pair.outputs(pair.base.emit("negate", [parts[1][0]]), pair.dist.emit("negate", [part(pair.dist, joined, 0, 0, 4)]))
    pair.outputs(part(pair.base, x, 0, 0, 4), part(pair.dist, dx, 0, 1, 5))
    pair.outputs(part(pair.base, x, 0, 4, 8), part(pair.dist, dx, 0, 3, 6))
    return pair


@trial
def all_rows_times_all_rows_for_each_row_with_itself() -> Pair:
    """x·yᵀ, all of it or a row, for the products of row i of x and row i of y: only its diagonal is that."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy), (z, dz) = pair.input((4, 3)), pair.input((4, 3)), pair.input((4, 3), {0: "tp"})
    along: dict[str, Any] = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [1]}
    for base, left, right in ((x, dx, dy), (z, dz, dz)):
        other = y if base is x else z
        own = pair.base.emit("dot", [base, other], lhs_batch_dims=[0], rhs_batch_dims=[0], **along)
        every = pair.dist.emit("dot", [left, right], **along)
        pair.outputs(pair.base.emit("reduce", [own], dimensions=[0], reducer="sum"), summed(pair, every, [0, 1]))
        pair.outputs(own, pair.dist.emit("reduce", [every], dimensions=[1], reducer="sum"))
    return pair
