"""Lifting ops that move elements: constants, broadcasts, reshapes, slices, concatenations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Digit, Entry, Repl

from .held import Held, Local, groups, readdressed, renumbered, split_digits, tidy, whole_dims
from .lift import Lifter, Noted, Stop, lifting
from .one_each import dropped, summed
from .refit import splat_of
from .straight import straightened


@lifting("constant", "empty")
def constant(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """The same constant, which fits every placement if it is one number."""
    result = op.result
    if result.literal is not None and splat_of(lifter, result) is not None:
        made = lifter.splat(result.literal, result.dtype, result.shape, op)
        return [Held.whole(made, lifter.grid, range(len(result.shape)))]
    (made,) = lifter.emit(op, [], [(result.dtype, result.shape)])
    made.literal = result.literal
    return [Held.whole(made, lifter.grid)]


@lifting("iota")
def iota(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """The same, which fits every placement of its other dims."""
    (made,) = lifter.emit(op, [], [(op.result.dtype, op.result.shape)])
    free = set(range(len(op.result.shape))) - {op.numbers["dimension"][0]}
    return [Held.whole(made, lifter.grid, free)]


@lifting("broadcast")
def broadcast(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Dims of the operand lie as they do; new ones fit every placement."""
    if lifter.is_odd(op.operands[0]):
        return [None]
    x, dims = lifter.held(op.operands[0]), op.numbers.get("dimensions", [])
    if not x.aligned and prod(op.result.shape) == prod(op.operands[0].shape) and dims == sorted(dims):
        return reshape(lifter, op)
    if not x.aligned:
        raise Stop("lemma", f"`{op.operands[0].name}` lies in another order than its dims")
    along = None if x.along is None else dims[x.along]
    shape, local = list(op.result.shape), list(whole_dims(op.result.shape))
    for i, d in enumerate(dims):
        shape[d], local[d] = x.base.shape[i], renumbered(x.local[i], d)
    (made,) = lifter.emit(op, [x.base], [(op.result.dtype, tuple(shape))])
    free = {d for d in range(len(shape)) if d not in dims} | {dims[i] for i in x.free}
    return [x.moved(dims, made, tuple(local), free=frozenset(free), along=along)]


@lifting("transpose")
def transpose(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Dims in another order, on both sides; of a value that lies in another order only the local dims."""
    if lifter.is_odd(op.operands[0]):
        return [None]
    x, order = lifter.held(op.operands[0]), op.numbers["dimensions"]
    if not x.aligned:
        return [replace(x, local=tuple(x.local[d] for d in order), free=frozenset())]
    to: list[int | None] = [order.index(d) for d in range(len(order))]
    (made,) = lifter.emit(op, [x.base])
    local = tuple(renumbered(x.local[d], i) for i, d in enumerate(order))
    along = None if x.along is None else order.index(x.along)
    return [x.moved(to, made, local, free=frozenset(order.index(d) for d in x.free), along=along)]


@lifting("reshape")
def reshape(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Dims regrouped; where ranks split some, one of the new dims of the group takes that over."""
    if lifter.is_odd(op.operands[0]):
        return [None]
    x, result = lifter.held(op.operands[0]), op.result
    if x.along is not None:
        return [_parts_regrouped(lifter, op, x, x.along)]
    if not x.aligned:
        local = split_digits([d for digits in x.local for d in digits], result.shape)
        if local is None:
            raise Stop("lemma", f"`{op.operands[0].name}` lies in another order than its dims")
        return [straightened(lifter, op, replace(x, local=tuple(local), free=frozenset()))]
    ways = _regroupings(x.local, x.mesh, x.base.shape, op.operands[0].shape, result.shape)
    if not ways:
        raise Stop("lemma", "nothing is known of how its dims are regrouped")
    alone = dropped(op, x)
    shape = lifter.choose((op.operands[0].shape, result.shape, x.base.shape, x.mesh), [*ways, *([()] if alone else [])])
    if alone and not shape:
        return [summed(lifter, op, x, alone)]
    (made,) = lifter.emit(op, [x.base], [(result.dtype, tuple(shape))])
    found = replace(ways[shape], scale=x.scale)
    free = frozenset(
        d for b, a in groups(op.operands[0].shape, result.shape) for d in a
        if x.free.issuperset(b) and (not b or (len(a) == len(b) == 1))
    )  # fmt: skip
    return [replace(found, base=made, free=free if splat_of(lifter, result) is None else frozenset(range(len(shape))))]


@lru_cache(maxsize=4096)
def _regroupings(
    local: Local, mesh: tuple[Entry, ...], whole: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> dict[tuple[int, ...], Held]:
    """Shapes of the baseline's result, the likeliest first, and the placement in each; layers ask the same."""
    x = Held(Tensor("f32", whole), local, mesh)
    found = ((way, regrouped(x, after, way)) for way in _ways(x, before, after))
    return {way: held for way, held in found if held is not None}


def _parts_regrouped(lifter: Lifter, op: Op, x: Held, along: int) -> Held:
    """Several values side by side along the major dim of those that are regrouped with it, in whole steps of it."""
    before, after = op.operands[0].shape, op.result.shape
    b, a = next((b, a) for b, a in groups(before, after) if along in b)
    plain = replace(x, along=None, parts=(), base=Tensor(x.base.dtype, tuple(
        before[d] if d == along else n for d, n in enumerate(x.base.shape))))  # fmt: skip
    found = None
    if b[0] == along and a and all(x.is_whole(d) for d in b[1:]):
        found = next((f for way in _ways(plain, before, after) if (f := regrouped(plain, after, way))), None)
    inner, step = prod(before[d] for d in b[1:]), prod(after[d] for d in a[1:])
    parts = [piece for p in x.parts if (piece := p.in_steps(inner, step)) is not None]
    if found is None or len(parts) < len(x.parts):
        raise Stop("lemma", f"`{op.operands[0].name}` holds several values side by side")
    first = a[0]
    shape = tuple(x.base.shape[along] * inner // step if d == first else n for d, n in enumerate(found.base.shape))
    (made,) = lifter.emit(op, [x.base], [(op.result.dtype, shape)])
    return replace(found, base=made, along=first, parts=tuple(parts))


def _ways(x: Held, before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Shapes of the baseline's result: in each group, dims that take what ranks split."""
    choices: list[list[list[int]]] = []
    found: list[tuple[tuple[int, int], list[int]]]
    for b, a in groups(before, after):
        more = [x.base.shape[d] // before[d] for d in b]
        if prod(more) == 1:
            choices.append([[after[d] for d in a]])
            continue
        found = []
        split = [ways for ways in more if ways > 1]
        starts = [prod(before[d] for d in b if d < e) for e, ways in zip(b, more, strict=True) if ways > 1]
        large = [before[e] for e, ways in zip(b, more, strict=True) if ways > 1]
        for taken in product(range(len(a)), repeat=len(split)):
            sizes = [after[d] for d in a]
            for ways, at in zip(split, taken, strict=True):
                sizes[at] *= ways
            own = sum(prod(after[d] for d in list(a)[:at]) != start for at, start in zip(taken, starts, strict=True))
            same = sum(after[list(a)[at]] != size for at, size in zip(taken, large, strict=True))
            found.append(((own, same), sizes))
        found.sort(key=lambda pair: pair[0])
        choices.append([sizes for n, (_, sizes) in enumerate(found) if sizes not in [s for _, s in found[:n]]])
    for parts in product(*choices):
        yield tuple(size for part in parts for size in part)


def regrouped(x: Held, after: Sequence[int], shape: Sequence[int]) -> Held | None:
    """The placement with the base's dims regrouped to `shape` and the local ones likewise; None where a digit would be
    cut unevenly or a local dim would hold parts of several."""
    total = x.base.shape
    mesh: list[Entry] = list(x.mesh)
    local_digits: list[list[Digit]] = [list(d) for d in x.local]
    for b, a in groups(total, shape):
        sizes = [shape[d] for d in a]
        inner = {d: prod(total[e] for e in b if e > d) for d in b}
        for d in b:
            found: list[Digit] = []
            for digit in x.local[d]:
                parts = readdressed(Digit(0, digit.stride * inner[d], digit.size), sizes, a.start) if a else []
                if parts is None:
                    return None
                found += parts
            local_digits[d] = found
        for p, entry in enumerate(x.mesh):
            if isinstance(entry, Digit) and entry.dim in b:
                parts = readdressed(Digit(0, entry.stride * inner[entry.dim], entry.size), sizes, a.start)
                if parts is None or len(parts) != 1:
                    return None
                mesh[p] = parts[0]
    flat = [digit for digits in local_digits for digit in digits]
    wanted: list[int] = []
    for d, size in enumerate(shape):
        cut = prod(e.size for e in mesh if isinstance(e, Digit) and e.dim == d)
        if size % cut:
            return None
        wanted.append(size // cut)
    if tuple(wanted) != tuple(after):
        return None
    local = split_digits(flat, wanted)
    if local is None or any(digit.dim != d for d, digits in enumerate(local) for digit in digits):
        return None
    return Held(Tensor(x.base.dtype, tuple(shape)), tuple(map(tidy, local)), tuple(mesh), x.scale)


@lifting("slice")
def slice_(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Slices of dims that no rank splits are slices; a block of a replicated dim that the rank's coordinate chooses
    is a placement; a slice of one of several values side by side is that value."""
    from .blocks import own_blocks, part_of

    if lifter.is_odd(op.operands[0]):
        return [None]
    x, operand = lifter.held(op.operands[0]), op.operands[0]
    if op.rank_numbers or op.strides:
        return [own_blocks(lifter, op, x)]
    start, limit = op.numbers["start"], op.numbers["limit"]
    stride = op.numbers.get("stride") or [1] * len(start)
    lo, hi = list(start), list(limit)
    for d, n in enumerate(operand.shape):
        if (start[d], limit[d], stride[d]) == (0, n, 1):
            if d < len(x.base.shape) and x.along != d:
                lo[d], hi[d] = 0, x.base.shape[d]
        elif x.along == d or not x.is_whole(d):
            return [part_of(lifter, op, x, d)]
    if not x.aligned:
        if all((a, b, s) == (0, n, 1) for a, b, s, n in zip(start, limit, stride, operand.shape, strict=True)):
            return [x]
        raise Stop("lemma", f"`{operand.name}` lies in another order than its dims")
    (made,) = lifter.emit(op, [x.base], start=lo, limit=hi, stride=stride)
    local = [x.local[d] if hi[d] - lo[d] == x.base.shape[d] and stride[d] == 1 else tidy([Digit(d, 1, made.shape[d])])
             for d in range(len(lo))]  # fmt: skip
    return [replace(x, base=made, local=tuple(local))]


@lifting("concatenate")
def concatenate(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Along a dim that no rank splits."""
    from .blocks import side_by_side
    from .elementwise import placed_alike

    along = op.numbers["dimension"][0]
    helds = []
    for t in op.operands:
        helds.append(lifter.held(t))
    mesh = {h.mesh for h in helds}
    if any(not h.aligned or h.along not in (None, along) for h in helds):
        raise Stop("lemma", "an operand lies in another order than its dims")
    whole = [h.is_whole(along) or along in h.free for h in helds]
    if not all(whole):
        return [side_by_side(lifter, op, helds, along)]
    if len(mesh) > 1 or (any(h.free for h in helds) and not any(h.pending for h in helds)):
        wants = []
        for n, h in enumerate(helds):
            others = [replace(o, free=o.free | {along}, local=_own(o, h, along), base=_sized(o, h, along))
                      for m, o in enumerate(helds) if m != n]  # fmt: skip
            wants.append(placed_alike(lifter, op, [h, *others]))
        fitted = [lifter.refit(t, want) if h.free else h for t, h, want in zip(op.operands, helds, wants, strict=True)]
        if any(f is None for f in fitted):
            raise Stop("placed-differently", "its operands lie differently")
        helds = [f for f in fitted if f is not None]
    if len({(h.mesh, h.scale) for h in helds}) > 1:
        raise Stop("placed-differently", "its operands lie differently, or are not reduced alike")
    _note_order(lifter, op)
    (made,) = lifter.emit(op, [h.base for h in helds])
    local = list(helds[0].local)
    local[along] = tidy([Digit(along, 1, made.shape[along])])
    return [replace(helds[0], base=made, local=tuple(local), free=frozenset.intersection(*(h.free for h in helds)))]


def _note_order(lifter: Lifter, op: Op) -> None:
    """Says where blocks that were gathered are put together in another order than ranks have them."""
    blocks = [lifter.out.block_of.get(t) for t in op.operands]
    order = [block[1] for block in blocks if block is not None]
    if len(order) == len(blocks) > 1 and len({t for t, _ in filter(None, blocks)}) == 1 and order != sorted(order):
        (source, _), *_ = filter(None, blocks)
        text = f"blocks of `{source.name}` are put together in the order {', '.join(map(str, order))} of the ranks"
        lifter.out.notes.append(Noted(op, "reordered", text))


def _own(other: Held, mine: Held, dim: int) -> tuple[tuple[Digit, ...], ...]:
    return tuple(mine.local[d] if d == dim else digits for d, digits in enumerate(other.local))


def _sized(other: Held, mine: Held, dim: int) -> Tensor:
    shape = [mine.base.shape[d] if d == dim else n for d, n in enumerate(other.base.shape)]
    return Tensor(other.base.dtype, tuple(shape))


@lifting("pad")
def pad(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Of dims that no rank splits."""
    x, fill = lifter.held(op.operands[0]), lifter.held(op.operands[1])
    dims = range(len(op.operands[0].shape))
    padded = [d for d in dims if any(op.numbers[key][d] for key in ("low", "high", "interior") if op.numbers.get(key))]
    if any(x.cut(d) for d in padded):
        raise Stop("lemma", f"it pads a dim of `{op.operands[0].name}` which ranks hold in blocks")
    _whole_dims(op, x, padded, "pads")
    number = splat_of(lifter, op.operands[1])
    if x.pending and (number is None or number.rational != 0):
        raise Stop("added-per-rank", f"`{op.operands[0].name}` is still to be reduced, and is padded by no zeros")
    (made,) = lifter.emit(op, [x.base, fill.base])
    local = tuple(tidy([Digit(d, 1, made.shape[d])]) if d in padded else digits for d, digits in enumerate(x.local))
    return [replace(x, base=made, local=local, free=frozenset())]


@lifting("reverse", "cumulative", "sort")
def in_order(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Ops along a dim that has to be whole."""
    helds = [lifter.held(t) for t in op.operands]
    dims = op.numbers.get("dimensions") or op.numbers["dimension"]
    x = helds[0]
    if len({(h.local, h.mesh) for h in helds}) > 1:
        raise Stop("placed-differently", "its operands lie differently")
    _whole_dims(op, x, dims, f"is a `{op.kind}` along")
    linear = op.kind == "reverse" or (op.kind == "cumulative" and op.symbols["reducer"] == ["sum"])
    if not x.calm and not (linear and all(getattr(e, "reducer", "sum") == "sum" for e in x.mesh)):
        raise Stop("non-linear", f"`{op.operands[0].name}` is still to be reduced")
    made = lifter.emit(op, [h.base for h in helds])
    return [replace(x, base=t, free=frozenset()) for t in made]


@lifting("top-k")
def top_k(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Along the last dim, which has to be whole."""
    x = lifter.held(op.operands[0])
    last = len(op.operands[0].shape) - 1
    _whole_dims(op, x, [last], "takes the largest along")
    if not x.calm:
        raise Stop("non-linear", f"`{op.operands[0].name}` is still to be reduced")
    made = lifter.emit(op, [x.base])
    local = (*x.local[:last], tidy([Digit(last, 1, op.results[0].shape[-1])]))
    return [replace(x, base=t, local=local, free=frozenset()) for t in made]


def _whole_dims(op: Op, x: Held, dims: Sequence[int], does: str) -> None:
    """Stop where a dim that has to be whole is split."""
    for d in dims:
        if not x.is_whole(d):
            if x.cut(d) and op.kind != "reverse":
                raise Stop("whole-dim", f"it {does} dim {d} of `{op.operands[0].name}`, which ranks hold in blocks")
            raise Stop("lemma", f"`{op.operands[0].name}` lies in another order than its dims")


@lifting("dropout-mask", "rng-uniform", "rng-normal", "rng", "rng-bit-generator")
def random(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """One draw per element of what the mask is for."""
    if op.kind != "dropout-mask":
        raise Stop("lemma", f"`{op.kind}` draws on every rank for itself: which of its numbers are one device's?")
    x = lifter.held(op.operands[0])
    if x.pending:
        raise Stop("non-linear", f"`{op.operands[0].name}` is still to be reduced where the mask is drawn")
    (made,) = lifter.emit(op, [x.base])
    return [replace(x, base=made, free=frozenset(), scale=x.scale * 0 + 1)]


def replicated(held: Held) -> bool:
    """Whether every rank has all of it."""
    return all(isinstance(e, Repl) for e in held.mesh)
