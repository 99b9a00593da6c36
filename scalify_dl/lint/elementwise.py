"""Lifting elementwise ops: all operands in one placement; a pending reduction passes only what is linear in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Digit, Entry, Pending, Repl
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.vocabulary import ELEMENTWISE

from .held import Held
from .lift import Lifter, Stop, lifting
from .means import multiple, one_rank_only, shared_out, undone
from .refit import one_value, same_place, splat_of

if TYPE_CHECKING:
    from .lift import Numbers

TOGETHER = {
    "sum": frozenset({"add", "subtract", "complex"}), "max": frozenset({"maximum"}), "min": frozenset({"minimum"}),
    "and": frozenset({"and"}), "or": frozenset({"or"}),
}  # fmt: skip
"""Kinds whose operands may all be parts of such a reduction."""
ALONE = {
    "negate": (0,), "real": (0,), "imag": (0,), "convert": (0,), "reduce-precision": (0,), "multiply": (0, 1),
    "divide": (0,), "select": (1, 2), "gelu-backward": (0,), "gelu-tanh-backward": (0,),
}  # fmt: skip
"""Operands that may be parts of a sum while the others are whole."""
SCALED = frozenset("negate convert real imag add subtract complex relu abs maximum minimum".split())  # noqa: SIM905
"""Kinds that make of operands which are all so many times a value so many times their result."""
MONOTONE = frozenset(
    """exponential exponential-minus-one log log-plus-one logistic tanh sqrt cbrt floor ceil trunc sign erf relu convert
    round-nearest-even round-nearest-afz""".split()  # noqa: SIM905
)
"""Kinds that a maximum or a minimum passes."""


ZERO_AT_ZERO = frozenset(
    """abs cbrt ceil convert erf exponential-minus-one floor gelu gelu-tanh log-plus-one multiply negate relu sign
    sine sqrt tan tanh trunc""".split()  # noqa: SIM905
)
"""Kinds that make zero of zeros: of parts of a sum of which one at most is not zero, they make such parts."""


@lifting(*ELEMENTWISE)
def elementwise(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """One op on the values that the operands hold."""
    odd = [n for n, t in enumerate(op.operands) if lifter.is_odd(t)]
    firm = [lifter.held(t) for n, t in enumerate(op.operands) if n not in odd]
    if op.kind == "select" and one_value(lifter, op):
        return [lifter.held(op.operands[1])]
    if not firm or any(t in lifter.out.mixed for t in op.operands):
        return _masked(lifter, op)
    if odd and one_rank_only(lifter, op) is not None:
        return _masked(lifter, op)
    averaged = undone(lifter, op)
    if averaged is not None:
        return [averaged]
    want = placed_alike(lifter, op, firm)
    if odd:
        spread_out = placed_by_rank(lifter, op, want, firm, odd)
        if spread_out is not want:
            want = spread_out
            lifter.out.one_way.add(op.result)
    helds: list[Held] = []
    for tensor in op.operands:
        have = lifter.out.held.get(tensor)
        if have is not None and _lies(have, want):
            helds.append(have)
            continue
        fitted = lifter.refit(tensor, want)
        if fitted is None and tensor not in lifter.out.held:
            return _masked(lifter, op)
        if fitted is None:
            _read_too_early(lifter, op, tensor)
            raise Stop("placed-differently", _apart(lifter, op))
        helds.append(fitted)
    helds = _shares(lifter, op, helds)
    mesh, scale = _passes(lifter, op, helds)
    since = _one_at_most(lifter, op, helds)
    if since is not None:
        lifter.out.single[op.result] = since
    (made,) = lifter.emit(op, [h.base for h in helds])
    free = frozenset.intersection(*(h.free for h in helds))
    if odd:
        free = frozenset()
    return [replace(want, base=made, mesh=mesh, scale=scale, free=free)]


def _shares(lifter: Lifter, op: Op, helds: list[Held]) -> list[Held]:
    """What is added to parts of a sum: a value that is whole on every rank may be the rank's share of it."""
    waiting = sorted({p for h in helds for p in h.pending if getattr(h.mesh[p], "reducer", "") == "sum"})
    if op.kind not in ("add", "subtract") or not waiting:
        return helds
    zero = _zero(lifter)
    return [
        h if h.pending or zero(t) else shared_out(lifter, op, t, h, waiting) or h
        for t, h in zip(op.operands, helds, strict=True)
    ]


def _read_too_early(lifter: Lifter, op: Op, tensor: Tensor) -> None:
    """Stop where an operand is still to be reduced."""
    have = lifter.out.held.get(tensor)
    for p in have.pending if have is not None else ():
        assert have is not None
        entry, axis = have.mesh[p], lifter.grid.positions[p][0]
        reducer = getattr(entry, "reducer", "sum")
        text = f"`{tensor.name}` is still a part of a {reducer} over {axis}, `{op.kind}` reads it as if it were whole"
        raise Stop("partial-maximum" if reducer in ("max", "min") else "non-linear", text)


def placed_by_rank(lifter: Lifter, op: Op, want: Held, firm: Sequence[Held], odd: Sequence[int]) -> Held:
    """Where numbers of the ranks (`its first column and up`) meet values that fit any placement: dims of these lie in
    the blocks that the numbers say."""
    free = frozenset.intersection(*(h.free for h in firm))
    known = next((n for n in odd if _numbers(lifter, op.operands[n]) is not None), None)
    if not free or known is None or not want.aligned or want.along is not None:
        return want
    values = _numbers(lifter, op.operands[known]) or {}
    varying = lifter.grid.varying(values)
    for d in sorted(free):
        for order in permutations(varying) if len(varying) <= 4 else ():
            if all(isinstance(want.mesh[p], Repl) for p in order):
                wide = spread(lifter, want, d, order)
                if lifter.refit(op.operands[known], wide) is not None:
                    return wide
    return want


def _numbers(lifter: Lifter, tensor: Tensor) -> Numbers | None:
    """The numbers by rank that a value is, or that are broadcast to one too large to be computed."""
    found, op = lifter.numbers(tensor), lifter.maker.get(tensor)
    return _numbers(lifter, op.operands[0]) if found is None and op is not None and op.kind == "broadcast" else found


def spread(lifter: Lifter, want: Held, dim: int, order: Sequence[int]) -> Held:
    """The placement with a dim so many times larger, in blocks over these positions (major first)."""
    block = want.base.shape[dim]
    size = block * prod(lifter.grid.sizes[p] for p in order)
    mesh, stride = list(want.mesh), size
    for p in order:
        stride //= lifter.grid.sizes[p]
        mesh[p] = Digit(dim, stride, lifter.grid.sizes[p])
    shape = tuple(size if d == dim else n for d, n in enumerate(want.base.shape))
    return replace(want, base=Tensor(want.base.dtype, shape), mesh=tuple(mesh))


def _lies(have: Held, want: Held) -> bool:
    """Whether a value lies as wanted, pending reductions and scales aside."""
    if have.scale == 1 and not any(isinstance(e, Pending) for e in have.mesh):
        return same_place(have, want)
    mesh = tuple(Repl(e.size) if isinstance(e, Pending) else e for e in have.mesh)
    return same_place(replace(have, mesh=mesh, scale=Fraction(1)), want)


def placed_alike(lifter: Lifter, op: Op, helds: Sequence[Held]) -> Held:
    """The placement that all operands have, or can have: dims that fit any placement lie as those of the others do.
    Nothing is pending in it. Stop where there is none."""
    fused = next((h for h in helds if h.along is not None), None)
    firmest = fused or min(helds, key=lambda h: len(h.free))
    if len(helds) == 1 or fused is not None or not all(h.aligned for h in helds):
        mesh = tuple(Repl(e.size) if isinstance(e, Pending) else e for e in firmest.mesh)
        return replace(firmest, mesh=mesh, scale=Fraction(1), free=frozenset())
    dims = len(firmest.local)
    local, shape, owner = [], [], []
    for d in range(dims):
        mine = next((h for h in helds if d not in h.free), firmest)
        owner.append(mine)
        local.append(mine.local[d])
        shape.append(mine.base.shape[d])
    mesh_entries: list[Entry] = []
    for p, size in enumerate(lifter.grid.sizes):
        claims = {e for d, h in enumerate(owner) if isinstance(e := h.mesh[p], Digit) and e.dim == d}
        if len(claims) > 1:
            raise Stop("placed-differently", _apart(lifter, op))
        mesh_entries.append(claims.pop() if claims else Repl(size))
    return Held(Tensor(firmest.base.dtype, tuple(shape)), tuple(local), tuple(mesh_entries))


def _passes(lifter: Lifter, op: Op, helds: Sequence[Held]) -> tuple[tuple[Entry, ...], Fraction]:
    """What is pending in the result, and its scale. Stop where the op is not linear in what is pending."""
    mesh = list(helds[0].mesh)
    for p in range(len(mesh)):
        at = [h.mesh[p] for h in helds]
        waiting = [n for n, e in enumerate(at) if isinstance(e, Pending)]
        if not waiting:
            mesh[p] = at[0]
            continue
        entry = at[waiting[0]]
        assert isinstance(entry, Pending)
        kinds = {e.reducer for e in at if isinstance(e, Pending)}
        others = [op.operands[n] for n in range(len(at)) if n not in waiting]
        if len(kinds) == 1 and not others and (op.kind in TOGETHER.get(entry.reducer, ()) or (len(at) == 1 and (
            (_linear(op) and entry.reducer == "sum") or (op.kind in MONOTONE and entry.reducer in ("max", "min"))
        ))):  # fmt: skip
            mesh[p] = entry
            continue
        if len(kinds) == 1 and _alone(op, entry.reducer, waiting):
            mesh[p] = entry
            continue
        if op.kind in (*ZERO_AT_ZERO, "power") and _one_at_most(lifter, op, helds) is not None:
            mesh[p] = entry
            continue
        neutral = entry.reducer == "sum" and op.kind in ("add", "subtract") and all(map(_zero(lifter), others))
        chosen = [t for n, t in enumerate(op.operands) if op.kind == "select" and n not in (0, *waiting)]
        if neutral or (len(waiting) == len(chosen) == 1 and all(map(_as_good_as_zero(lifter), chosen))):
            mesh[p] = entry
            continue
        raise _unreduced(lifter, op, p, entry, waiting, helds)
    return tuple(mesh), _scale(lifter, op, [h.scale for h in helds], helds)


def _linear(op: Op) -> bool:
    """Whether an op of one operand is linear in it: of casts, those that keep reals reals and integers integers."""
    rounds = op.kind == "convert" and op.operands[0].dtype[0] in "fbc" and op.result.dtype[0] not in "fbc"
    return op.kind in ALONE and not rounds


def _alone(op: Op, reducer: str, waiting: Sequence[int]) -> bool:
    if op.kind == "select":
        return 0 not in waiting and len(waiting) == 2
    return reducer == "sum" and len(waiting) == 1 and waiting[0] in ALONE.get(op.kind, ()) and _linear(op)


def _one_at_most(lifter: Lifter, op: Op, helds: Sequence[Held]) -> Tensor | None:
    """What a result is made of that is parts of a sum of which one at most is not zero."""
    since = {lifter.out.single.get(t) for t, h in zip(op.operands, helds, strict=True) if h.pending}
    power = op.kind == "power" and not helds[1].pending and _positive(splat_of(lifter, op.operands[1]))
    keeps = op.kind in ZERO_AT_ZERO or op.kind in ALONE or power
    return since.pop() if len(since) == 1 and keeps else None


def _positive(number: Literal | None) -> bool:
    return number is not None and number.rational is not None and number.rational > 0


def _as_good_as_zero(lifter: Lifter):  # type: ignore[no-untyped-def]
    """Whether a number may be added up by all ranks: zero, or one of which n are as much."""
    def is_one(tensor: Tensor) -> bool:
        literal = splat_of(lifter, tensor)
        return literal is not None and (literal.rational == 0 or literal.text.lstrip("-") in ("inf", "nan"))

    return is_one


def _zero(lifter: Lifter):  # type: ignore[no-untyped-def]
    def is_zero(tensor: Tensor) -> bool:
        literal = splat_of(lifter, tensor)
        return literal is not None and literal.rational == 0

    return is_zero


def _unreduced(lifter: Lifter, op: Op, p: int, entry: Pending, waiting: Sequence[int], helds: Sequence[Held]) -> Stop:
    """The violation of an op that reads what is still to be reduced."""
    axis = lifter.grid.positions[p][0]
    names = " and ".join(f"`{op.operands[n].name}`" for n in waiting)
    lifter.emit(op, [h.base for h in helds])
    made = lifter.base.ops[-1]
    holds = f"{names} is still a part of a {entry.reducer} over {axis}"
    if op.kind == "multiply" and len(waiting) == 2:
        return Stop("product-of-unreduced", f"{names} are both still parts of a {entry.reducer} over {axis}", made)
    if op.kind in ("add", "subtract") and entry.reducer == "sum":
        other = next(t for n, t in enumerate(op.operands) if n not in waiting)
        text = f"{holds}, `{other.name}` is whole on every rank: the sum over {axis} adds it once per rank"
        return Stop("added-per-rank", text, made)
    kind = "partial-maximum" if entry.reducer in ("max", "min") else "non-linear"
    return Stop(kind, f"{holds}, and `{op.kind}` is not linear in it", made)


def _scale(lifter: Lifter, op: Op, scales: Sequence[Fraction], helds: Sequence[Held]) -> Fraction:
    if all(scale == 1 for scale in scales):
        return scales[0]
    if op.kind == "multiply":
        return scales[0] * scales[1]
    if op.kind == "divide":
        return scales[0] / scales[1]
    if op.kind in SCALED and len(set(scales)) == 1 and scales[0] > 0:
        return scales[0]
    if op.kind == "select" and scales[1] == scales[2] and scales[0] == 1:
        return scales[1]
    n = next(n for n, scale in enumerate(scales) if scale != 1)
    why = _why_multiple(scales[n])
    raise multiple(lifter, scales[n], f"`{op.operands[n].name}` is {scales[n]} times a value of one device: {why}")


def _why_multiple(scale: Fraction) -> str:
    return f"a sum over ranks counted the same numbers {scale} times" if scale.denominator == 1 else "it was divided"


def _masked(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Values of the rank and of inputs together: what a read under a mask leaves is part of a sum."""
    from .masked import masked

    return masked(lifter, op)


def _apart(lifter: Lifter, op: Op) -> str:
    texts = [f"`{t.name}` is {lifter.out.held[t].layout(lifter.grid)}" for t in op.operands if t in lifter.out.held]
    return f"its operands lie differently: {'; '.join(texts)}"
