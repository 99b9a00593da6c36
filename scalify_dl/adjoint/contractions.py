"""Contractions: each factor's gradient is that of the result, contracted with the other factor."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.ir.recorder import Attribute

from .derive import Gradient, vjp


@vjp("dot")
def dot(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Contracted over the free dims of the other factor."""
    (g,) = gradients
    assert g is not None
    lhs, rhs = op.operands
    batch = op.numbers.get("lhs_batch_dims", []), op.numbers.get("rhs_batch_dims", [])
    gone = op.numbers.get("lhs_contracting_dims", []), op.numbers.get("rhs_contracting_dims", [])
    free = [
        [d for d in range(len(x.shape)) if d not in batch[n] and d not in gone[n]] for n, x in enumerate((lhs, rhs))
    ]
    at = len(batch[0])
    where = list(range(at, at + len(free[0]))), list(range(at + len(free[0]), len(g.shape)))
    found: list[Gradient] = []
    for mine, other in ((0, 1), (1, 0)):
        x, y = (lhs, rhs) if mine == 0 else (rhs, lhs)
        given = g if g.dtype == y.dtype else p.convert(g, y.dtype)
        made = p.dot(given, y, (where[other], free[other]), (list(range(at)), list(batch[other])))
        partners = [gone[mine][gone[other].index(d)] for d in sorted(gone[other])]
        order = [*batch[mine], *free[mine], *partners]  # dim j of `made` is dim order[j] of x
        if order != sorted(order):
            made = p.transpose(made, *(order.index(d) for d in range(len(order))))
        found.append(made if made.dtype == x.dtype else p.convert(made, x.dtype))
    return found


@vjp("attention")
def attention(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """By the op that frameworks have for it, where the logarithm of the sum of weights is kept and not read; else of
    softmax(scale q kᵀ + mask) v, the weights computed again. The mask's gradient is that of the scores."""
    g, g_total = (*gradients, None)[:2]
    q, k, v, *mask = op.operands
    if g is not None and g_total is None and len(op.results) > 1:
        at: dict[str, Attribute] = {"causal": (op.numbers.get("causal") or [0])[0], "scale": op.symbols["scale"][0]}
        found = p.op("attention-backward", g, q, k, v, *op.results, *mask, attributes=at).results
        return [*found, *(_mask(p, _scores(p, op, g, None)[0], mask[0]) for _ in mask[:1])]
    back, weights, scale = _scores(p, op, g, g_total)
    lead, rows, keys = list(range(len(q.shape) - 2)), len(q.shape) - 2, len(q.shape) - 1
    dv = p.dot(weights, g, ([rows], [rows]), (lead, lead)) if g is not None else None
    scaled = p.multiply(back, scale)
    dq = p.dot(scaled, k, ([keys], [rows]), (lead, lead))
    dk = p.dot(scaled, q, ([rows], [rows]), (lead, lead))
    return [dq, dk, dv, *(_mask(p, back, one) for one in mask)]


def _scores(p: Program, op: Op, g: Gradient, g_total: Gradient) -> tuple[Tensor, Tensor, float]:
    """The gradient of the scores, the weights, the scale."""
    q, k, v, *mask = op.operands
    scale = float(op.symbols["scale"][0])
    lead, rows, keys = list(range(len(q.shape) - 2)), len(q.shape) - 2, len(q.shape) - 1
    scores = p.multiply(p.dot(q, k, ([keys], [keys]), (lead, lead)), scale)
    low = p.full(float("-inf"), scores.shape, q.dtype)
    if mask:
        wide = _spread(p, mask[0], scores.shape)
        scores = p.select(wide, scores, low) if wide.dtype == "pred" else p.add(scores, wide)
    if (op.numbers.get("causal") or [0])[0]:
        seen = p.compare(p.iota(scores.shape, rows), p.iota(scores.shape, keys), direction="GE")
        scores = p.select(seen, scores, low)
    weights = p.softmax(scores, keys)
    total = g_total
    inner = p.dot(g, v, ([keys], [keys]), (lead, lead)) if g is not None else None
    if inner is not None:
        mean = p.negate(p.reduce(p.multiply(inner, weights), keys))
        total = mean if total is None else p.add(mean, total)
    assert total is not None
    by_total = p.broadcast(total, weights.shape, [*lead, rows])
    return p.multiply(weights, by_total if inner is None else p.add(inner, by_total)), weights, scale


def _spread(p: Program, mask: Tensor, shape: Sequence[int]) -> Tensor:
    """A mask in the shape of the scores: of fewer dims, or repeated along dims of size 1."""
    first = len(shape) - len(mask.shape)
    kept = [d for d, n in enumerate(mask.shape) if n == shape[first + d]]
    flat = p.reshape(mask, [mask.shape[d] for d in kept])
    return p.broadcast(flat, shape, [first + d for d in kept])


def _mask(p: Program, back: Tensor, mask: Tensor) -> Gradient:
    if mask.dtype == "pred":
        return None
    first = len(back.shape) - len(mask.shape)
    gone = [*range(first), *(first + d for d, n in enumerate(mask.shape) if n != back.shape[first + d])]
    total = p.reduce(back, gone) if gone else back
    return p.reshape(total, mask.shape)
