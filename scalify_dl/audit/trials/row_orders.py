"""Wrong programs by hand: the greatest of a row that is cut over ranks, by what each rank finds in its block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from scalify_dl.audit.fuzz.block_order_steps import (
    Search,
    gathered,
    in_row,
    least_place,
    place,
    place_of_greatest,
    read,
    top,
    top_of_blocks,
)
from scalify_dl.audit.fuzz.padding_steps import first
from scalify_dl.audit.fuzz.partitioner_steps import rank_scalar
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.literals import Literal

from .registry import trial

Way = Callable[[Pair, Tensor, int, str, Search], Tensor]
ROWS, LENGTH, WAYS = 12, 8, 2
BLOCK = LENGTH // WAYS


def placed(
    way: Way, how: Search, *, reducer: str = "argmax", dtype: str = "s32",
    made: Callable[[Graph, Tensor], Tensor] = lambda g, x: x,
) -> Pair:  # fmt: skip
    """Where the greatest of each row is, the row being cut over tp=2; integers are equal often."""
    pair = Pair({"tp": WAYS})
    x, dx = pair.input((ROWS, LENGTH), {1: "tp"}, dtype=dtype, range=(0, 4) if dtype == "s32" else None)
    base, dist = made(pair.base, x), made(pair.dist, dx)
    pair.outputs(place(pair.base, base, 1, reducer, how.dtype), way(pair, dist, 1, "tp", how))
    return pair


def tops(how: Search, *, kept: int = 2, dtype: str = "s32", mesh: dict[str, int] | None = None) -> Pair:
    """The greatest of each row, and where they are."""
    pair = Pair(mesh or {"tp": WAYS})
    x, dx = pair.input((ROWS, LENGTH), {1: "tp"}, dtype=dtype, range=(0, 4) if dtype == "s32" else None)
    found = zip(top(pair.base, x, kept, how), top_of_blocks(pair, dx, "tp", how), strict=True)
    for values in found:
        pair.outputs(*values)
    return pair


def logarithm(g: Graph, x: Tensor) -> Tensor:
    """NaN where x is negative."""
    return g.emit("log", [x])


def unlike(name: str, build: Callable[[], Pair]) -> None:
    def named() -> Pair:
        return build()

    named.__name__ = name
    trial(named)


TABLE: dict[str, Search] = {
    "places_in_the_block": Search(apart=0),
    "places_of_interleaved_blocks": Search(apart=1),
    "blocks_with_a_gap": Search(apart=BLOCK + 1),
    "places_in_the_next_block": Search(late=1),
}
"""Offsets, of whatever way."""
LEAST: dict[str, Search] = {
    "a_far_number_in_the_row": Search(far=LENGTH - 2),
    "a_far_number_among_the_places": Search(far=BLOCK),
    "a_far_number_below_all_places": Search(far=-(2**31)),
    "the_greatest_of_the_own_block": Search(combined=""),
    "the_least_of_the_greatest": Search(combined="min"),
    "the_last_of_the_places": Search(least="max", far=-1),
    "places_unless_it_is_greater": Search(direction="GT"),
    "places_where_it_is_no_greater": Search(direction="LE"),
    "the_least_of_a_block_compared": Search(compared="min"),
    "the_place_of_the_least_of_a_block": Search(reducer="argmin"),
}
FIRST: dict[str, Search] = {
    "blocks_in_another_order": Search(order=(1, 0)),
    "places_in_another_order_than_values": Search(order_of_places=(1, 0)),
    "the_block_with_the_least": Search(second="argmin"),
    "the_least_of_each_block": Search(compared="min"),
    "an_index_that_wraps_too_soon": Search(below=1),
    "the_places_of_the_least_of_each_block": Search(reducer="argmin"),
}
TOPS: dict[str, Search] = {
    "fewer_of_each_block_than_of_the_row": Search(of_block=1),
    "tops_in_another_order": Search(order=(1, 0)),
    "places_of_tops_in_another_order": Search(order_of_places=(1, 0)),
    "a_place_of_a_top_that_wraps_too_soon": Search(below=1),
}
for _name, _how in TABLE.items():
    unlike(f"least_of_{_name}", partial(placed, least_place, _how))
    unlike(f"first_of_{_name}", partial(placed, place_of_greatest, _how))
    unlike(f"tops_by_{_name}", partial(tops, _how))
for _name, _how in LEAST.items():
    unlike(_name, partial(placed, least_place, _how))
for _name, _how in FIRST.items():
    unlike(_name, partial(placed, place_of_greatest, _how))
for _name, _how in TOPS.items():
    unlike(_name, partial(tops, _how))


@trial
def a_greatest_that_is_no_number() -> Pair:
    """NaN is the greatest, and equals nothing."""
    return placed(least_place, Search(), dtype="f32", made=logarithm)


@trial
def the_place_of_the_least_for_that_of_the_greatest() -> Pair:
    return placed(least_place, Search(), reducer="argmin")


@trial
def blocks_over_another_axis_than_is_searched() -> Pair:
    """Blocks over dp, found over tp."""
    pair, how = Pair({"dp": 2, "tp": 2}), Search()
    x, dx = pair.input((ROWS, LENGTH), {1: "dp"}, dtype="s32", range=(0, 4))
    pair.outputs(place(pair.base, x, 1, "argmax", "s32"), place_of_greatest(pair, dx, 1, "tp", how))
    return pair


@trial
def pieces_in_the_place_of_rows() -> Pair:
    """Rows over tp are searched as if they were blocks of one."""
    pair, how = Pair({"tp": 2}), replace(Search(), apart=LENGTH)
    x, dx = pair.input((4, LENGTH), {0: "tp"}, dtype="s32", range=(0, 4))
    flat = pair.base.emit("reshape", [x], shape=(2, 2 * LENGTH))
    pair.outputs(place(pair.base, flat, 1, "argmax", "s32"), place_of_greatest(pair, dx, 1, "tp", how))
    return pair


def least_of(*, doubled: bool = False, far: str = str(1 << 20)) -> Pair:
    """The least of the places. `doubled`: ranks have twice their greatest and its place."""
    pair, how = Pair({"tp": WAYS}), Search()
    x, dx = pair.input((ROWS, LENGTH), {1: "tp"}, dtype="f32")
    g = pair.dist
    own = g.emit("reduce", [dx], dimensions=[1], reducer="max")
    whole = g.emit("all-reduce", [own], reducer="max", groups=pair.groups("tp"))
    mine = in_row(pair, place(g, dx, 1, "argmax", "s32"), "tp", BLOCK, how)
    if doubled:
        own, mine = (g.emit("add", [v, v]) for v in (own, mine))
    truth = g.emit("compare", [own, whole], direction="EQ")
    constant = g.add("constant", [], [("s32", mine.shape)])
    constant.result.literal = Literal(far)
    chosen = g.emit("select", [truth, mine, constant.result])
    least = g.emit("all-reduce", [chosen], reducer="min", groups=pair.groups("tp"))
    pair.outputs(place(pair.base, x, 1, "argmax", "s32"), least)
    return pair


@trial
def ranks_that_have_twice_their_greatest_and_its_place() -> Pair:
    return least_of(doubled=True)


@trial
def far_numbers_that_are_not_all_far() -> Pair:
    return least_of(far="{" + ",".join(["1048576", *"1" * (ROWS - 1)]) + "}")


@trial
def rows_along_the_first_dim_of_a_cube() -> Pair:
    """Two dims of one length are left, the other one first."""
    pair, how = Pair({"tp": WAYS}), Search()
    x, dx = pair.input((LENGTH, 3, 3), {0: "tp"}, dtype="s32", range=(0, 4))
    turned = pair.base.emit("transpose", [place(pair.base, x, 0, "argmax", "s32")], dimensions=[1, 0])
    pair.outputs(turned, place_of_greatest(pair, dx, 0, "tp", how))
    return pair


def on_rank(pair: Pair, x: Tensor, chosen: int) -> Tensor:
    """The value at one coordinate of dp, zeros at the others."""
    g = pair.dist
    own = rank_scalar(pair, first(pair, "dp", 1))
    here = g.emit("compare", [own, g.constant(chosen, "s32")], direction="EQ")
    return g.emit("select", [spread(g, here, x.shape, []), x, g.splat(0, x.dtype, x.shape)])


@trial
def the_greatest_of_a_row_compared_on_another_rank() -> Pair:
    """One rank has the greatest of its block and its place, another one that of the row: zeros beside them."""
    pair, how = Pair({"dp": 2, "tp": WAYS}), Search()
    x, dx = pair.input((ROWS, LENGTH), {1: "tp"}, dtype="s32", range=(0, 4))
    g = pair.dist
    own = g.emit("reduce", [dx], dimensions=[1], reducer="max")
    whole = g.emit("all-reduce", [own], reducer="max", groups=pair.groups("tp"))
    mine = in_row(pair, place(g, dx, 1, "argmax", "s32"), "tp", BLOCK, how)
    truth = g.emit("compare", [on_rank(pair, own, 0), on_rank(pair, whole, 1)], direction="EQ")
    chosen = g.emit("select", [truth, on_rank(pair, mine, 0), g.splat(how.far, "s32", mine.shape)])
    least = g.emit("all-reduce", [chosen], reducer="min", groups=pair.groups("tp"))
    total = g.emit("all-reduce", [least], reducer="sum", groups=pair.groups("dp"))
    pair.outputs(place(pair.base, x, 1, "argmax", "s32"), total)
    return pair


@trial
def places_that_one_rank_finds_and_all_add_to() -> Pair:
    """Every rank adds the number of the elements before the block, and all of that is summed."""
    pair, how = Pair({"dp": 2, "tp": WAYS}), Search()
    x, dx = pair.input((ROWS, LENGTH), {1: "tp"}, dtype="f32")
    g = pair.dist
    found = on_rank(pair, place(g, dx, 1, "argmax", "s32"), 0)
    added = in_row(pair, found, "tp", BLOCK, how)
    mine = g.emit("all-reduce", [added], reducer="sum", groups=pair.groups("dp"))
    own = g.emit("reduce", [dx], dimensions=[1], reducer="max")
    values, places = (
        gathered(pair, g.emit("reshape", [v], shape=(1, *v.shape)), 0, "tp", None) for v in (own, mine)
    )
    pair.outputs(place(pair.base, x, 1, "argmax", "s32"), read(g, places, 0, place(g, values, 0, "argmax", "s32")))
    return pair
