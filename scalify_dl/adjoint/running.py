"""Running reductions, and products, whose factors may be zero."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, through, vjp

START = {"max": float("-inf"), "min": float("inf"), "prod": 1.0}
"""What a reduction of nothing is."""


def _run(p: Program, x: Tensor, dim: int, reducer: str, turned: int) -> Tensor:
    more = {"reverse": 1} if turned else {}
    return p.op("cumulative", x, dimension=dim, reducer=reducer, attributes=more).result


def product_of_others(p: Program, x: Tensor) -> Tensor:
    """For each element along the last dim, the product of the others."""
    dim, one = len(x.shape) - 1, p.constant(1, x.dtype)
    still = [0] * len(x.shape)
    sides = []
    for turned in (0, 1):  # of those in front, of those behind
        low = [*still[1:], -1 if turned else 1]
        run = _run(p, x, dim, "prod", turned)
        sides.append(p.op("pad", run, one, low=low, high=[-n for n in low], interior=still).result)
    return p.multiply(*sides)


@vjp("cumulative")
def cumulative(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Of a running sum: one from the other end. Of others: of a reduction for each place, of all up to there."""
    (g,) = gradients
    assert g is not None
    reducer = op.symbols.get("reducer", [""])[0]
    (x,), (dim,) = op.operands, op.numbers["dimension"]
    turned = (op.numbers.get("reverse") or [0])[0]
    if reducer == "sum":
        return [_run(p, g, dim, "sum", 1 - turned)]
    if reducer == "logsumexp":
        parts = p.multiply(g, p.exponential(p.negate(op.result)))
        return [p.multiply(p.exponential(x), _run(p, parts, dim, "sum", 1 - turned))]
    if reducer not in START:
        raise NoAdjoint(f"no backward is known of a running {reducer} (`{op.name}`)")

    def places(x: Tensor) -> Tensor:
        wide, last = (*x.shape, x.shape[dim]), len(x.shape)  # at each place of the last dim, those up to it
        before = p.compare(p.iota(wide, dim), p.iota(wide, last), direction="GE" if turned else "LE")
        copies = p.broadcast(x, wide, list(range(last)))
        found = p.reduce(p.select(before, copies, p.full(START[reducer], wide, x.dtype)), dim, reducer)
        moved = [d for d in range(last) if d != dim]
        return p.transpose(found, *((moved.index(d) if d != dim else last - 1) for d in range(last)))

    return through(p, op, g, places)
