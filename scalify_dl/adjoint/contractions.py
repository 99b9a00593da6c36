"""Contractions: each factor's gradient is that of the result, contracted with the other factor."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, vjp


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
    """Of softmax(scale q kᵀ + mask) v, the weights computed again; and of the logarithm of their sum."""
    g, g_total = (*gradients, None)[:2]
    q, k, v, *mask = op.operands
    scale = float(op.symbols["scale"][0])
    lead = list(range(len(q.shape) - 2))
    rows, keys = len(q.shape) - 2, len(q.shape) - 1
    scores = p.multiply(p.dot(q, k, ([keys], [keys]), (lead, lead)), scale)
    if mask:
        at = list(range(len(scores.shape) - len(mask[0].shape), len(scores.shape)))
        if [scores.shape[d] for d in at] != list(mask[0].shape):
            raise NoAdjoint(f"the mask of `{op.name}` is repeated along dims of size 1")
        if mask[0].dtype == "pred":
            raise NoAdjoint(f"the mask of `{op.name}` is one of truth values")
        scores = p.add(scores, p.broadcast(mask[0], scores.shape, at))
    if (op.numbers.get("causal") or [0])[0]:
        row, column = p.iota(scores.shape, rows), p.iota(scores.shape, keys)
        scores = p.select(p.compare(row, column, direction="GE"), scores, p.full(float("-inf"), scores.shape, q.dtype))
    weights = p.softmax(scores, keys)
    back: Tensor | None = None
    dv: Gradient = None
    if g is not None:
        dv = p.dot(weights, g, ([rows], [rows]), (lead, lead))
        dw = p.dot(g, v, ([keys], [keys]), (lead, lead))
        mean = p.reduce(p.multiply(dw, weights), keys)
        back = p.multiply(weights, p.subtract(dw, p.broadcast(mean, dw.shape, [*lead, rows])))
    if g_total is not None:
        more = p.multiply(weights, p.broadcast(g_total, weights.shape, [*lead, rows]))
        back = more if back is None else p.add(back, more)
    assert back is not None
    scaled = p.multiply(back, scale)
    dq = p.dot(scaled, k, ([keys], [rows]), (lead, lead))
    dk = p.dot(scaled, q, ([rows], [rows]), (lead, lead))
    dmask = [p.reduce(back, list(range(len(back.shape) - len(mask[0].shape))))] if mask else []
    if mask and len(mask[0].shape) == len(back.shape):
        dmask = [back]
    return [dq, dk, dv, *dmask]
