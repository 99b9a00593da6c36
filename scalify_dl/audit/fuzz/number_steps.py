"""Random steps around the arithmetic of types: masks, positions and constants that pass through numbers which may wrap
round, and through casts; right and wrong."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import spread
from .indexed_steps import blocks, keep, per_rank, read
from .padding_steps import uneven_shard
from .partitioner_steps import part
from .world import Retry, World, step

LIMIT = {"s8": 127, "u8": 255, "s16": 32767, "s32": 2**31 - 1, "s64": 2**31 - 1, "u32": 2**31 - 1}
"""The largest number of a type that facts can say."""


def _with(w: World, g: Graph, kind: str, x: Tensor, number: int) -> Tensor:
    return w.emit(g, kind, [x, g.splat(number, x.dtype, x.shape)])


def _is(w: World, g: Graph, x: Tensor, direction: str, number: int) -> Tensor:
    return w.emit(g, "compare", [x, g.splat(number, x.dtype, x.shape)], direction=direction)


def retyped(w: World, mask: Tensor, ids: Tensor, low: Tensor) -> Tensor:
    """A mask that is the same over the whole numbers, in the arithmetic of a type, where it may be another. `low` is
    zero on some rank."""
    g, way = w.dist, w.rng.choice(["less", "negated", "cast", "narrow", "large", "large", "product", "divided"])
    dtype = w.rng.choice(["u32", "u32", "u64", "s32", "s64", "f32"])
    if way == "less":
        less = _with(w, g, "subtract", w.emit(g, "convert", [mask], dtype=dtype), 1)
        return w.emit(g, "not", [_is(w, g, less, "LT", 0)])
    if way == "negated":
        return _is(w, g, w.emit(g, "negate", [w.emit(g, "convert", [mask], dtype=dtype)]), "LT", 0)
    if way == "cast":
        below = w.emit(g, "negate", [w.emit(g, "convert", [mask], dtype="s32")])
        return _is(w, g, w.emit(g, "convert", [below], dtype=dtype), "LT", 0)
    if way == "narrow":
        top = LIMIT[dtype := w.rng.choice(["s8", "u8", "s16", "s32"])] // 2 + 1
        twice = _with(w, g, "add", g.splat(top, dtype, mask.shape), top)
        return w.emit(g, "and", [mask, _is(w, g, twice, "GE", top)])
    if way == "divided" and w.chance(0.3):
        third = _with(w, g, "divide", g.splat(8, dtype, ids.shape), 3)
        return w.emit(g, "and", [mask, _is(w, g, third, "LE", 2)])
    if way == "divided":
        by = w.rng.choice([low, ids, g.splat(w.rng.choice([0, 3]), ids.dtype, ids.shape)])
        kind = w.rng.choice(["divide", "remainder", "floor-divide"])
        quotient = w.emit(g, kind, [ids if w.chance(0.2) else g.splat(8, ids.dtype, ids.shape), by])
        return w.emit(g, "and", [mask, _is(w, g, quotient, "GE", 0)])
    number = w.emit(g, "convert", [ids], dtype="s64") if w.chance(0.2) else ids
    if way == "product":
        sign, times = w.rng.choice([1, -1]), w.rng.choice([1, 4])
        number = _with(w, g, "multiply", _with(w, g, "maximum", number, 1), sign * 2**28)
        for _ in range(times if w.chance(0.6) else 0):
            number = w.emit(g, "add", [number, number])
        number = _with(w, g, "multiply", number, times**3)
        return w.emit(g, "and", [mask, _is(w, g, number, "GT" if sign > 0 else "LT", 0)])
    sign = w.rng.choice([1, -1])
    number = g.splat(0, ids.dtype, ids.shape) if w.chance(0.3) else number
    for _ in range(w.rng.choice([1, 4, 5])):
        number = _with(w, g, "add", number, sign * 2**29)
    return w.emit(g, "and", [mask, _is(w, g, number, "GT" if sign > 0 else "LT", 0)])


@step("typed-mask", 0.4)
def typed_mask(w: World) -> None:
    """A read of a sharded table under a mask that passes through the arithmetic of a type."""
    table, first, size, axes = blocks(w, 0, [w.rng.choice([4, 8]), 2])
    ids = w.pair.input((4,), dtype="s32", range=(0, table.base.shape[0]))
    low, high = (per_rank(w, {r: f + n for r, f in first.items()}, ids[1]) for n in (0, size))
    ends = [w.emit(w.dist, "compare", [ids[1], end], direction=way) for end, way in ((low, "GE"), (high, "LT"))]
    mask, near = w.emit(w.dist, "and", ends), w.emit(w.dist, "subtract", [ids[1], low])
    rows = keep(w, w.dist, retyped(w, mask, ids[1], low), read(w, w.dist, table.dist, near))
    rows = w.emit(w.dist, "all-reduce", [rows], reducer="sum", groups=w.pair.groups(*axes))
    w.add(read(w, w.base, table.base, ids[0]), rows)


@step("positions", 0.5)
def positions(w: World) -> None:
    """Positions along a sharded dim, or along the other one, computed in different types on the two sides."""
    count = w.rng.choice([4, 8, 12])
    x, first, size, _ = blocks(w, 0, [count, 4])
    if x.dist.shape[1] != 4:
        raise Retry
    way = w.rng.choice(["subtracted", "negated", "large", "other dim", "merged"])
    final, large = w.rng.choice(["s64", "s64", "s32", "f32"]), w.rng.choice([100, 2**30 - 1])
    found = []
    for g, extent in ((w.base, count), (w.dist, size)):
        dtype = w.rng.choice(["u32", "s32", "s32", "s64"])
        along = w.emit(g, "iota", [], shape=(extent,), dtype=dtype, dimension=0)
        if g is w.dist:
            mark = g.add("constant", [], [(dtype, ())])
            mark.rank_numbers["value", 0] = first
            along = w.emit(g, "add", [along, spread(g, mark.result, (extent,), [])])
        if way == "subtracted":
            along = w.emit(g, "subtract", [g.splat(3, dtype, along.shape), along])
        elif way == "negated":
            along = w.emit(g, "negate", [along])
        elif way == "large":
            for _ in range(3):
                along = _with(w, g, "add", along, large)
        elif way == "merged" and g is w.base:
            inner = w.emit(g, "iota", [], shape=(2, count // 2), dtype=dtype, dimension=w.rng.choice([0, 1, 1]))
            along = w.emit(g, "reshape", [inner], shape=(count,))
        wide = spread(g, along, (extent, 4), [0])
        if way == "other dim":
            other = w.emit(g, "iota", [], shape=(4,), dtype=dtype, dimension=0)
            choices = [spread(g, other, (extent, 4), [1]), g.splat(0, dtype, (extent, 4)), wide]
            wide = choices[0] if g is w.base else w.rng.choice(choices)
        found.append(w.emit(g, "convert", [wide], dtype=final))
    numbers = w.pair.input((count, 4), dtype=final, layout=w.placement(x), range=None if final == "f32" else (0, 6))
    w.add(*(w.emit(g, "multiply", [n, p]) for g, n, p in zip((w.base, w.dist), numbers, found, strict=True)))


ORDERED: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip


def _folded(kind: str, a: Fraction, b: Fraction) -> Fraction:
    """What an op makes of two numbers of any size (of a division by zero anything)."""
    if kind == "divide":
        return a / b if b else a
    return {"add": a + b, "subtract": a - b, "multiply": a * b, "maximum": max(a, b), "minimum": min(a, b)}[kind]


@step("folded-number", 0.4)
def folded_number(w: World) -> None:
    """A value times a number that the distributed side computes from constants, and the baseline over the rationals."""
    if w.chance(0.4):
        dtype, kinds = "s32", ["add", "subtract"]
        numbers = [1, 2, -1, 2**31 - 1, 1 - 2**31]
    else:
        dtype, kinds = w.rng.choice(["s32", "f32"]), ["divide", "divide", "divide", "add", "subtract", "multiply"]
        kinds += ["maximum", "minimum"]
        numbers = [1, 2, 3, 5, -2, -3] + [0] * w.slip()
    g, exact = w.dist, Fraction(start := w.rng.choice(numbers))
    number = g.constant(start, dtype)
    for _ in range(w.rng.randint(1, 3)):
        kind, value = w.rng.choice(kinds), w.rng.choice(numbers)
        operands, values = [number, g.constant(value, dtype)], [exact, Fraction(value)]
        if w.chance(0.3):
            operands.reverse()
            values.reverse()
        number, exact = w.emit(g, kind, operands), _folded(kind, *values)
    if w.chance(0.2):  # every rank brings it
        groups = w.pair.groups(w.rng.choice(w.axes()))
        row = w.emit(g, "all-gather", [w.emit(g, "reshape", [number], shape=(1,))], dimension=0, groups=groups)
        number = w.emit(g, "reshape", [w.emit(g, "slice", [row], start=[0], limit=[1], stride=[1])], shape=())
    if dtype != "f32" or w.chance(0.3):
        near = max(-LIMIT["s32"], min(LIMIT["s32"], math.floor(exact)))
        bound, way = w.rng.choice([near, near + (near < 0), 0, w.rng.choice(numbers)]), w.rng.choice(list(ORDERED))
        compared, values = [number, g.constant(bound, dtype)], [exact, Fraction(bound)]
        if w.chance(0.5):
            compared.reverse()
            values.reverse()
        there = w.emit(g, "compare", compared, direction=way)
        number = w.emit(g, "select", [there, g.constant(2.0, "f32"), g.constant(4.0, "f32")])
        exact = Fraction(2 if ORDERED[way](*values) else 4)
    x = w.twin()
    plain = w.base.constant(float(exact), "f32")
    w.add(
        w.emit(w.base, "multiply", [x.base, spread(w.base, plain, x.base.shape, [])]),
        w.emit(g, "multiply", [x.dist, spread(g, number, x.dist.shape, [])]),
    )


@step("padded-nothing", 0.2)
def padded_nothing(w: World) -> None:
    """A number everywhere, as the padding of a part without elements (or, slipped, of one with some)."""
    x, number = w.twin(), w.rng.choice([0.0, 2.0, -0.5])
    g, shape = w.dist, x.dist.shape
    if not shape:
        raise Retry
    d = w.rng.randrange(len(shape))
    count = min(shape[d], w.slip())
    start, limit, low, high = [0] * len(shape), list(shape), [0] * len(shape), [0] * len(shape)
    start[d] = low[d] = w.rng.randint(0, shape[d] - count)
    limit[d] = start[d] + count
    high[d] = shape[d] - limit[d]
    part = w.emit(g, "slice", [x.dist], start=start, limit=limit, stride=[1] * len(shape))
    padded = w.emit(g, "pad", [part, g.constant(number, x.dist.dtype)], low=low, high=high, interior=[0] * len(shape))
    plain = w.base.splat(number, x.base.dtype, x.base.shape)
    w.add(w.emit(w.base, "add", [x.base, plain]), w.emit(g, "add", [x.dist, padded]))


@step("part-of-a-rank", 0.4)
def part_of_a_rank(w: World) -> None:
    """Elements of a sharded dim that one rank has, the last ones for example: every rank cuts its own, perhaps they are
    passed on, and one rank's are kept."""
    mesh = w.pair.mesh
    over = [i for i, (_, n) in enumerate(mesh.axes) if n > 1]
    w.rng.shuffle(over)
    over = over[: w.rng.choice([1, 1, 2])]
    axes = [mesh.axes[i][0] for i in over]
    count = math.prod(mesh.axes[i][1] for i in over)
    ranks = list(enumerate(mesh.coordinates))
    whole = 4 * count
    if len(over) == 1 and w.chance(0.2):  # a dim that is not cut evenly, with something in the padding
        whole -= 1
        base, full = w.pair.input((whole, 2))
        local = uneven_shard(w.pair, full, 0, axes[0], filler=5.0)
    else:
        base, local = w.pair.input((whole, 2), {0: axes})
    if w.chance(0.3):
        local = w.emit(w.dist, "multiply", [local, w.dist.splat(2.0, "f32", local.shape)])

    def block(at: tuple[int, ...]) -> int:
        number = 0
        for i in over:
            number = number * mesh.axes[i][1] + at[i]
        return number

    lo, n = w.rng.choice([(0, 1), (3, 1), (2, 1), (2, 2), (0, 2)])
    owner, own = w.rng.randrange(count), part(w.dist, local, 0, lo, lo + n)
    keeper = owner
    if w.chance(0.5):
        keeper = w.rng.randrange(count)
        away = [i for i in range(len(mesh.axes)) if i not in over]
        pairs = [
            (q, r) for q, there in ranks for r, here in ranks
            if block(there) == owner and block(here) == keeper and all(there[i] == here[i] for i in away)
        ]  # fmt: skip
        if w.slip():
            others = [pairs[1:], [(w.rng.randrange(len(ranks)), r) for _, r in pairs]]
            pairs = w.rng.choice([*others, [(q, r) for (q, _), (_, r) in zip(pairs, pairs[::-1], strict=True)]])
        if not pairs or len({q for q, _ in pairs}) != len(pairs):
            raise Retry
        own = w.emit(w.dist, "collective-permute", [own], pairs=pairs)
    looked = over[: 1 if w.chance(0.4) else None]
    first = next(at for _, at in ranks if block(at) == keeper)
    mark = w.dist.add("constant", [], [("pred", ())])
    mark.rank_numbers["value", 0] = {r: int(all(at[i] == first[i] for i in looked)) for r, at in ranks}
    wide = spread(w.dist, mark.result, own.shape, [])
    kept = w.emit(w.dist, "select", [wide, own, w.dist.splat(0.0, "f32", own.shape)])
    start = 4 * owner + lo + (w.rng.choice([-1, 1]) if w.slip() else 0)
    if not 0 <= start <= whole - n:
        raise Retry
    expected = part(w.base, base, 0, start, start + n)
    if w.chance(0.5):
        expected = w.emit(w.base, "multiply", [expected, w.base.splat(2.0, "f32", expected.shape)])
    w.add(expected, kept)
    w.add(expected, w.emit(w.dist, "all-reduce", [kept], reducer="sum", groups=w.pair.groups(*axes)))
