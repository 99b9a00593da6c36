"""Wrong programs by hand about ranges of positions, and of sums with them."""

from __future__ import annotations

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .counted import count, over_the_count
from .registry import trial


def positions(g: Graph, size: int) -> Tensor:
    return g.emit("iota", [], shape=(size,), dtype="s8", dimension=0)


def plus(g: Graph, x: Tensor, number: int) -> Tensor:
    return g.emit("add", [x, g.splat(number, "s8", x.shape)])


@trial
def positions_that_their_type_does_not_hold() -> Pair:
    """The last two of 130 are below zero."""
    pair = Pair({"tp": 2})
    over_the_count(pair, 130, count(pair.dist, positions(pair.dist, 130), 0, "GE", "f32"))
    return pair


@trial
def sums_beyond_the_greatest_number() -> Pair:
    """126, 127, -128, -127."""
    pair = Pair({"tp": 2})
    over_the_count(pair, 4, count(pair.dist, plus(pair.dist, positions(pair.dist, 4), 126), 0, "GE", "f32"))
    return pair


@trial
def sums_beyond_the_least_number() -> Pair:
    """-128 and another -128 are 0."""
    pair = Pair({"tp": 2})
    twice = plus(pair.dist, plus(pair.dist, positions(pair.dist, 4), -128), -128)
    over_the_count(pair, 4, count(pair.dist, twice, 0, "LT", "f32"))
    return pair


@trial
def positions_from_a_number_that_one_rank_does_not_hold() -> Pair:
    """From 0, from 100, and from -56, where 200 does not fit."""
    pair = Pair({"tp": 3})
    g = pair.dist
    rank = g.emit("convert", [g.emit("partition-id", [], shape=(), dtype="u32")], dtype="s8")
    start = g.emit("multiply", [rank, g.constant(100, "s8")])
    places = g.emit("add", [positions(g, 4), g.emit("broadcast", [start], shape=(4,), dimensions=[])])
    found = g.emit("all-reduce", [count(g, places, 0, "GE", "f32")], reducer="sum", groups=pair.groups("tp"))
    over_the_count(pair, 12, found)
    return pair
