"""A layer of experts to whose slots tokens are dealt: what its wrong programs change.

Eight tokens over ep=2, four experts; ranks count their own four tokens, the baseline all eight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scalify_dl.audit.fuzz.expert_steps import (
    EXPERTS,
    Routing,
    added,
    fill,
    fill_merged,
    read,
    read_merged,
    routed,
    sent,
    sent_in_blocks,
    weigh,
)
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

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


def in_blocks(mixed: bool = False, mixed_back: bool = False, *, reals: bool = False, early: bool = False) -> Layer:
    """As torch has it: blocks of experts are exchanged, experts and slots stand in one dim of products."""
    return Layer(
        with_routing(Routing(written=True, reals=reals, early=early)), fill=fill_merged, read=read_merged,
        exchanged=True,
        send=lambda pair, slots, axis: sent_in_blocks(pair, slots, axis, mixed=mixed),
        send_back=lambda pair, slots, axis: sent_in_blocks(pair, slots, axis, True, mixed=mixed_back),
    )  # fmt: skip


def right(exchanged: bool) -> Pair:
    """The right twin, for tests."""
    return pair_of(Layer(exchanged=exchanged))


def right_by_table(table: str) -> Pair:
    """The right twin with places in a table on the ranks, for tests; the baseline, with more tokens, sums them up."""

    def deal(g: Graph, ids: Tensor, other: Tensor) -> Tensor:
        return routed(g, ids, Routing(table=table) if ids.shape[0] < 8 else Routing())

    return pair_of(Layer(deal, exchanged=True))


def right_in_blocks(*, reals: bool = False, early: bool = False) -> Pair:
    """The right twin as torch has it, for tests."""
    return pair_of(in_blocks(reals=reals, early=early))


def right_sum() -> Pair:
    """The sum over slots of one router, for tests."""
    return pair_of(Layer(summed=True))
