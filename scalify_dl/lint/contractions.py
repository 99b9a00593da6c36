"""Lifting contractions and reductions: what ranks split of a summed dim leaves parts of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from scalify_dl.ir.graph import Op
from scalify_dl.ir.layout import Digit, Entry, Pending, Repl

from .held import Held, renumbered
from .lift import Lifter, Stop, lifting
from .means import multiple
from .one_each import REDUCERS, left_in, restored


@lifting("dot")
def dot(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Batch, contracted and free dims of two operands."""
    x, y = (lifter.held(t) for t in op.operands)
    names = [t.name for t in op.operands]
    batch = op.numbers.get("lhs_batch_dims", []), op.numbers.get("rhs_batch_dims", [])
    contracted = op.numbers.get("lhs_contracting_dims", []), op.numbers.get("rhs_contracting_dims", [])
    pairs = [*zip(*batch, strict=True), *zip(*contracted, strict=True)]
    x, y = _met(lifter, op, x, y, pairs)
    for a, b in zip(*batch, strict=True):
        x, y = _repeated(lifter, op, x, y, a, b), _repeated(lifter, op, y, x, b, a)
    for held, name in zip((x, y), names, strict=True):
        if not held.aligned:
            raise Stop("lemma", f"`{name}` lies in another order than its dims")
    if x.along in contracted[0] or y.along in contracted[1] or x.along in batch[0] or y.along in batch[1]:
        raise Stop("lemma", "it contracts over several values side by side")
    for a, b in pairs:
        if renumbered(x.local[a], 0) != renumbered(y.local[b], 0) or x.base.shape[a] != y.base.shape[b]:
            raise Stop("placed-differently", _apart(lifter, op, x, y, a, b))
    free = (
        [d for d in range(len(x.local)) if d not in batch[0] and d not in contracted[0]],
        [d for d in range(len(y.local)) if d not in batch[1] and d not in contracted[1]],
    )
    count = len(batch[0])
    to_x = {**{d: n for n, d in enumerate(batch[0])}, **{d: count + n for n, d in enumerate(free[0])}}
    to_y = {**{d: n for n, d in enumerate(batch[1])}, **{d: count + len(free[0]) + n for n, d in enumerate(free[1])}}
    mesh = [_entry(lifter, op, p, x, y, to_x, to_y, dict(zip(*contracted, strict=True))) for p in range(len(x.mesh))]
    (made,) = lifter.emit(op, [x.base, y.base])
    local = [renumbered(x.local[d], to_x[d]) for d in (*batch[0], *free[0])]
    local += [renumbered(y.local[d], to_y[d]) for d in free[1]]
    found = Held(made, tuple(local), tuple(mesh), x.scale * y.scale)
    fused = [(h, to) for h, to in ((x, to_x), (y, to_y)) if h.along is not None]
    if len(fused) > 1:
        raise Stop("lemma", "both operands hold several values side by side")
    for h, to in fused:
        assert h.along is not None
        found = replace(found, along=to[h.along], parts=h.parts)
    return [found]


def _met(lifter: Lifter, op: Op, x: Held, y: Held, pairs: Sequence[tuple[int, int]]) -> tuple[Held, Held]:
    """Operands of which one fits any placement along dims that meet, placed as the other."""
    for flip in (False, True):
        mine, other = (y, x) if flip else (x, y)
        wanted = [(b, a) if flip else (a, b) for a, b in pairs]
        if not any(a in mine.free and (mine.local[a], mine.base.shape[a]) != (
            renumbered(other.local[b], a), other.base.shape[b]) for a, b in wanted):  # fmt: skip
            continue
        local, shape, mesh = list(mine.local), list(mine.base.shape), list(mine.mesh)
        for a, b in wanted:
            if a in mine.free:
                local[a], shape[a] = renumbered(other.local[b], a), other.base.shape[b]
                for p in other.cut(b):
                    entry = other.mesh[p]
                    assert isinstance(entry, Digit)
                    mesh[p] = Digit(a, entry.stride, entry.size)
        want = replace(mine, base=type(mine.base)(mine.base.dtype, tuple(shape)), local=tuple(local), mesh=tuple(mesh))
        fitted = lifter.refit(op.operands[1 if flip else 0], want)
        if fitted is not None:
            x, y = (x, fitted) if flip else (fitted, y)
    return x, y


def _repeated(lifter: Lifter, op: Op, mine: Held, other: Held, a: int, b: int) -> Held:
    """A value of which every rank has one element of a batch dim, and several ranks the same one, as it meets another
    one of which each has its own (a head of keys that several heads of queries share): it is repeated, in order.

    Of a rank's several elements it would not be said whether the first or all in turn are shared: that is left alone.
    """
    grid, n, size = lifter.grid, mine.base.shape[a], other.base.shape[b]
    cut, theirs = (sorted(h.cut(d), key=lambda p: -getattr(h.mesh[p], "stride", 0)) for h, d in ((mine, a), (other, b)))
    one_each = all(prod(grid.sizes[p] for p in ps) == whole for ps, whole in ((cut, n), (theirs, size)))
    shared = theirs[: len(cut)] == cut and all(isinstance(mine.mesh[p], Repl) for p in theirs[len(cut) :])
    if not one_each or not shared or n == size or not mine.aligned or mine.along is not None:
        return mine
    shape, kept = mine.base.shape, [d + (d > a) for d in range(len(mine.base.shape))]
    wide = (*shape[: a + 1], size // n, *shape[a + 1 :])
    base, whole = lifter.base, (*shape[:a], size, *shape[a + 1 :])
    each = base.add("broadcast", [mine.base], [(mine.base.dtype, wide)], name="repeat", numbers={"dimensions": kept},
                    source=op.source, at=op.at)  # fmt: skip
    made = base.add("reshape", [each.result], [(mine.base.dtype, whole)], name="repeat", source=op.source, at=op.at)
    mesh = list(mine.mesh)
    for p in theirs:
        entry = other.mesh[p]
        assert isinstance(entry, Digit)
        mesh[p] = Digit(a, entry.stride, entry.size)
    return replace(mine, base=made.result, mesh=tuple(mesh), free=mine.free - {a})


def _entry(lifter: Lifter, op: Op, p: int, x: Held, y: Held, to_x: dict[int, int], to_y: dict[int, int],
           contracted: dict[int, int]) -> Entry:  # fmt: skip
    """What stands at a position of the mesh in the result."""
    mine, other = x.mesh[p], y.mesh[p]
    axis = lifter.grid.positions[p][0]
    names = [f"`{t.name}`" for t in op.operands]
    if isinstance(mine, Pending) and isinstance(other, Pending):
        raise Stop("product-of-unreduced", f"{names[0]} and {names[1]} are both still to be reduced over {axis}")
    for entry, rest, name, else_name in ((mine, other, names[0], names[1]), (other, mine, names[1], names[0])):
        if isinstance(entry, Pending):
            if entry.reducer != "sum":
                raise Stop("non-linear", f"{name} is still a part of a {entry.reducer} over {axis}")
            if isinstance(rest, Digit):
                text = f"{name} is still a part of a sum over {axis}, {else_name} is split there"
                raise Stop("placed-differently", text)
            return entry
    if isinstance(mine, Digit) and mine.dim in contracted:
        if isinstance(other, Digit) and other.dim == contracted[mine.dim] and other.stride == mine.stride:
            return Pending("sum", mine.size)
        raise Stop("placed-differently", f"{names[0]} is split over {axis} along the summed dim, {names[1]} is not")
    if isinstance(other, Digit) and other.dim in contracted.values():
        raise Stop("placed-differently", f"{names[1]} is split over {axis} along the summed dim, {names[0]} is not")
    if isinstance(mine, Digit) and isinstance(other, Digit):
        same = to_x[mine.dim] == to_y[other.dim] and mine.stride == other.stride
        if not same:
            raise Stop("placed-differently", f"both operands are split over {axis}, along different dims")
        return Digit(to_x[mine.dim], mine.stride, mine.size)
    for entry, to in ((mine, to_x), (other, to_y)):
        if isinstance(entry, Digit):
            if (to is to_x and entry.dim in to_x and to_x[entry.dim] in [to_y.get(d) for d in to_y]) or (
                to is to_y and to_y[entry.dim] in to_x.values()
            ):
                raise Stop("placed-differently", f"over {axis} one operand is split along a batch dim only")
            return Digit(to[entry.dim], entry.stride, entry.size)
    return mine


def _apart(lifter: Lifter, op: Op, x: Held, y: Held, a: int, b: int) -> str:
    layouts = [str(h.layout(lifter.grid)) for h in (x, y)]
    return (
        f"dim {a} of `{op.operands[0].name}` ({layouts[0]}) meets dim {b} of `{op.operands[1].name}` ({layouts[1]}):"
        " they do not lie alike"
    )


@lifting("reduce")
def reduce(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Dims that go: what ranks split of them leaves a reduction pending."""
    gone, reducer = op.numbers["dimensions"], op.symbols.get("reducer", [""])[0]
    if len(op.operands) != 1 or op.regions:
        raise Stop("lemma", "nothing is known of what it does to blocks")
    if lifter.is_odd(op.operands[0]):
        return [None]
    x, name = lifter.held(op.operands[0]), op.operands[0].name
    if not x.aligned or x.along in gone:
        raise Stop("lemma", f"`{name}` lies in another order than its dims")
    alone = [d for d in gone if op.operands[0].shape[d] == 1 and x.cut(d)]
    if alone and restored(lifter, op) and lifter.choose(("one each", tuple(gone), x.base.shape, x.mesh), (True, False)):
        return [left_in(lifter, op, x, [d for d in gone if d not in alone])]
    kept = [d for d in range(len(x.local)) if d not in gone]
    mesh: list[Entry] = []
    for p, entry in enumerate(x.mesh):
        axis = lifter.grid.positions[p][0]
        if isinstance(entry, Digit) and entry.dim in gone:
            if reducer not in REDUCERS:
                raise Stop("whole-dim", f"the {reducer} is along dim {entry.dim} of `{name}`, split over {axis}")
            entry = Pending(reducer, entry.size)
        elif isinstance(entry, Pending) and entry.reducer != reducer:
            raise Stop("non-linear", f"`{name}` is still a part of a {entry.reducer} over {axis}, its {reducer} is"
                       " taken")  # fmt: skip
        mesh.append(entry)
    scaled = reducer in ("sum", "max", "min") and x.scale > 0
    if x.scale != 1 and not scaled:
        raise multiple(lifter, x.scale, f"`{name}` is {x.scale} times a value of one device")
    (made,) = lifter.emit(op, [x.base])
    where: list[int | None] = [kept.index(d) if d in kept else None for d in range(len(x.local))]
    local = tuple(renumbered(x.local[d], n) for n, d in enumerate(kept))
    free = frozenset(kept.index(d) for d in x.free if d in kept)
    along = None if x.along is None else kept.index(x.along)
    found = replace(x, mesh=tuple(mesh)).moved(where, made, local, free=free, along=along)
    return [replace(found, scale=x.scale if scaled else Fraction(1))]
