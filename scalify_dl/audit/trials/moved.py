"""Wrong programs by hand about values that are cut, moved, masked or added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from scalify_dl.audit.fuzz.halo_steps import Window, with_borders
from scalify_dl.audit.fuzz.padding_steps import first, gathered, uneven_shard
from scalify_dl.audit.fuzz.partitioner_steps import exchanged, part, rank_scalar
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .registry import TRIALS, trial

ROWS: dict[str, Any] = {
    "offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1, 2],
    "index_vector_dim": 1, "mode": "clamp",
}  # fmt: skip


def total(g: Graph, x: Tensor) -> Tensor:
    """The sum over the first dim."""
    return g.emit("reduce", [x], dimensions=[0], reducer="sum")


def of_rank(pair: Pair, values: Sequence[int], x: Tensor) -> Tensor:
    """An integer of each rank's own, everywhere."""
    return pair.dist.emit("broadcast", [rank_scalar(pair, values)], shape=x.shape, dimensions=[])


def inside(pair: Pair, x: Tensor, rows: int) -> Tensor:
    """Which ids are among the rank's `rows` rows, blocks over `tp`."""
    own = first(pair, "tp", rows)
    ends = [(own, "GE"), ([v + rows for v in own], "LT")]
    return pair.dist.emit(
        "and", [pair.dist.emit("compare", [x, of_rank(pair, v, x)], direction=way) for v, way in ends]
    )


def kept(g: Graph, mask: Tensor, x: Tensor) -> Tensor:
    """Rows of x where the mask is true, else zeros."""
    return g.emit("select", [spread(g, mask, x.shape, [0]), x, g.splat(0.0, "f32", x.shape)])


@trial
def two_of_three_blocks() -> Pair:
    """Blocks that leave a rest, joined without it."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((7, 2))
    halves = [(part(pair.base, x, 0, n, n + 3), part(pair.dist, dx, 0, n, n + 3)) for n in (0, 3)]
    for half in halves:
        pair.outputs(*(g.emit("negate", [v]) for g, v in zip((pair.base, pair.dist), half, strict=True)))
    joined = pair.dist.emit("concatenate", [half for _, half in halves], dimension=0)
    pair.outputs(total(pair.base, x), total(pair.dist, joined))
    return pair


@trial
def two_of_three_parts() -> Pair:
    """The baseline joins three parts, the last one a smaller one; the distributed side joins two."""
    pair = Pair({"tp": 2})
    inputs = [pair.input((n, 2)) for n in (3, 3, 1)]
    base = pair.base.emit("concatenate", [x for x, _ in inputs], dimension=0)
    dist = pair.dist.emit("concatenate", [d for _, d in inputs[:2]], dimension=0)
    pair.outputs(total(pair.base, base), total(pair.dist, dist))
    return pair


@trial
def parts_without_elements() -> Pair:
    """Cut from both sides, and joined to something."""
    pair = Pair({"tp": 2})
    (x, dx), (y, _) = pair.input((8, 2)), pair.input((0, 2))
    pair.outputs(part(pair.base, x, 0, 2, 2), part(pair.dist, dx, 0, 3, 3))
    pair.outputs(pair.base.emit("concatenate", [x, y], dimension=0), pair.dist.emit("negate", [dx]))
    return pair


@trial
def the_maximum_of_sums_of_negative_terms() -> Pair:
    """-x - y - z, where the parts of -1 times the sum of maxima are added up."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy), (z, dz) = (pair.input((3,), pending={"tp": "max"}) for _ in range(3))
    base = pair.base.emit("subtract", [pair.base.emit("subtract", [pair.base.emit("negate", [x]), y]), z])
    pair.outputs(base, pair.dist.emit("add", [pair.dist.emit("add", [dx, dy]), dz]))
    return pair


@trial
def the_maximum_of_sums() -> Pair:
    """x + y + z, from maxima that are still pending."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy), (z, dz) = (pair.input((3,), pending={"tp": "max"}) for _ in range(3))
    sums = [g.emit("add", [g.emit("add", [u, v]), w]) for g, u, v, w in ((pair.base, x, y, z), (pair.dist, dx, dy, dz))]
    pair.outputs(*sums)
    return pair


@trial
def zero_times_a_sum_in_uneven_shards() -> Pair:
    """A number everywhere that is 0, padded."""
    pair = Pair({"tp": 2})
    (x, dx), (y, _) = pair.input((5, 2)), pair.input((5, 2))
    zero = pair.base.emit("multiply", [pair.base.emit("add", [x, y]), pair.base.splat(0.0, "f32", (5, 2))])
    pair.outputs(zero, gathered(pair, uneven_shard(pair, dx, 0, "tp"), 0, "tp", 5))
    return pair


@trial
def one_mask_before_a_gather_and_another_behind() -> Pair:
    """Each mask keeps too much on other ranks than the other one, and between them rows change ranks."""
    pair = Pair({"dp": 2, "tp": 2})
    (t, dt), (i, di) = pair.input((8, 2), {0: "tp"}), pair.input((8,), {0: "dp"}, dtype="s32", range=(0, 8))
    g = pair.dist

    def mask(x: Tensor, coordinate: int) -> Tensor:
        all_of_it = of_rank(pair, [int(c[0] == coordinate) for c in pair.mesh.coordinates], x)
        here = g.emit("add", [g.emit("multiply", [x, g.splat(0, "s32", x.shape)]), all_of_it])
        return g.emit("or", [inside(pair, x, 4), g.emit("compare", [here, g.splat(0, "s32", x.shape)], direction="NE")])

    def whole(x: Tensor) -> Tensor:
        return g.emit("all-gather", [x], dimension=0, groups=pair.groups("dp"))

    rows = g.emit("gather", [dt, g.emit("subtract", [di, of_rank(pair, first(pair, "tp", 4), di)])], **ROWS)
    twice = kept(g, mask(whole(di), 1), whole(kept(g, mask(di, 0), rows)))
    expected = pair.base.emit("gather", [t, i], **ROWS)
    pair.outputs(expected, g.emit("all-reduce", [twice], reducer="sum", groups=pair.groups("tp")))
    return pair


def masked(ranks: int, also: Callable[[Pair, Tensor], Tensor]) -> Pair:
    """Rows of a table in blocks; what some other condition of the ids says is kept, too."""
    pair = Pair({"tp": ranks})
    (t, dt), (i, di) = pair.input((8, 2), {0: "tp"}), pair.input((6,), dtype="s32", range=(0, 8))
    g, n = pair.dist, 8 // ranks
    rows = g.emit("gather", [dt, g.emit("subtract", [di, of_rank(pair, first(pair, "tp", n), di)])], **ROWS)
    sums = kept(g, g.emit("or", [inside(pair, di, n), also(pair, di)]), rows)
    expected = pair.base.emit("gather", [t, i], **ROWS)
    pair.outputs(expected, g.emit("all-reduce", [sums], reducer="sum", groups=pair.groups("tp")))
    return pair


def half_of_a_truth(pair: Pair, ids: Tensor) -> Tensor:
    """0.5 > 0, which is not so where numbers are whole."""
    g = pair.dist
    one = g.emit("convert", [g.emit("compare", [ids, g.splat(0, "s32", ids.shape)], direction="GE")], dtype="f32")
    half = g.emit("divide", [one, g.splat(2.0, "f32", ids.shape)])
    return g.emit("compare", [half, g.splat(0.0, "f32", ids.shape)], direction="GT")


TRIALS["a mask that also takes half of a truth"] = partial(masked, 2, half_of_a_truth)


def cropped(*, front: bool) -> Pair:
    """Shards glued of two parts, of which one is cropped by a pad: at its front, or at its end."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((12, 2), {0: "tp"})
    g, ring = pair.dist, [(0, 1), (1, 0)]
    back = g.emit("collective-permute", [g.emit("collective-permute", [dx], pairs=ring)], pairs=ring)

    def padded(v: Tensor, low: int, high: int) -> Tensor:
        return g.emit("pad", [v, g.constant(0.0, "f32")], low=[low, 0], high=[high, 0], interior=[0, 0])

    if front:
        parts = [padded(part(g, back, 0, 0, 3), 0, 2), padded(part(g, dx, 0, 3, 6), -2, 0)]
    else:
        parts = [padded(back, 0, -2), part(g, dx, 0, 0, 2)]
    pair.outputs(x, g.emit("concatenate", parts, dimension=0))
    return pair


TRIALS["a part that is cropped at its front"] = partial(cropped, front=True)
TRIALS["a part that is cropped at its end"] = partial(cropped, front=False)


@trial
def twice_the_shards_cut_anew() -> Pair:
    """The value is doubled before its shards are cut and glued."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    twice = pair.dist.emit("multiply", [dx, pair.dist.splat(2.0, "f32", dx.shape)])
    pair.outputs(part(pair.base, x, 0, 1, 5), exchanged(pair, twice, 0, "tp", 1, 2))
    return pair


@trial
def ones_passed_round_a_ring() -> Pair:
    """Ones that are passed round, and used unmoved beside something that is."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8,), {0: "tp"})
    b, g, ring = pair.base, pair.dist, [(0, 1), (1, 0)]
    ones, mine = b.splat(1.0, "f32", (8,)), g.splat(1.0, "f32", (4,))
    turns = [(v, g.emit("collective-permute", [v], pairs=ring)) for v in (dx, mine)]

    def weighed(graph: Graph, v: Tensor, w: Tensor) -> Tensor:
        return total(graph, graph.emit("multiply", [graph.emit("exponential", [v]), graph.emit("add", [w, w])]))

    pair.outputs(weighed(b, x, ones), g.emit("add", [weighed(g, v, mine) for v in turns[0]]))
    sums = [total(g, g.emit("exponential", [v])) for v in turns[1]]
    pair.outputs(total(b, b.emit("exponential", [ones])), g.emit("negate", [g.emit("add", sums)]))
    return pair


@trial
def windows_longer_than_the_shard() -> Pair:
    """No window fits into a shard with its borders."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8, 2), {1: "tp"})
    window = Window(7, low=1)
    short = window.apply(pair.dist, with_borders(pair, dx, 1, "tp", 1, 1), None, 0, 0)
    zeros: dict[str, Any] = {"low": [0, 4, 0], "high": [0, 0, 0], "interior": [0, 0, 0]}
    pair.outputs(
        window.apply(pair.base, x, None, 1, 5),
        pair.dist.emit("pad", [short, pair.dist.constant(0.0, "f32")], **zeros),
    )
    return pair


@trial
def zeros_that_are_padded_with_twos() -> Pair:
    """0 x, whose padding is 0 at first, and 2 behind a mask; times a value that is padded with 1."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((5, 2)), pair.input((5, 3))
    b, g = pair.base, pair.dist
    mine, other = (uneven_shard(pair, v, 0, "tp", filler=1.0) for v in (dx, dy))
    place = g.emit("iota", [], shape=mine.shape, dtype="s32", dimension=0)
    place = g.emit("add", [place, of_rank(pair, first(pair, "tp", 3), mine)])
    mask = g.emit("compare", [place, g.splat(5, "s32", mine.shape)], direction="LT")
    zero = g.emit("multiply", [mine, g.splat(0.0, "f32", mine.shape)])
    twos = g.emit("select", [mask, zero, g.splat(2.0, "f32", mine.shape)])
    dims: dict[str, Any] = {"lhs_contracting_dims": [0], "rhs_contracting_dims": [0]}
    product = g.emit("all-reduce", [g.emit("dot", [twos, other], **dims)], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(b.emit("dot", [b.emit("multiply", [x, b.splat(0.0, "f32", (5, 2))]), y], **dims), product)
    return pair


def halves_side_by_side(shape: tuple[int, ...], cut: int, along: int) -> Pair:
    """Both halves of a value, along another dim; the baseline has the elements in the value's order."""
    pair = Pair({"tp": 2})
    x, dx = pair.input(shape)
    half = shape[cut] // 2
    halves = [part(pair.dist, dx, cut, lo, lo + half) for lo in (0, half)]
    joined = pair.dist.emit("concatenate", halves, dimension=along)
    pair.outputs(pair.base.emit("reshape", [x], shape=joined.shape), joined)
    return pair


for shape, cut, along in (
    ((4, 1), 0, 1), ((1, 4, 1), 1, 2), ((4, 2), 0, 1), ((2, 4, 2), 1, 2), ((2, 4), 1, 0), ((2, 1, 4), 2, 0),
):  # fmt: skip
    TRIALS[f"halves of {shape} along {cut}, beside each other along {along}"] = partial(
        halves_side_by_side, shape, cut, along
    )
