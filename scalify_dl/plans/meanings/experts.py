"""Mixtures of experts: `moe_gate(scores)` keeps the `k` largest scores of every token and makes them add up to 1;
`moe_experts(x, gates, w1, w2, w3)` adds up what all experts make of a token, each times its gate.

Weights are stacked: `w1`, `w3` [experts, inner, hidden], `w2` [experts, hidden, inner]. How an implementation sorts
tokens to the experts that have a gate is not part of what it computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program

from .call import Call, IllTyped, backward, forward
from .shapes import spread

Tensors = Sequence[Tensor]


def _rows(p: Program, x: Tensor) -> Tensor:
    """The sum along the last dim, for every element of it."""
    last = len(x.shape) - 1
    return p.broadcast(p.reduce(x, last), x.shape, list(range(last)))


def _kept(call: Call, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Which scores are kept, and these, the others 0."""
    p, last, k = call.program, len(scores.shape) - 1, call.integer("k")
    if not 0 < k <= scores.shape[last]:
        raise IllTyped(f"the {k} largest of {scores.shape[last]}")
    values, _ = p.top_k(scores, k)
    least = p.reshape(p.slice(values, last, k - 1, k), scores.shape[:-1])
    chosen = p.compare(scores, p.broadcast(least, scores.shape, list(range(last))), direction="GE")
    return chosen, p.select(chosen, scores, p.full(0, scores.shape, scores.dtype))


@forward("moe_gate")
def gate(call: Call) -> Tensors:
    (scores,) = call.operands
    _, kept = _kept(call, scores)
    return [call.program.divide(kept, _rows(call.program, kept))]


@backward("moe_gate")
def gate_back(call: Call) -> Tensors:
    (gradient, scores), p = call.operands, call.program
    chosen, kept = _kept(call, scores)
    total = _rows(p, kept)
    share = p.divide(kept, total)
    slope = p.divide(p.subtract(gradient, _rows(p, p.multiply(gradient, share))), total)
    return [p.select(chosen, slope, p.full(0, scores.shape, scores.dtype))]


def _inside(call: Call, x: Tensor, gates: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> tuple[Tensor, ...]:
    """Of every token and expert: both inner values, the logistic of the first, and gates as often."""
    experts, inner, hidden = w1.shape
    if w3.shape != w1.shape or w2.shape != (experts, hidden, inner) or gates.shape != (*x.shape[:-1], experts):
        raise IllTyped(
            f"tokens {list(x.shape)} with gates {list(gates.shape)} for experts of {list(w1.shape)},"
            f" {list(w2.shape)}, {list(w3.shape)}"
        )
    p, last = call.program, len(x.shape) - 1
    one, three = (p.dot(x, w, ([last], [2])) for w in (w1, w3))
    wide = p.broadcast(gates, one.shape, list(range(len(gates.shape))))
    return one, three, p.logistic(one), wide


@forward("moe_experts")
def experts(call: Call) -> Tensors:
    p = call.program
    one, three, part, wide = _inside(call, *_five(call, 0))
    made = p.multiply(p.multiply(p.multiply(one, part), three), wide)
    n = len(made.shape)
    return [p.dot(made, call.operands[3], ([n - 2, n - 1], [0, 2]))]


def _five(call: Call, start: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    if len(call.operands) != start + 5:
        raise IllTyped(f"{len(call.operands)} operands")
    x, gates, w1, w2, w3 = call.operands[start:]
    return x, gates, w1, w2, w3


@backward("moe_experts")
def experts_back(call: Call) -> Tensors:
    p, gradient = call.program, call.operands[0]
    x, gates, w1, w2, w3 = _five(call, 1)
    one, three, part, wide = _inside(call, x, gates, w1, w2, w3)
    last = len(x.shape) - 1
    n, tokens = last + 2, list(range(last))
    active = p.multiply(one, part)
    made = p.multiply(active, three)
    asked = p.dot(gradient, w2, ([last], [1]))
    d_gates = p.reduce(p.multiply(asked, made), n - 1)
    d_made = p.multiply(asked, wide)
    d_three = p.multiply(d_made, active)
    slope = p.multiply(part, p.add(p.multiply(one, p.subtract(spread(p, p.constant(1, x.dtype), one.shape), part)), 1))
    d_one = p.multiply(p.multiply(d_made, three), slope)
    back = ([n - 2, n - 1], [0, 1])
    d_x = p.add(p.dot(d_one, w1, back), p.dot(d_three, w3, back))
    d_w1, d_w3 = (p.dot(d, x, (tokens, tokens)) for d in (d_one, d_three))
    d_w2 = p.transpose(p.dot(gradient, p.multiply(made, wide), (tokens, tokens)), 1, 0, 2)
    return [d_x, d_gates, d_w1, d_w2, d_w3]
