"""Wrong programs by hand: slices at the rank's own offset, of several dims, of sums, and what is glued of such."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.audit.fuzz.partitioner_steps import exchanged, part, rank_scalar
from scalify_dl.audit.pair import Pair, spread

from .number import numbers
from .registry import trial


def cut_at(pair: Pair, x_shape: Sequence[int], starts: Sequence[Sequence[int]], sizes: Sequence[int]) -> Pair:
    """A slice of a replicated value, at each rank's starts along every dim."""
    g = pair.dist
    x, dx = pair.input(tuple(x_shape))
    pair.outputs(x, g.emit("dynamic-slice", [dx, *(rank_scalar(pair, s) for s in starts)], sizes=list(sizes)))
    return pair


@trial
def blocks_of_one_dim_and_half_of_another() -> Pair:
    """Both halves of the rows, but the first columns alone."""
    return cut_at(Pair({"tp": 2}), (8, 8), [(0, 4), (0, 0)], (4, 4))


@trial
def blocks_of_two_dims_and_half_of_a_third() -> Pair:
    starts = [(0, 0, 4, 4), (0, 4, 0, 4), (0, 0, 0, 4)]
    return cut_at(Pair({"dp": 2, "tp": 2}), (8, 8, 8), starts, (4, 4, 4))


@trial
def the_own_block_of_parts_of_a_sum() -> Pair:
    """Each rank keeps a block of its own part: no rank has the other parts of it."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), pending={"tp": "sum"})
    offsets = [rank_scalar(pair, [0, 4]), pair.dist.constant(0, "s32")]
    pair.outputs(x, pair.dist.emit("dynamic-slice", [dx, *offsets], sizes=[4, 4]))
    return pair


def cut_by_padding(*, front: bool) -> Pair:
    """Of a run of elements that ranks have, two are cut away by a negative padding, and others put in their place."""
    pair = Pair({"tp": 2})
    g = pair.dist
    t, dt = pair.input((16, 2), {0: "tp"})
    run = exchanged(pair, dt, 0, "tp", 6, 4)
    low, high = ([-2, 0], [0, 0]) if front else ([0, 0], [-2, 0])
    short = g.emit("pad", [run, g.constant(0.0, "f32")], low=low, high=high, interior=[0, 0])
    parts = [part(g, run, 0, 2, 4), short] if front else [short, part(g, run, 0, 0, 2)]
    pair.outputs(part(pair.base, t, 0, 6, 14), g.emit("concatenate", parts, dimension=0))
    return pair


@trial
def elements_cut_away_in_front_by_a_padding() -> Pair:
    return cut_by_padding(front=True)


@trial
def elements_cut_away_behind_by_a_padding() -> Pair:
    return cut_by_padding(front=False)


@trial
def a_place_written_into_twice_the_numbers() -> Pair:
    """The rank that has the place writes it as it is, into a block that is doubled."""
    pair = Pair({"tp": 2})
    (x, dx), (u, du) = pair.input((8, 2), {0: "tp"}), pair.input((1, 2))
    at, own = pair.input((), dtype="s32", range=(0, 8))
    g = pair.dist
    into = numbers(g, "multiply", dx, 2.0)
    near = g.emit("subtract", [own, rank_scalar(pair, [0, 4])])
    inside = [g.emit("compare", [near, g.constant(n, "s32")], direction=way) for n, way in ((0, "GE"), (4, "LT"))]
    kept = g.emit("clamp", [g.constant(0, "s32"), near, g.constant(3, "s32")])
    written = g.emit("dynamic-update-slice", [into, du, kept, g.constant(0, "s32")])
    found = g.emit("select", [spread(g, g.emit("and", inside), into.shape, []), written, into])
    pair.outputs(
        pair.base.emit("dynamic-update-slice", [x, u, at, pair.base.constant(0, "s32")]),
        numbers(g, "multiply", found, 0.5),
    )
    return pair


@trial
def offsets_that_are_blocks_but_for_one_rank() -> Pair:
    """All ranks but the last begin where their own block does."""
    pair = Pair({"tp": 4})
    g = pair.dist
    x, dx = pair.input((16,))
    own = g.emit("dynamic-slice", [dx, rank_scalar(pair, (0, 4, 8, 8))], sizes=[4])
    pair.outputs(x, g.emit("all-gather", [own], dimension=0, groups=pair.groups("tp")))
    return pair
