"""Random steps around mixtures of experts: tokens that are dealt to slots by a running count, sent to the ranks of
their experts and back, read again; sums over slots, as gradients have them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import Pair, spread
from .world import World, step

EXPERTS = 4


@dataclass(frozen=True)
class Routing:
    """How tokens get their slots; anything else than this is wrong, or may be."""

    written: bool = False
    """Integers, as torch has them: ones written into zeros, counts less one at the end."""
    reals: bool = False
    """Such ones become reals before they are multiplied."""
    early: bool = False
    """Those of who is chosen become reals before they are counted."""
    way: str = "EQ"
    less: float = 1.0
    reducer: str = "sum"
    along: int = 0
    backwards: bool = False
    slots: int = 0
    """More slots than tokens."""
    counted: str = "s32"
    """The type of places, as slots are compared with them."""
    itself: str = ""
    """Where what a token counts of itself is taken off: `before` it is chosen, or `after`; else the number `less`."""
    table: str = ""
    """Places stay a table of tokens and experts: counted for every expert (`all`), or where a token goes alone, with 0
    elsewhere (`own`), or with -1 there and nothing else said of who is chosen (`none`)."""


def one_hot(g: Graph, ids: Tensor, many: int, way: str = "EQ") -> Tensor:
    """1 where the index along dim 1 is the id, as f32."""
    shape = (ids.shape[0], many)
    index = g.emit("iota", [], dimension=1, shape=shape, dtype=ids.dtype)
    flags = g.emit("compare", [spread(g, ids, shape, [0]), index], direction=way, dtype="pred")
    return g.emit("convert", [flags], dtype="f32")


def written_one_hot(g: Graph, ids: Tensor, many: int, reducer: str = "replace", column: int = 0) -> Tensor:
    """The same as integers: a one written into each row of zeros."""
    ids = ids if len(ids.shape) == 2 else g.emit("reshape", [ids], shape=(ids.shape[0], 1))
    return g.emit(
        "scatter",
        [g.splat(0, "s64", (ids.shape[0], many)), ids, g.splat(1, "s64", ids.shape)],
        inserted_window_dims=[1 - column], scatter_dims_to_operand_dims=[1 - column], input_batching_dims=[column],
        scatter_indices_batching_dims=[0], index_vector_dim=2, reducer=reducer,
    )  # fmt: skip


def written_places(g: Graph, chosen: Tensor, routing: Routing) -> Tensor:
    """The same, less one at the end."""
    counted = g.emit("cumulative", [chosen], dimension=routing.along, reducer=routing.reducer)
    own = g.emit("reduce", [g.emit("multiply", [counted, chosen])], dimensions=[1], reducer="sum")
    if routing.early:
        own = g.emit("convert", [own], dtype="s64")
    return g.emit("subtract", [own, g.splat(int(routing.less), "s64", own.shape)])


def places(g: Graph, chosen: Tensor, routing: Routing, mine: Tensor | None = None) -> Tensor:
    """How many tokens before are for the same expert."""
    if routing.backwards:
        counted = g.emit("cumulative", [chosen], dimension=routing.along, reducer=routing.reducer, reverse=1)
    else:
        counted = g.emit("cumulative", [chosen], dimension=routing.along, reducer=routing.reducer)
    chooses = mine if mine is not None else chosen
    if routing.itself == "after":
        own = g.emit("subtract", [g.emit("multiply", [counted, chooses]), chosen])
    else:
        off = chosen if routing.itself else g.splat(routing.less, "f32", chosen.shape)
        own = g.emit("multiply", [g.emit("subtract", [counted, off]), chooses])
    return g.emit("convert", [g.emit("reduce", [own], dimensions=[1], reducer="sum")], dtype=routing.counted)


def dispatch(g: Graph, chosen: Tensor, place: Tensor, slots: int = 0) -> Tensor:
    """dispatch[t,e,c] of tokens, experts and slots."""
    tokens, experts = chosen.shape
    shape = (tokens, experts, tokens + slots)
    flags = one_hot(g, place, tokens + slots)
    return g.emit("multiply", [spread(g, chosen, shape, [0, 1]), spread(g, flags, shape, [0, 2])])


def dispatch_by_table(g: Graph, chosen: Tensor, routing: Routing) -> Tensor:
    """dispatch[t,e,c] from places[t,e]."""
    counted = g.emit("cumulative", [chosen], dimension=routing.along, reducer=routing.reducer)
    one = g.splat(routing.less, "f32", chosen.shape)
    if routing.table == "none":
        table = g.emit("subtract", [g.emit("multiply", [counted, chosen]), one])
    else:
        table = g.emit("subtract", [counted, one])
        table = g.emit("multiply", [table, chosen]) if routing.table == "own" else table
    places = g.emit("convert", [table], dtype="s32")
    shape = (*chosen.shape, chosen.shape[0] + routing.slots)
    index = g.emit("iota", [], dimension=2, shape=shape, dtype="s32")
    flags = g.emit("compare", [spread(g, places, shape, [0, 1]), index], direction="EQ", dtype="pred")
    flags = g.emit("convert", [flags], dtype="f32")
    return flags if routing.table == "none" else g.emit("multiply", [spread(g, chosen, shape, [0, 1]), flags])


def routed(g: Graph, ids: Tensor, routing: Routing = Routing()) -> Tensor:
    """What deals tokens with these numbers of experts."""
    if routing.written:
        chosen = written_one_hot(g, ids, EXPERTS)
        if routing.early:
            chosen = g.emit("convert", [chosen], dtype="f32")
        flags = written_one_hot(g, written_places(g, chosen, routing), ids.shape[0] + routing.slots)
        if routing.early:
            flags = g.emit("convert", [flags], dtype="f32")
        elif routing.reals:
            chosen, flags = (g.emit("convert", [ones], dtype="f32") for ones in (chosen, flags))
        shape = (ids.shape[0], EXPERTS, flags.shape[1])
        dealt = g.emit("multiply", [spread(g, chosen, shape, [0, 1]), spread(g, flags, shape, [0, 2])])
        return dealt if routing.reals or routing.early else g.emit("convert", [dealt], dtype="f32")
    chosen = one_hot(g, ids, EXPERTS, routing.way)
    if routing.table:
        return dispatch_by_table(g, chosen, routing)
    return dispatch(g, chosen, places(g, chosen, routing), routing.slots)


def fill(g: Graph, dispatched: Tensor, rows: Tensor) -> Tensor:
    """Rows of tokens in slots."""
    return g.emit("dot", [dispatched, rows], lhs_contracting_dims=[0], rhs_contracting_dims=[0])


def fill_last(g: Graph, dispatched: Tensor, rows: Tensor) -> Tensor:
    """The same, as gradients have it: places of a row first, then turned."""
    slots = g.emit("dot", [rows, dispatched], lhs_contracting_dims=[0], rhs_contracting_dims=[0])
    return g.emit("transpose", [slots], dimensions=[1, 2, 0])


def fill_merged(g: Graph, dispatched: Tensor, rows: Tensor, order: tuple[int, int] = (1, 2)) -> Tensor:
    """The same as torch's einsum: experts and slots in one dim, in that order."""
    tokens, width = rows.shape
    sizes = [dispatched.shape[dim] for dim in order]
    turned = g.emit("transpose", [dispatched], dimensions=[*order, 0])
    flat = g.emit("reshape", [turned], shape=(1, sizes[0] * sizes[1], tokens))
    slots = g.emit(
        "dot", [flat, g.emit("reshape", [rows], shape=(1, tokens, width))], lhs_batch_dims=[0], rhs_batch_dims=[0],
        lhs_contracting_dims=[2], rhs_contracting_dims=[1],
    )  # fmt: skip
    slots = g.emit("reshape", [slots], shape=(*sizes, width))
    return slots if order == (1, 2) else g.emit("transpose", [slots], dimensions=[1, 0, 2])


def gated(g: Graph, dispatched: Tensor, gates: Tensor, dim: int) -> Tensor:
    """Dispatch times a number for each token; or, along another dim, for each slot."""
    return g.emit("multiply", [dispatched, spread(g, gates, dispatched.shape, [dim])])


def gradient_of_gates(g: Graph, dispatched: Tensor, rows: Tensor, slots: Tensor, odd: bool = False) -> Tensor:
    """For each token the sum of its row times what is read for it; `odd`: for each slot."""
    products = g.emit("dot", [rows, slots], lhs_contracting_dims=[1], rhs_contracting_dims=[2])
    masked = g.emit("multiply", [products, dispatched])
    return g.emit("reduce", [masked], dimensions=[0, 1] if odd else [1, 2], reducer="sum")


def gradient_of_gates_merged(
    g: Graph, dispatched: Tensor, rows: Tensor, slots: Tensor, odd: bool = False, order: tuple[int, int] = (0, 1)
) -> Tensor:
    """The same as torch's einsum: experts and slots in one dim; `order` of slots and experts there."""
    (tokens, width), sizes = rows.shape, [slots.shape[dim] for dim in order]
    flat = g.emit("transpose", [slots], dimensions=[2, *order])
    flat = g.emit("reshape", [flat], shape=(1, width, sizes[0] * sizes[1]))
    products = g.emit(
        "dot", [g.emit("reshape", [rows], shape=(1, tokens, width)), flat], lhs_batch_dims=[0], rhs_batch_dims=[0],
        lhs_contracting_dims=[2], rhs_contracting_dims=[1],
    )  # fmt: skip
    products = g.emit("reshape", [products], shape=(tokens, *sizes))
    if order == (1, 0):
        products = g.emit("transpose", [products], dimensions=[0, 2, 1])
    masked = g.emit("multiply", [products, dispatched])
    return g.emit("reduce", [masked], dimensions=[0, 1] if odd else [1, 2], reducer="sum")


def weigh(g: Graph, slots: Tensor, weight: Tensor) -> Tensor:
    """slots[e,c,d] times weight[e,d,h]."""
    return g.emit(
        "dot", [slots, weight], lhs_batch_dims=[0], rhs_batch_dims=[0], lhs_contracting_dims=[2],
        rhs_contracting_dims=[1],
    )  # fmt: skip


def read(g: Graph, dispatched: Tensor, slots: Tensor) -> Tensor:
    """Rows of tokens out of slots."""
    return g.emit("dot", [dispatched, slots], lhs_contracting_dims=[2, 1], rhs_contracting_dims=[1, 0])


def read_merged(
    g: Graph, dispatched: Tensor, slots: Tensor, order: tuple[int, int] = (2, 1), found: tuple[int, int] | None = None
) -> Tensor:
    """The same as torch's einsum: slots and experts in one dim, in that order; `found`: in the slots' values."""
    tokens, width = dispatched.shape[0], slots.shape[2]
    turned = g.emit("transpose", [dispatched], dimensions=[0, *order])
    flat = g.emit("reshape", [turned], shape=(1, tokens, dispatched.shape[1] * dispatched.shape[2]))
    there = g.emit("transpose", [slots], dimensions=[dim - 1 for dim in found or order] + [2])
    there = g.emit("reshape", [there], shape=(1, flat.shape[2], width))
    read = g.emit(
        "dot", [flat, there], lhs_batch_dims=[0], rhs_batch_dims=[0], lhs_contracting_dims=[2],
        rhs_contracting_dims=[1],
    )  # fmt: skip
    return g.emit("reshape", [read], shape=(tokens, width))


def added(g: Graph, left: Tensor, right: Tensor) -> Tensor:
    """The sum over slots of products, as gradients of weights are."""
    return g.emit(
        "dot", [left, right], lhs_batch_dims=[0], rhs_batch_dims=[0], lhs_contracting_dims=[1],
        rhs_contracting_dims=[1],
    )  # fmt: skip


def sent(pair: Pair, slots: Tensor, axis: str, back: bool = False) -> Tensor:
    """To the ranks of the experts, or back."""
    split, concat = (1, 0) if back else (0, 1)
    return pair.dist.emit(
        "all-to-all", [slots], split_dimension=split, concat_dimension=concat, groups=pair.groups(axis)
    )


def sent_in_blocks(pair: Pair, slots: Tensor, axis: str, back: bool = False, mixed: bool = False) -> Tensor:
    """The same as torch has it: blocks of experts are exchanged, and turned where they are. `mixed`: they are not."""
    g, ways = pair.dist, pair.mesh.axis_size(axis)
    sizes, groups = slots.shape, pair.groups(axis)
    if not back:
        slots = g.emit("all-to-all", [slots], split_dimension=0, concat_dimension=0, groups=groups)
        local, many = sizes[0] // ways, sizes[1] * ways
        if mixed:
            return g.emit("reshape", [slots], shape=(local, many, *sizes[2:]))
        slots = g.emit("reshape", [slots], shape=(ways, local, *sizes[1:]))
        slots = g.emit("transpose", [slots], dimensions=[1, 0, *range(2, len(slots.shape))])
        return g.emit("reshape", [slots], shape=(local, many, *sizes[2:]))
    if mixed:
        slots = g.emit("reshape", [slots], shape=(sizes[0] * ways, sizes[1] // ways, *sizes[2:]))
    else:
        slots = g.emit("reshape", [slots], shape=(sizes[0], ways, sizes[1] // ways, *sizes[2:]))
        slots = g.emit("transpose", [slots], dimensions=[1, 0, *range(2, len(slots.shape))])
        slots = g.emit("reshape", [slots], shape=(sizes[0] * ways, sizes[1] // ways, *sizes[2:]))
    return g.emit("all-to-all", [slots], split_dimension=0, concat_dimension=0, groups=groups)


def sent_by_rank(pair: Pair, slots: Tensor, axis: str, back: bool = False, mixed: bool = False) -> Tensor:
    """The same with a dim for the ranks that experts are sent to. `mixed`: that dim is taken for one of experts."""
    g, ways = pair.dist, pair.mesh.axis_size(axis)
    sizes, groups, along = slots.shape, pair.groups(axis), int(mixed)
    if back:
        slots = g.emit("reshape", [slots], shape=(sizes[0], ways, sizes[1] // ways, *sizes[2:]))
        slots = g.emit("transpose", [slots], dimensions=[1, 0, *range(2, len(slots.shape))])
    else:
        slots = g.emit("reshape", [slots], shape=(ways, sizes[0] // ways, *sizes[1:]))
    slots = g.emit("all-to-all", [slots], split_dimension=along, concat_dimension=along, groups=groups)
    if back:
        return g.emit("reshape", [slots], shape=(sizes[0] * ways, sizes[1] // ways, *sizes[2:]))
    slots = g.emit("transpose", [slots], dimensions=[1, 0, *range(2, len(slots.shape))])
    return g.emit("reshape", [slots], shape=(sizes[0] // ways, sizes[1] * ways, *sizes[2:]))


@step("experts", 0.4)
def experts(w: World) -> None:
    """Tokens over an axis, or on every rank; experts over it, or not; now and then another count, or more slots."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    over = {0: axis} if w.chance(0.8) else {}
    tokens = ways * w.rng.choice([1, 2, 3])
    layout = w.pair.layout([tokens], over)
    ids = w.pair.input((tokens,), dtype="s32", range=(0, EXPERTS), layout=layout)
    w.dist.inputs[-1].range = (0, EXPERTS)
    x = w.input("f32", shape=[tokens, 2], layout=w.pair.layout([tokens, 2], over))
    exchanged = bool(over) and EXPERTS % ways == 0 and w.chance(0.7)
    weight = w.input(
        "f32", shape=[EXPERTS, 2, 2], layout=w.pair.layout([EXPERTS, 2, 2], {0: axis} if exchanged else {})
    )
    routing = Routing(less=w.rng.choice([1.0, 1.0, 1.0, 0.0]), slots=w.rng.choice([0, 0, 0, 1]),
                      backwards=w.chance(0.1), written=w.chance(0.4),
                      itself=w.rng.choice(["", "", "before", "after"]),
                      table=w.rng.choice(["", "", "all", "own", "none"]))  # fmt: skip
    found, turned, odd = [], w.chance(0.3), w.slip()
    gates = w.input("f32", shape=[tokens], layout=layout) if w.chance(0.4) else None
    along, gated_in = 2 if w.chance(0.2) and not routing.slots else 0, w.chance(0.5)
    other = w.chance(0.2)
    routing = replace(routing, reals=turned, early=w.chance(0.4), counted="f32" if turned else "s32")
    slope = w.rng.choice([gradient_of_gates, gradient_of_gates_merged])
    filling, reading = w.rng.choice([fill, fill_last, fill_merged]), w.rng.choice([read, read_merged])
    sending = w.rng.choice([sent, sent_in_blocks, sent_by_rank])
    for g, numbers, rows, one in ((w.base, ids[0], x.base, weight.base), (w.dist, ids[1], x.dist, weight.dist)):
        moves = exchanged and g is w.dist
        deal = routed(g, numbers, routing)
        weighed = deal
        if gates is not None:
            weighed = gated(g, deal, gates.base if g is w.base else gates.dist, along)
        into = filling(g, weighed if gated_in else deal, rows)
        there = sending(w.pair, into, axis) if moves else into
        hidden = w.emit(g, "tanh", [weigh(g, there, one)])
        if turned:
            hidden = w.emit(g, "transpose", [hidden], dimensions=[1, 0, 2])
            hidden = w.emit(g, "transpose", [hidden], dimensions=[1, 0, 2])
        if odd:  # slots are told apart
            hidden = w.emit(g, "add", [hidden, w.emit(g, "convert", [
                g.emit("iota", [], dimension=1, shape=hidden.shape, dtype="s32")], dtype="f32")])  # fmt: skip
        back = sending(w.pair, hidden, axis, True) if moves else hidden
        values = [reading(g, weighed, back), added(g, there, hidden)]
        if gates is not None:
            values.append(slope(g, deal, rows, back, other))
        found.append(values)
    for base, dist in zip(*found, strict=True):
        w.add(base, dist)
