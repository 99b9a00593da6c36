"""Loops that run a known number of times, and branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.ir.copies import copied
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, backward, vjp


def _real(t: Tensor) -> bool:
    return t.dtype[0] in "fb"


def _inlined(p: Program, body: Graph, values: Sequence[Tensor]) -> list[Tensor]:
    """What a region makes of values, in another program."""
    known = {port.tensor: value for port, value in zip(body.inputs, values, strict=True)}
    p.graph.ops += [copied(op, known, "") for op in body.ops]
    return [known[port.tensor] for port in body.outputs]


def _pulled(
    p: Program, body: Graph, values: Sequence[Tensor], given: Mapping[int, Tensor], wrt: Sequence[int]
) -> list[Tensor]:
    """Gradients of what a region reads, given those of what it makes, by position."""
    first, seeds = len(p.graph.ops), dict[Tensor, Tensor]()
    made = _inlined(p, body, values)
    for n, g in given.items():
        seeds[made[n]] = p.add(seeds[made[n]], g) if made[n] in seeds else g
    found = backward(p, seeds, [values[n] for n in wrt], first)
    zeros = [p.full(0, values[n].shape, values[n].dtype) for n in wrt]
    return [zero if g is None else g for g, zero in zip(found, zeros, strict=True)]


@vjp("while")
def loop(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Run once more, keeping what every turn begins with; then turn by turn from the last one."""
    turns = op.numbers.get("trip_count")
    if turns is None:
        raise NoAdjoint(f"how often the loop `{op.name}` runs is not known")
    body, values = op.regions[1], list(op.operands)
    size = len(values)
    still = [out.tensor is port.tensor for port, out in zip(body.inputs, body.outputs, strict=True)]
    changed = [n for n in range(size) if not still[n]]
    reals = [n for n in range(size) if _real(values[n])]
    stacks = [p.full(0, (*turns, *values[n].shape), values[n].dtype) for n in changed]

    def on(q: Program, i: Tensor, *_: Tensor) -> Tensor:
        return q.compare(i, turns[0], direction="LT")

    def at(q: Program, i: Tensor, stack: Tensor) -> list[Tensor]:
        return [i, *[q.constant(0, "s32")] * (len(stack.shape) - 1)]

    def again(q: Program, i: Tensor, *rest: Tensor) -> list[Tensor]:
        kept = [
            q.dynamic_update_slice(stack, q.reshape(rest[n], (1, *rest[n].shape)), at(q, i, stack))
            for n, stack in zip(changed, rest[size:], strict=True)
        ]
        return [q.add(i, 1), *_inlined(q, body, rest[:size]), *kept]

    start = p.constant(0, "s32")
    kept = p.loop([start, *values, *stacks], on, again, trip_count=turns[0])[1 + size :]

    def back(q: Program, i: Tensor, *rest: Tensor) -> list[Tensor]:
        cotangents, whole, stacks = rest[: len(reals)], rest[len(reals) : len(reals) + size], rest[len(reals) + size :]
        turn, then = q.subtract(q.constant(turns[0] - 1, "s32"), i), list(whole)
        for n, stack in zip(changed, stacks, strict=True):
            piece = q.dynamic_slice(stack, at(q, turn, stack), (1, *stack.shape[1:]))
            then[n] = q.reshape(piece, stack.shape[1:])
        found = _pulled(q, body, then, dict(zip(reals, cotangents, strict=True)), reals)
        return [q.add(i, 1), *found, *whole, *stacks]

    begun = [g if (g := gradients[n]) is not None else p.full(0, values[n].shape, values[n].dtype) for n in reals]
    made = p.loop([start, *begun, *values, *kept], on, back, trip_count=turns[0])[1 : 1 + len(reals)]
    found: list[Gradient] = [None] * size
    for n, g in zip(reals, made, strict=True):
        found[n] = g
    return found


@vjp("conditional")
def conditional(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """The branch that was taken, back; the operands of the others have none."""
    index, *values = op.operands
    counts = op.numbers.get("branch_operand_count") or [len(region.inputs) for region in op.regions]
    reals = [n for n, x in enumerate(values) if _real(x)]
    given = {n: g for n, g in enumerate(gradients) if g is not None}
    regions: list[Graph] = []
    operands: list[Tensor] = []
    first = 0
    for region, count in zip(op.regions, counts, strict=True):

        def back(q: Program, *rest: Tensor, region: Graph = region, first: int = first) -> list[Tensor]:
            own, seeds = rest[: len(rest) - len(given)], dict(zip(given, rest[len(rest) - len(given) :], strict=True))
            mine = [n for n in reals if first <= n < first + len(own)]
            found = dict(zip(mine, _pulled(q, region, own, seeds, [n - first for n in mine]), strict=True))
            return [found[n] if n in found else q.full(0, values[n].shape, values[n].dtype) for n in reals]

        like = [*values[first : first + count], *given.values()]
        regions.append(p.region(f"{op.name}.{len(regions)}.back", like, back))
        operands += like
        first += count
    made = p.op(
        "conditional", index, *operands, types=[(values[n].dtype, values[n].shape) for n in reals], regions=regions,
        branch_operand_count=[count + len(given) for count in counts],
    ).results  # fmt: skip
    found = dict(zip(reals, made, strict=True))
    return [None, *(found.get(n) for n in range(len(values)))]
