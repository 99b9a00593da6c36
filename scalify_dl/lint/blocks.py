"""Slices and concatenations of what lies in blocks: a rank's own block, values side by side, gathered blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from math import prod

from scalify_dl.ir.graph import Op
from scalify_dl.ir.layout import Digit, Entry, Repl

from .held import Held, Piece, tidy
from .lift import Lifter, Stop


def own_block(lifter: Lifter, op: Op, x: Held, dim: int, starts: Sequence[int], size: int) -> Held:
    """Each rank keeps the block of a dim that begins at its start: the value is split there, and nothing else. Where
    ranks keep each other's blocks, it is supposed that they should keep their own (`other_blocks`)."""
    name, whole = op.operands[0].name, prod(digit.size for digit in x.local[dim])
    order = lifter.grid.block_of(starts, size)
    if not order:
        starts = [min(max(at, 0), whole - size) for at in starts]
        orders = [] if any(at % size for at in starts) else _orders(lifter, x, starts, size, whole // size)
        if not orders:
            raise Stop("rank-dependent", f"the ranks' slices of `{name}` along dim {dim} are no blocks")
        order = lifter.choose((x.base.shape, dim, *starts), orders)
        text = f"ranks take blocks of {size} of dim {dim} of `{name}` from {', '.join(map(str, starts))} on"
        lifter.out.other_blocks[op] = f"{text}, not in the order of {', '.join(lifter.grid.axes_of(order))}"
        own = [lifter.grid.number(at, order) for at in lifter.grid.coordinates]
        if len({(at // size - n) % (whole // size) for at, n in zip(starts, own, strict=True)}) == 1:
            lifter.out.rolled.add(op)
    lifter.out.dealt.add(op)
    for p in order:
        if not isinstance(x.mesh[p], Repl):
            raise Stop("placed-differently", f"`{name}` differs already along {lifter.grid.positions[p][0]}")
    if prod(lifter.grid.sizes[p] for p in order) * size != whole:
        raise Stop("not-covered", f"the ranks' blocks of {size} along dim {dim} of `{name}` are not all of it")
    return scattered(lifter, x, dim, order, name)


def _orders(lifter: Lifter, x: Held, starts: Sequence[int], size: int, ways: int) -> list[tuple[int, ...]]:
    """The positions, major first, by which so many blocks may be dealt out; those that are right for most ranks are
    first."""
    free, coordinates = [p for p, e in enumerate(x.mesh) if isinstance(e, Repl)], lifter.grid.coordinates
    found = [
        order for n in range(1, len(free) + 1) for order in permutations(free, n)
        if len(free) <= 6 and prod(lifter.grid.sizes[p] for p in order) == ways
    ]  # fmt: skip
    own = {o: [lifter.grid.number(at, o) * size for at in coordinates] for o in found}
    return sorted(found, key=lambda o: sum(a != b for a, b in zip(own[o], starts, strict=True)))


def scattered(lifter: Lifter, x: Held, dim: int, positions: Sequence[int], name: str) -> Held:
    """Each rank keeps the block of a local dim that its coordinates number."""
    if x.along == dim:
        raise Stop("across-parts", f"`{name}` holds several values side by side along dim {dim}")
    left = [d for d in x.local[dim] if d.size > 1]
    mesh: list[Entry] = list(x.mesh)
    for p in positions:
        size = lifter.grid.sizes[p]
        if not left or left[0].size % size:
            raise Stop("not-covered", f"dim {dim} of `{name}` does not divide by {size}")
        digit = left.pop(0)
        rest = digit.size // size
        mesh[p] = Digit(digit.dim, digit.stride * rest, size)
        if rest > 1:
            left.insert(0, Digit(digit.dim, digit.stride, rest))
    local = tuple(tidy(left) if d == dim else s for d, s in enumerate(x.local))
    return replace(x, mesh=tuple(mesh), local=local, free=frozenset())


def own_blocks(lifter: Lifter, op: Op, x: Held) -> Held:
    """A slice whose bounds depend on the rank."""
    ranks = range(lifter.grid.mesh.size)
    for d, n in enumerate(op.operands[0].shape):
        starts, limits = (_bound(lifter, op, key, d) for key in ("start", "limit"))
        if (set(starts), set(limits)) == ({0}, {n}):
            continue
        sizes = {limits[r] - starts[r] for r in ranks}
        if len(sizes) != 1 or (op.numbers.get("stride") or [1] * (d + 1))[d] != 1:
            raise Stop("rank-dependent", "the ranks' slices have different sizes")
        x = own_block(lifter, op, x, d, starts, sizes.pop())
    return x


def _bound(lifter: Lifter, op: Op, key: str, dim: int) -> list[int]:
    fixed = (op.numbers.get(key) or [0] * (dim + 1))[dim]
    by_rank = op.rank_numbers.get((key, dim), {})
    found = [by_rank.get(rank, fixed) for rank in range(lifter.grid.mesh.size)]
    strides = op.strides.get((key, dim))
    if strides:
        names = [axis for axis, _ in lifter.grid.mesh.axes]
        for rank, at in enumerate(lifter.grid.mesh.coordinates):
            found[rank] += sum(strides.get(a, 0) * c for a, c in zip(names, at, strict=True))
    return found


def part_of(lifter: Lifter, op: Op, x: Held, dim: int) -> Held:
    """A slice along a dim that holds several values side by side, or gathered blocks of another dim."""
    lo, hi = op.numbers["start"][dim], op.numbers["limit"][dim]
    whole = [
        (op.numbers["start"][d], op.numbers["limit"][d]) == (0, n)
        for d, n in enumerate(op.operands[0].shape) if d != dim
    ]  # fmt: skip
    one = (op.numbers.get("stride") or [1] * (dim + 1))[dim] == 1 and all(whole)
    if x.along == dim and one:
        pieces = [p for p in x.parts if lo <= p.lo and p.hi <= hi]
        if pieces and (pieces[0].lo, pieces[-1].hi) == (lo, hi):
            return _taken(lifter, op, x, dim, pieces)
        torn = not any(p.lo <= lo and hi <= p.hi for p in x.parts) and any(p.cut for p in x.parts)
        raise Stop("cuts-across" if torn else "across-parts", f"it cuts [{lo}:{hi}] of dim {dim} of "
                   f"`{op.operands[0].name}`, in parts " + ", ".join(f"[{p.lo}:{p.hi}]" for p in x.parts))  # fmt: skip
    gathered = _gathered(lifter, op, x, dim, lo, hi) if one and x.along is None else None
    if gathered is not None:
        return gathered
    if x.aligned and x.cut(dim):
        raise Stop("lemma", f"it slices dim {dim} of `{op.operands[0].name}`, which ranks hold in blocks")
    raise Stop("lemma", f"`{op.operands[0].name}` lies in another order than its dims")


def _taken(lifter: Lifter, op: Op, x: Held, dim: int, pieces: Sequence[Piece]) -> Held:
    """One of the values side by side, or some."""
    start = [0] * len(x.base.shape)
    limit = list(x.base.shape)
    piece = pieces[0]
    start[dim], limit[dim] = piece.base_lo, pieces[-1].base_hi
    (made,) = lifter.emit(op, [x.base], start=start, limit=limit, stride=[1] * len(start))
    if len(pieces) > 1:
        parts = [Piece(p.lo - piece.lo, p.hi - piece.lo, p.base_lo - piece.base_lo, p.base_hi - piece.base_lo, p.cut)
                 for p in pieces]  # fmt: skip
        return replace(x, base=made, parts=tuple(parts))
    return replace(x.part(piece, lifter.grid), base=made)


def _gathered(lifter: Lifter, op: Op, x: Held, dim: int, lo: int, hi: int) -> Held | None:
    """Of blocks of another dim that a gather has put one after the other, one: a slice of that dim."""
    if not x.local[dim] or hi - lo == op.operands[0].shape[dim]:
        return None
    first = x.local[dim][0]
    size = op.operands[0].shape[dim] // first.size
    if (hi - lo, lo % max(size, 1)) != (size, 0) or first.dim >= len(x.base.shape):
        return None
    start, limit = [0] * len(x.base.shape), list(x.base.shape)
    others = [g for digits in x.local for g in digits if g.dim == first.dim and g != first]
    if any(g.stride >= first.stride for g in others) or first.stride * first.size != x.base.shape[first.dim]:
        return None
    lifter.out.block_of[op.result] = op.operands[0], lo // size
    start[first.dim] = lo // size * first.stride
    limit[first.dim] = start[first.dim] + first.stride
    (made,) = lifter.emit(op, [x.base], start=start, limit=limit, stride=[1] * len(start))
    local = tuple(s[1:] if d == dim else s for d, s in enumerate(x.local))
    return replace(x, base=made, local=local, free=frozenset())


def side_by_side(lifter: Lifter, op: Op, helds: Sequence[Held], along: int) -> Held:
    """Values that ranks split along the dim in which they are put together: each keeps its own placement."""
    rest = {tuple(Repl(e.size) if isinstance(e, Digit) and e.dim == along else e for e in h.mesh) for h in helds}
    if len({h.scale for h in helds}) > 1 or len(rest) > 1 or any(h.pending for h in helds):
        raise Stop("placed-differently", "its operands lie differently")
    (made,) = lifter.emit(op, [h.base for h in helds])
    parts, lo, base_lo = [], 0, 0
    for tensor, held in zip(op.operands, helds, strict=True):
        size, whole = tensor.shape[along], held.base.shape[along]
        if held.along == along:
            parts += [Piece(p.lo + lo, p.hi + lo, p.base_lo + base_lo, p.base_hi + base_lo, p.cut) for p in held.parts]
        else:
            cut = sorted(held.cut(along), key=lambda p: -getattr(held.mesh[p], "stride", 0))
            parts.append(Piece(lo, lo + size, base_lo, base_lo + whole, tuple(cut)))
        lo, base_lo = lo + size, base_lo + whole
    mesh = tuple(Repl(e.size) if isinstance(e, Digit) and e.dim == along else e for e in helds[0].mesh)
    local = tuple(tidy([Digit(along, 1, lo)]) if d == along else s for d, s in enumerate(helds[0].local))
    return replace(helds[0], base=made, mesh=mesh, local=local, along=along, parts=tuple(parts), free=frozenset())
