"""Wrong programs by hand: tokens get other experts, or other places in their queues, than they should.

Eight tokens over ep=2, four experts; ranks count their own four tokens, the baseline all eight.
"""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.fuzz.expert_steps import (
    EXPERTS,
    Routing,
    dispatch,
    dispatch_by_table,
    fill,
    one_hot,
    places,
    read,
    written_one_hot,
    written_places,
)
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .expert_layer import Deal, Layer, pair_of, with_routing
from .registry import trial


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
def tokens_in_the_queues_of_all_experts() -> Pair:
    """A table of places alone, counted for every expert: a token has a slot wherever somebody came before."""
    return pair_of(Layer(_flags_alone("all")))


@trial
def tokens_in_the_first_slot_of_other_experts() -> Pair:
    """Where a token does not go, the table has 0: that is a slot."""
    return pair_of(Layer(_flags_alone("own")))


@trial
def places_of_a_table_less_two() -> Pair:
    return pair_of(Layer(with_routing(Routing(table="none", less=2.0))))


def _flags_alone(table: str) -> Deal:
    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        dispatch_by_table(g, one_hot(g, ids, EXPERTS), Routing(table=table))
        multiply = g.ops[-1]
        return multiply.operands[1]

    return deal
