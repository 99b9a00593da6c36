"""Wrong programs by hand about slots whose experts have a dim for the ranks that they are sent to.

Eight tokens over ep=2, four experts, two on each rank: dims of ranks and of experts are alike.
"""

from __future__ import annotations

from scalify_dl.audit.fuzz.expert_steps import sent, sent_by_rank
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Tensor

from .expert_layer import Layer, pair_of
from .registry import trial


def by_rank(mixed: bool = False, mixed_back: bool = False) -> Layer:
    """`mixed`: the dim of experts is exchanged in place of that of ranks."""
    return Layer(
        exchanged=True,
        send=lambda pair, slots, axis: sent_by_rank(pair, slots, axis, mixed=mixed),
        send_back=lambda pair, slots, axis: sent_by_rank(pair, slots, axis, True, mixed=mixed_back),
    )


@trial
def numbers_of_experts_dealt_for_ranks() -> Pair:
    return pair_of(by_rank(mixed=True))


@trial
def numbers_of_experts_dealt_for_ranks_on_the_way_back() -> Pair:
    return pair_of(by_rank(mixed_back=True))


@trial
def numbers_of_experts_dealt_for_ranks_both_ways() -> Pair:
    return pair_of(by_rank(mixed=True, mixed_back=True))


def in_another_order(pair: Pair, slots: Tensor, axis: str) -> Tensor:
    """[experts, (ranks, slots)] is sent back as [ranks, experts, slots] without its dims turned."""
    g, ways = pair.dist, pair.mesh.axis_size(axis)
    sizes = slots.shape
    slots = g.emit("reshape", [slots], shape=(ways, sizes[0], sizes[1] // ways, *sizes[2:]))
    back = g.emit("all-to-all", [slots], split_dimension=0, concat_dimension=0, groups=pair.groups(axis))
    return g.emit("reshape", [back], shape=(sizes[0] * ways, sizes[1] // ways, *sizes[2:]))


@trial
def experts_read_as_ranks_on_the_way_back() -> Pair:
    return pair_of(Layer(exchanged=True, send=sent_by_rank, send_back=in_another_order))


def with_ranks_last(pair: Pair, slots: Tensor, axis: str) -> Tensor:
    """What came back by rank is put together as [experts of a rank, ranks]."""
    g, ways = pair.dist, pair.mesh.axis_size(axis)
    sizes = slots.shape
    slots = g.emit("reshape", [slots], shape=(sizes[0], ways, sizes[1] // ways, *sizes[2:]))
    back = g.emit("all-to-all", [slots], split_dimension=1, concat_dimension=1, groups=pair.groups(axis))
    return g.emit("reshape", [back], shape=(sizes[0] * ways, sizes[1] // ways, *sizes[2:]))


@trial
def experts_put_together_with_their_ranks_last() -> Pair:
    return pair_of(Layer(exchanged=True, send=sent_by_rank, send_back=with_ranks_last))


@trial
def experts_put_together_with_their_ranks_last_behind_a_plain_exchange() -> Pair:
    return pair_of(Layer(exchanged=True, send=sent, send_back=with_ranks_last))


@trial
def slots_that_never_come_back_by_rank() -> Pair:
    """A second exchange is left out: slots of other ranks' tokens are read."""

    def stays(pair: Pair, slots: Tensor, axis: str) -> Tensor:
        ways, sizes = pair.mesh.axis_size(axis), slots.shape
        return pair.dist.emit("reshape", [slots], shape=(sizes[0] * ways, sizes[1] // ways, *sizes[2:]))

    return pair_of(Layer(exchanged=True, send=sent_by_rank, send_back=stays))
