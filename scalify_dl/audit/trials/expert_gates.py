"""Wrong programs by hand: what is read from slots is weighed by numbers that are not the tokens', or their gradient is.

Eight tokens over ep=2, four experts; ranks count their own four tokens, the baseline all eight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scalify_dl.audit.fuzz.expert_steps import (
    EXPERTS,
    fill,
    gated,
    gradient_of_gates,
    gradient_of_gates_merged,
    read,
    routed,
)
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .expert_slots import logarithm
from .registry import trial

Change = Callable[[Graph, Tensor], Tensor]


def same(g: Graph, x: Tensor) -> Tensor:
    return x


def turned_round(g: Graph, x: Tensor) -> Tensor:
    return g.emit("reverse", [x], dimensions=[0])


def gates(
    gate: Change = same, own_gate: Change = same, own_rows: Change = same, inside: Change = same, along: int = 0,
    gradient: bool = False, gated_in: bool = False, all_at_once: bool = False, merged: Sequence[tuple[int, int]] = (),
) -> Pair:  # fmt: skip
    """`own_…` is what the ranks do beside the baseline; `merged`: experts and slots in one dim, in an order for each
    side."""
    pair, made = Pair({"ep": 2}), []
    ids = pair.input((8,), {0: "ep"}, dtype="s32", range=(0, EXPERTS))
    pair.dist.inputs[-1].range = (0, EXPERTS)
    x, m = pair.input((8, 2), {0: "ep"}), pair.input((8,), {0: "ep"})
    for side, g in enumerate((pair.base, pair.dist)):
        numbers, rows = gate(g, m[side]), x[side]
        if side:
            numbers, rows = own_gate(g, numbers), own_rows(g, rows)
        deal = routed(g, ids[side])
        weighed = gated(g, deal, numbers, along)
        slots = inside(g, fill(g, weighed if gated_in else deal, x[side]))
        if all_at_once:
            products = g.emit("dot", [rows, slots], lhs_contracting_dims=[1], rhs_contracting_dims=[2])
            masked = g.emit("multiply", [products, deal])
            made.append(g.emit("reduce", [masked], dimensions=[0, 1, 2], reducer="sum"))
        elif merged:
            made.append(gradient_of_gates_merged(g, deal, rows, slots, order=merged[side]))
        else:
            made.append(gradient_of_gates(g, deal, rows, slots) if gradient else read(g, weighed, slots))
    pair.outputs(*made)
    return pair


@trial
def gates_of_slots() -> Pair:
    return gates(along=2)


@trial
def gates_of_slots_that_are_filled() -> Pair:
    return gates(along=2, gated_in=True)


@trial
def gates_of_other_tokens() -> Pair:
    return gates(own_gate=turned_round)


@trial
def infinite_gates() -> Pair:
    return gates(gate=logarithm)


@trial
def gradients_of_gates_by_rows_of_other_tokens() -> Pair:
    return gates(own_rows=turned_round, gradient=True)


@trial
def gradients_of_all_gates_of_a_rank_added_up() -> Pair:
    """One number for all tokens of a rank: a part of the baseline's."""
    return gates(all_at_once=True)


@trial
def infinite_slots_in_gradients_of_gates() -> Pair:
    return gates(inside=logarithm, gradient=True)


@trial
def gates_on_one_side() -> Pair:
    return gates(own_gate=lambda g, m: g.splat(1.0, "f32", m.shape))


@trial
def gradients_of_gates_by_rows_of_other_tokens_in_one_dim() -> Pair:
    return gates(own_rows=turned_round, merged=[(0, 1), (1, 0)])


@trial
def infinite_slots_in_gradients_of_gates_in_one_dim() -> Pair:
    return gates(inside=logarithm, merged=[(0, 1), (0, 1)])
