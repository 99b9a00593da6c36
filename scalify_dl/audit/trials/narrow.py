"""Wrong programs by hand about casts to types that lack infinities, or all that is not above 0: those are NaN there."""

from __future__ import annotations

from scalify_dl.audit.fuzz.block_order_steps import Search, least_place
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .infinite import all_reduced, reduced
from .padded import padded
from .registry import trial
from .row_orders import placed


def cast(g: Graph, x: Tensor, dtype: str) -> Tensor:
    """To that type, and back."""
    return g.emit("convert", [g.emit("convert", [x], dtype=dtype)], dtype="f32")


def large(g: Graph, x: Tensor) -> Tensor:
    """What is large, else minus infinity."""
    kept = g.emit("compare", [x, g.splat(0.25, x.dtype, x.shape)], direction="GT")
    return g.emit("select", [kept, x, g.splat(float("-inf"), x.dtype, x.shape)])


def reduced_cast(reducer: str, dtype: str = "f32") -> Pair:
    """Parts of a reduction, some of which are not above 0, cast before they are reduced."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), dtype=dtype, pending={"tp": reducer})
    pair.outputs(cast(pair.base, x, "f8e8m0fnu"), all_reduced(pair, cast(pair.dist, dx, "f8e8m0fnu"), reducer))
    return pair


@trial
def the_greatest_of_what_has_no_sign() -> Pair:
    return reduced_cast("max")


@trial
def the_greatest_of_integers_that_have_no_sign() -> Pair:
    return reduced_cast("max", "s32")


@trial
def a_sum_of_what_has_no_sign() -> Pair:
    return reduced_cast("sum")


@trial
def the_greatest_of_blocks_of_which_one_is_infinite() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), {0: "tp"})
    found = [reduced(g, large(g, v), [0], "max") for g, v in ((pair.base, x), (pair.dist, dx))]
    pair.outputs(cast(pair.base, found[0], "f8e4m3fn"), all_reduced(pair, cast(pair.dist, found[1], "f8e4m3fn"), "max"))
    return pair


@trial
def a_place_among_infinities_that_are_no_numbers() -> Pair:
    return placed(least_place, Search(), dtype="f32", made=lambda g, x: cast(g, large(g, x), "f8e4m3fn"))


@trial
def a_place_among_numbers_without_a_sign() -> Pair:
    return placed(least_place, Search(), dtype="f32", made=lambda g, x: cast(g, x, "f8e8m0fnu"))


@trial
def a_place_among_zeros_where_there_are_none() -> Pair:
    def made(g: Graph, x: Tensor) -> Tensor:
        return cast(g, g.emit("maximum", [x, g.splat(0.0, "f32", x.shape)]), "f8e8m0fnu")

    return placed(least_place, Search(), dtype="f32", made=made)


@trial
def padding_of_zeros_where_there_are_none() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((5,))
    found = padded(pair.dist, pair.dist.emit("exponential", [dx]), 0, 8, 0.0)
    sums = [
        reduced(g, cast(g, v, "f8e8m0fnu"), [0])
        for g, v in ((pair.base, pair.base.emit("exponential", [x])), (pair.dist, found))
    ]
    pair.outputs(*sums)
    return pair


@trial
def flags_of_zero_where_there_is_none() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((5,), dtype="f8e8m0fnu")
    long, g = padded(pair.dist, dx, 0, 8, 2.0), pair.dist
    place = g.emit("iota", [], dimension=0, shape=long.shape, dtype="s32")
    kept = g.emit("compare", [place, g.splat(5, "s32", long.shape)], direction="LT")
    flags = g.emit("convert", [kept], dtype=x.dtype)
    pair.outputs(reduced(pair.base, x, [0]), reduced(g, g.emit("multiply", [long, flags]), [0]))
    return pair
