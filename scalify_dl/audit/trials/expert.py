"""Wrong programs by hand about tokens that are dealt to slots of experts.

Eight tokens over ep=2, four experts; ranks count their own four tokens, the baseline all eight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scalify_dl.audit.fuzz.expert_steps import (
    EXPERTS,
    Routing,
    added,
    dispatch,
    fill,
    fill_merged,
    one_hot,
    places,
    read,
    read_merged,
    routed,
    sent,
    sent_in_blocks,
    weigh,
    written_one_hot,
    written_places,
)
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .registry import trial

Deal = Callable[[Graph, Tensor, Tensor], Tensor]
"""What deals tokens with these numbers of experts, and other such numbers."""
Rows = Callable[[Graph, Tensor], Tensor]
Sends = Callable[[Pair, Tensor, str], Tensor]
Reads = Callable[[Graph, Tensor, Tensor], Tensor]


@dataclass
class Layer:
    """A mixture of experts. `deal` is how tokens get slots, `rows` what is dealt, `inside` what is done with slots,
    `deal_back` (None: the same) how they are read."""

    deal: Deal = lambda g, ids, other: routed(g, ids)
    rows: Rows = lambda g, x: x
    inside: Rows = lambda g, slots: g.emit("tanh", [slots])
    deal_back: Deal | None = None
    back: str = "ep"
    """The axis that slots are sent back over."""
    send: Sends = sent
    send_back: Sends = lambda pair, slots, axis: sent(pair, slots, axis, True)
    fill: Reads = fill
    read: Reads = read
    exchanged: bool = False
    summed: bool = False
    """Slots are multiplied by those of `deal_back`, and added up."""


def pair_of(layer: Layer, experts: int = EXPERTS) -> Pair:
    pair = Pair({"ep": 2, "dp": 2} if layer.exchanged else {"ep": 2})
    over = {0: ("ep", "dp")} if layer.exchanged else {0: "ep"}
    inputs = [pair.input((8,), over, dtype="s32", range=(0, experts)) for _ in range(2)]
    for port in pair.dist.inputs[-2:]:
        port.range = (0, experts)
    x, w = pair.input((8, 2), over), pair.input((EXPERTS, 2, 2), {0: "ep"} if layer.exchanged else {})
    made = []
    for side, g in enumerate((pair.base, pair.dist)):
        moves = layer.exchanged and g is pair.dist
        ids, other = inputs[0][side], inputs[1][side]
        deal = layer.deal(g, ids, other)
        into = layer.fill(g, deal, layer.rows(g, x[side]))
        there = weigh(g, layer.send(pair, into, "ep") if moves else into, w[side])
        deal_back = layer.deal_back(g, ids, other) if layer.deal_back else deal
        if layer.summed:
            made.append(added(g, there, fill(g, deal_back, x[side])))
            continue
        slots = layer.inside(g, there)
        slots = layer.send_back(pair, slots, layer.back) if moves else slots
        made.append(layer.read(g, deal_back, slots))
    if layer.summed:
        made[1] = pair.dist.emit("all-reduce", [made[1]], reducer="sum", groups=pair.groups("ep"))
    pair.outputs(*made)
    return pair


def with_routing(routing: Routing) -> Deal:
    return lambda g, ids, other: routed(g, ids, routing)


@trial
def tokens_of_several_experts_share_slots() -> Pair:
    """Token t goes to all experts from its own on, to slots by the sum of its places."""
    return pair_of(Layer(with_routing(Routing(way="LE"))))


@trial
def a_last_token_without_a_slot() -> Pair:
    """Counted from 1, the last of eight tokens for one expert is in slot 8 of 0 … 7."""
    return pair_of(Layer(with_routing(Routing(less=0.0))), experts=1)


@trial
def tokens_before_the_first_slot() -> Pair:
    return pair_of(Layer(with_routing(Routing(less=2.0))))


@trial
def fewer_slots_than_tokens() -> Pair:
    """Of tokens for one expert only the first half has slots."""

    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        chosen = one_hot(g, ids, EXPERTS)
        return dispatch(g, chosen, places(g, chosen, Routing()), -(ids.shape[0] // 2))

    return pair_of(Layer(deal), experts=2)


@trial
def a_running_maximum_is_no_place() -> Pair:
    return pair_of(Layer(with_routing(Routing(reducer="max"))))


@trial
def tokens_counted_along_experts() -> Pair:
    return pair_of(Layer(with_routing(Routing(along=1))))


@trial
def places_in_the_queues_of_other_experts() -> Pair:
    """Slots by the numbers that another router gave."""

    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        return dispatch(g, one_hot(g, ids, EXPERTS), places(g, one_hot(g, other, EXPERTS), Routing()))

    return pair_of(Layer(deal))


@trial
def places_of_which_another_router_picks() -> Pair:
    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        chosen = one_hot(g, ids, EXPERTS)
        return dispatch(g, chosen, places(g, chosen, Routing(), one_hot(g, other, EXPERTS)))

    return pair_of(Layer(deal))


@trial
def places_less_what_another_router_chose() -> Pair:
    """Right where both routers send the token to the same expert, else one too many."""

    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        chosen = one_hot(g, ids, EXPERTS)
        counted = g.emit("cumulative", [chosen], dimension=0, reducer="sum")
        own = g.emit("multiply", [g.emit("subtract", [counted, one_hot(g, other, EXPERTS)]), chosen])
        place = g.emit("reduce", [own], dimensions=[1], reducer="sum")
        return dispatch(g, chosen, g.emit("convert", [place], dtype="s32"))

    return pair_of(Layer(deal))


def places_in(dtype: str) -> Deal:
    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        chosen = one_hot(g, ids, EXPERTS)
        place = g.emit("convert", [places(g, chosen, Routing())], dtype=dtype)
        return dispatch(g, chosen, g.emit("convert", [place], dtype="s32"))

    return deal


@trial
def places_as_truths() -> Pair:
    """All tokens of an expert but the first share slot 1."""
    return pair_of(Layer(places_in("pred")), experts=2)


@trial
def places_of_two_bits() -> Pair:
    """The fifth token of an expert shares slot 0 with the first."""
    return pair_of(Layer(places_in("u2")), experts=1)


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
def numbers_of_experts_that_wrap_round() -> Pair:
    """Experts 0 and 256 have one number of eight bits, and tokens every other place."""
    pair, made = Pair({"ep": 2}), []
    ids = pair.input((8,), {0: "ep"}, dtype="s8", range=(0, 1))
    pair.dist.inputs[-1].range = (0, 1)
    x = pair.input((8, 2), {0: "ep"})
    for side, g in enumerate((pair.base, pair.dist)):
        chosen = one_hot(g, ids[side], 257)
        deal = dispatch(g, chosen, places(g, chosen, Routing()))
        made.append(read(g, deal, fill(g, deal, x[side])))
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


def in_blocks(mixed: bool = False, mixed_back: bool = False) -> Layer:
    """As torch has it: blocks of experts are exchanged, experts and slots stand in one dim of products."""
    return Layer(
        with_routing(Routing(written=True)), fill=fill_merged, read=read_merged, exchanged=True,
        send=lambda pair, slots, axis: sent_in_blocks(pair, slots, axis, mixed=mixed),
        send_back=lambda pair, slots, axis: sent_in_blocks(pair, slots, axis, True, mixed=mixed_back),
    )  # fmt: skip


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


def written(chosen: Callable[[Graph, Tensor, Tensor], Tensor], slots: Callable[[Graph, Tensor], Tensor]) -> Deal:
    """Ones written into zeros: who is chosen, and which slots their places give."""

    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        experts = chosen(g, ids, other)
        flags = slots(g, written_places(g, experts, Routing()))
        shape = (*experts.shape, flags.shape[1])
        dealt = g.emit("multiply", [spread(g, experts, shape, [0, 1]), spread(g, flags, shape, [0, 2])])
        return g.emit("convert", [dealt], dtype="f32")

    return deal


def two_columns(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
    columns = [g.emit("reshape", [one], shape=(one.shape[0], 1)) for one in (ids, other)]
    return g.emit("concatenate", columns, dimension=1)


@trial
def ones_written_for_two_experts() -> Pair:
    """A token goes to two experts, to the slot of the sum of its places."""
    return pair_of(Layer(written(
        lambda g, ids, other: written_one_hot(g, two_columns(g, ids, other), EXPERTS),
        lambda g, place: written_one_hot(g, place, place.shape[0]),
    )))  # fmt: skip


@trial
def ones_written_where_there_are_ones() -> Pair:
    """Every token goes to expert 0, too."""

    def chosen(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        first = written_one_hot(g, g.splat(0, "s32", (ids.shape[0], 1)), EXPERTS)
        column = g.emit("reshape", [ids], shape=(ids.shape[0], 1))
        return g.emit(
            "scatter", [first, column, g.splat(1, "s64", column.shape)], inserted_window_dims=[1],
            scatter_dims_to_operand_dims=[1], input_batching_dims=[0], scatter_indices_batching_dims=[0],
            index_vector_dim=2, reducer="replace",
        )  # fmt: skip

    return pair_of(Layer(written(chosen, lambda g, place: written_one_hot(g, place, place.shape[0]))))


@trial
def twos_written_into_zeros() -> Pair:
    """Every count is twice as large, and slots beyond the last are none."""

    def chosen(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        column = g.emit("reshape", [ids], shape=(ids.shape[0], 1))
        return g.emit(
            "scatter", [g.splat(0, "s64", (ids.shape[0], EXPERTS)), column, g.splat(2, "s64", column.shape)],
            inserted_window_dims=[1], scatter_dims_to_operand_dims=[1], input_batching_dims=[0],
            scatter_indices_batching_dims=[0], index_vector_dim=2, reducer="replace",
        )  # fmt: skip

    return pair_of(Layer(written(chosen, lambda g, place: written_one_hot(g, place, place.shape[0]))))


@trial
def places_that_are_less_one_twice() -> Pair:
    """The first token of each expert has no slot."""

    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        chosen = one_hot(g, ids, EXPERTS)
        place = places(g, chosen, Routing())
        return dispatch(g, chosen, g.emit("subtract", [place, g.splat(1, "s32", place.shape)]))

    return pair_of(Layer(deal))


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


def right(exchanged: bool) -> Pair:
    """The right twin, for tests."""
    return pair_of(Layer(exchanged=exchanged))


def right_in_blocks() -> Pair:
    """The right twin as torch has it, for tests."""
    return pair_of(in_blocks())


def right_sum() -> Pair:
    """The sum over slots of one router, for tests."""
    return pair_of(Layer(summed=True))
