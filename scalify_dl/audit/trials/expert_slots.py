"""Wrong programs by hand: something is done with slots, or they are sent or read, so that their order matters.

Eight tokens over ep=2, four experts; ranks count their own four tokens, the baseline all eight.
"""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.fuzz.expert_steps import (
    EXPERTS,
    fill,
    read,
    read_merged,
    routed,
    weigh,
)
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .expert_layer import Layer, in_blocks, pair_of
from .registry import trial


def logarithm(g: Graph, x: Tensor) -> Tensor:
    """-inf where x is below -0.8."""
    more = g.emit("add", [x, g.splat(0.8, "f32", x.shape)])
    return g.emit("log", [g.emit("maximum", [more, g.splat(0.0, "f32", x.shape)])])


@trial
def infinite_rows_in_slots() -> Pair:
    """Zero times infinity for all tokens that are dealt together with an infinite one."""
    return pair_of(Layer(rows=logarithm, inside=lambda g, slots: g.emit("tanh", [slots])))


@trial
def infinite_slots_that_are_read() -> Pair:
    return pair_of(Layer(inside=logarithm))


def weighed_by_tokens(body: Callable[[Graph, Tensor, Tensor], Tensor]) -> Pair:
    """Something is done to each slot with the number that the token of that place has."""
    pair, made = Pair({"ep": 2}), []
    ids = pair.input((8,), {0: "ep"}, dtype="s32", range=(0, EXPERTS))
    pair.dist.inputs[-1].range = (0, EXPERTS)
    x, m = pair.input((8, 2), {0: "ep"}), pair.input((8,), {0: "ep"})
    for side, g in enumerate((pair.base, pair.dist)):
        deal = routed(g, ids[side])
        made.append(read(g, deal, body(g, fill(g, deal, x[side]), m[side])))
    pair.outputs(*made)
    return pair


@trial
def slots_that_are_told_apart() -> Pair:
    return weighed_by_tokens(lambda g, slots, m: g.emit("add", [slots, spread(g, m, slots.shape, [1])]))


@trial
def slots_that_are_contracted_one_by_one() -> Pair:
    def body(g: Graph, slots: Tensor, m: Tensor) -> Tensor:
        by_slot = g.emit(
            "dot", [slots, m], lhs_batch_dims=[1], rhs_batch_dims=[0], lhs_contracting_dims=[], rhs_contracting_dims=[]
        )
        return g.emit("transpose", [by_slot], dimensions=[1, 0, 2])

    return weighed_by_tokens(body)


@trial
def products_of_slots_that_are_not_added_up() -> Pair:
    """Slot by slot: on two ranks they stand elsewhere."""
    pair, made = Pair({"ep": 2}), []
    ids = pair.input((8,), {0: "ep"}, dtype="s32", range=(0, EXPERTS))
    pair.dist.inputs[-1].range = (0, EXPERTS)
    x = pair.input((8, 2), {0: "ep"})
    for side, g in enumerate((pair.base, pair.dist)):
        slots = fill(g, routed(g, ids[side]), x[side])
        made.append(
            g.emit(
                "dot", [slots, slots], lhs_batch_dims=[0, 1], rhs_batch_dims=[0, 1], lhs_contracting_dims=[2],
                rhs_contracting_dims=[2],
            )
        )  # fmt: skip
    pair.outputs(*made)
    return pair


@trial
def experts_that_are_mixed_slot_by_slot() -> Pair:
    """Slot c of an expert has another token than slot c of the next one."""

    def inside(g: Graph, slots: Tensor) -> Tensor:
        mix = g.emit("convert", [g.emit("iota", [], dimension=0, shape=(EXPERTS, EXPERTS), dtype="s32")], dtype="f32")
        return g.emit("dot", [mix, slots], lhs_contracting_dims=[1], rhs_contracting_dims=[0])

    return pair_of(Layer(inside=inside))


@trial
def slots_that_are_read_with_other_places() -> Pair:
    return pair_of(Layer(deal_back=lambda g, ids, other: routed(g, other)))


@trial
def slots_in_another_order_of_experts() -> Pair:
    def inside(g: Graph, slots: Tensor) -> Tensor:
        return g.emit("reverse", [slots], dimensions=[0])

    return pair_of(Layer(inside=inside))


@trial
def slots_that_are_sent_back_to_other_ranks() -> Pair:
    return pair_of(Layer(back="dp", exchanged=True))


@trial
def sums_over_slots_of_two_routers() -> Pair:
    return pair_of(Layer(deal_back=lambda g, ids, other: routed(g, other), summed=True))


@trial
def rows_in_another_order_than_the_tokens() -> Pair:
    """Ids in blocks over ep, rows dealt out one by one."""
    pair = Pair({"ep": 2})
    ids = pair.input((8,), {0: "ep"}, dtype="s32", range=(0, EXPERTS))
    pair.dist.inputs[-1].range = (0, EXPERTS)
    x, dx = pair.input((8, 2))
    turned = pair.dist.emit("reverse", [dx], dimensions=[0])
    rank = pair.dist.emit("convert", [pair.dist.emit("partition-id", [], shape=(), dtype="u32")], dtype="s32")
    start = pair.dist.emit("multiply", [rank, pair.dist.constant(4, "s32")])
    rows = pair.dist.emit("dynamic-slice", [turned, start, pair.dist.constant(0, "s32")], sizes=[4, 2])
    made = []
    for g, numbers, one in ((pair.base, ids[0], x), (pair.dist, ids[1], rows)):
        deal = routed(g, numbers)
        made.append(read(g, deal, g.emit("tanh", [fill(g, deal, one)])))
    pair.outputs(*made)
    return pair


@trial
def ranks_taken_for_experts() -> Pair:
    """What arrives is (rank, expert, slot), and is read as (expert, rank, slot)."""
    return pair_of(in_blocks(mixed=True))


@trial
def ranks_taken_for_experts_both_ways() -> Pair:
    return pair_of(in_blocks(mixed=True, mixed_back=True))


@trial
def experts_taken_for_ranks_on_the_way_back() -> Pair:
    return pair_of(in_blocks(mixed_back=True))


@trial
def slots_of_each_expert_against_experts_of_each_slot() -> Pair:
    """Dispatch has slots and experts in one dim, in that order; the values are in the other order."""
    return pair_of(Layer(read=lambda g, deal, slots: read_merged(g, deal, slots, (2, 1), (1, 2))))


@trial
def slots_that_see_each_other() -> Pair:
    """Every slot is a sum of all slots of its expert, which are those of the rank's own tokens."""

    def inside(g: Graph, slots: Tensor) -> Tensor:
        scores = g.emit(
            "dot", [slots, slots], lhs_batch_dims=[0], rhs_batch_dims=[0], lhs_contracting_dims=[2],
            rhs_contracting_dims=[2],
        )  # fmt: skip
        return weigh(g, scores, slots)

    return pair_of(Layer(inside=inside))


@trial
def slots_of_two_halves() -> Pair:
    """The second half of the slots of each expert counts twice."""

    def inside(g: Graph, slots: Tensor) -> Tensor:
        experts, many, width = slots.shape
        halves = g.emit("reshape", [slots], shape=(experts, 2, many // 2, width))
        weight = g.emit("convert", [g.emit("iota", [], dimension=0, shape=(2,), dtype="s32")], dtype="f32")
        halves = g.emit("multiply", [halves, spread(g, weight, halves.shape, [1])])
        return g.emit("reshape", [halves], shape=slots.shape)

    return pair_of(Layer(inside=inside))
