"""Random steps over shards of uneven size: padded to a multiple, computed on, masked, reduced or cut back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Tensor

from ..pair import Pair
from .partitioner_steps import part, rank_scalar
from .world import Retry, World, step

NEUTRAL = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}
KINDS = (
    "tanh", "exponential", "negate", "logistic", "cosine", "abs", "log", "sqrt", "multiply", "add", "divide",
    "add a number", "multiply by a number", "divide by a number",
)  # fmt: skip
NUMBERS = (-1.0, -0.3, 0.0, 0.5, 2.0)
ENDS = ("gather", "sum", "max", "min", "dot", "other sum", "other dot", "other max", "batch dot")
LATE = "0 < index < n"
"""A mask that leaves out the first element, too."""
SPELLINGS = ("index < n", "n > index", "index <= n-1", "not index >= n", "own < n - first", "index and not past")


def first(pair: Pair, axis: str, block: int) -> list[int]:
    """Where the block of each rank begins, blocks of equal size along an axis."""
    at = [name for name, _ in pair.mesh.axes].index(axis)
    return [c[at] * block for c in pair.mesh.coordinates]


def uneven_shard(
    pair: Pair, x: Tensor, dim: int, axis: str, *, filler: float = 0.0, low: int = 0, beside: int = 0
) -> Tensor:  # fmt: skip
    """The own block of a replicated value along a dim, padded to a multiple of the axis with `filler` (`low` elements
    of it in front, and `beside` at the end of another dim)."""
    g, n, ways = pair.dist, x.shape[dim], dict(pair.mesh.axes)[axis]
    block = -(-n // ways)
    edges = [[low if d == dim else 0 for d in range(len(x.shape))], [0] * len(x.shape)]
    edges[1][dim] = block * ways - n - low
    edges[1][dim - 1] += beside
    padded = g.emit(
        "pad", [x, g.constant(filler, x.dtype)], low=edges[0], high=edges[1], interior=[0] * len(x.shape)
    )  # fmt: skip
    zero, offset = g.constant(0, "s32"), rank_scalar(pair, first(pair, axis, block))
    return g.emit(
        "dynamic-slice", [padded, *(offset if d == dim else zero for d in range(len(x.shape)))],
        sizes=[block if d == dim else m for d, m in enumerate(padded.shape)],
    )  # fmt: skip


def inside(pair: Pair, shape: Sequence[int], dim: int, axis: str, n: int, *, spelling: str = SPELLINGS[0]) -> Tensor:
    """Whether elements of the own block along a dim are among the first `n` of all blocks."""
    g, shape = pair.dist, tuple(shape)
    own = g.emit("iota", [], shape=shape, dtype="s32", dimension=dim)
    offset = g.emit("broadcast", [rank_scalar(pair, first(pair, axis, shape[dim]))], shape=shape, dimensions=[])
    index = g.emit("add", [own, offset])

    def compare(a: Tensor, b: Tensor, direction: str) -> Tensor:
        return g.emit("compare", [a, b], direction=direction)

    def number(value: int) -> Tensor:
        return g.splat(value, "s32", shape)

    match spelling:
        case "n > index":
            return compare(number(n), index, "GT")
        case "index <= n-1":
            return compare(index, number(n - 1), "LE")
        case "not index >= n":
            return g.emit("not", [compare(index, number(n), "GE")])
        case "own < n - first":
            return compare(own, g.emit("subtract", [number(n), offset]), "LT")
        case "0 < index < n":
            return g.emit("and", [compare(index, number(0), "GT"), compare(index, number(n), "LT")])
        case "index and not past":
            return g.emit("and", [compare(index, number(0), "GE"), compare(index, number(n), "LT")])
        case _:
            return compare(index, number(n), "LT")


def masked(
    pair: Pair, x: Tensor, dim: int, axis: str, n: int, filler: float, *, spelling: str = SPELLINGS[0],
    multiply: bool = False,
) -> Tensor:  # fmt: skip
    """Elements beyond the first `n` replaced by a number, or multiplied by zero."""
    keep = inside(pair, x.shape, dim, axis, n, spelling=spelling)
    if multiply:
        return pair.dist.emit("multiply", [x, pair.dist.emit("convert", [keep], dtype=x.dtype)])
    return pair.dist.emit("select", [keep, x, pair.dist.splat(filler, x.dtype, x.shape)])


def gathered(
    pair: Pair, x: Tensor, dim: int, axis: str, n: int, *, low: int = 0, cut: bool = False, beside: int = 0
) -> Tensor:  # fmt: skip
    """All blocks, and `n` elements of them from `low` on, by a slice or by a pad that cuts (and cuts `beside` elements
    of another dim)."""
    g = pair.dist
    whole = g.emit("all-gather", [x], dimension=dim, groups=pair.groups(axis))
    if cut:
        edges = [[-low if d == dim else 0 for d in range(len(whole.shape))], [0] * len(whole.shape)]
        edges[1][dim] = low + n - whole.shape[dim]
        edges[1][dim - 1] -= beside
        zero = [0] * len(whole.shape)
        return g.emit("pad", [whole, g.constant(0.0, x.dtype)], low=edges[0], high=edges[1], interior=zero)
    limit = [low + n if d == dim else m for d, m in enumerate(whole.shape)]
    start = [low if d == dim else 0 for d in range(len(limit))]
    return g.emit("slice", [whole], start=start, limit=limit, stride=[1] * len(limit))


def worked(w: World, x: Tensor, y: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """An op on both sides: on the value alone, with a number, or with another function of it."""
    if kind in ("multiply", "add", "divide"):
        o, p = (x, y) if w.chance(0.5) else (w.emit(w.base, "tanh", [x]), w.emit(w.dist, "tanh", [y]))
        return w.emit(w.base, kind, [x, o]), w.emit(w.dist, kind, [y, p])
    if " " in kind:
        number, op = w.rng.choice(NUMBERS), kind.split()[0]
        return (
            w.emit(w.base, op, [x, w.base.splat(number, "f32", x.shape)]),
            w.emit(w.dist, op, [y, w.dist.splat(number, "f32", y.shape)]),
        )
    return w.emit(w.base, kind, [x]), w.emit(w.dist, kind, [y])


@step("uneven", 0.8)
def uneven(w: World) -> None:
    """A value whose extent the axis does not divide: ops on its shards, then a reduction, a product or a gather."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    n, dim = w.rng.choice([5, 7, 10]), w.rng.randrange(2)
    if n % ways == 0:
        raise Retry
    shape = [4, 4]
    shape[dim] = n
    others = [a for a, z in w.pair.mesh.axes if a != axis and z == 2]
    other = others[0] if others and w.chance(0.6) else ""
    how = w.rng.choice(["cut", "cut", "sum", "max"]) if other else ""
    layout = (
        w.pair.layout(shape, {1 - dim: other}) if how == "cut"
        else w.pair.layout(shape, {}, pending={other: how} if how else {})
    )  # fmt: skip
    t = w.input("f32", shape=shape, layout=layout)
    filler = w.rng.choice([0.0, 0.0, 1.0, -5.0, float("-inf")])
    low = 1 if w.slip() and -(-n // ways) * ways > n else 0
    x, y = t.base, uneven_shard(w.pair, t.dist, dim, axis, filler=filler, low=low, beside=w.slip() and w.chance(0.3))
    for _ in range(w.rng.randrange(4)):
        x, y = worked(w, x, y, w.rng.choice(KINDS))
    end = w.rng.choice(ENDS)
    bound = n + (w.rng.choice([-1, 1]) if w.slip() else 0)
    if end.startswith(("other", "batch")):  # over the other dim
        over = {"dimensions": [1 - dim], "reducer": end[6:]}
        if end == "batch dot":
            o = w.input("f32", shape=tuple(x.shape), layout=w.pair.layout(x.shape, {}))
            z = uneven_shard(w.pair, o.dist, dim, axis, filler=w.rng.choice([0.0, 1.0]))
            dims = {"lhs_batch_dims": [dim], "rhs_batch_dims": [dim]}
            dims |= {"lhs_contracting_dims": [1 - dim], "rhs_contracting_dims": [1 - dim]}
            x, y = w.emit(w.base, "dot", [x, o.base], **dims), w.emit(w.dist, "dot", [y, z], **dims)
        elif end == "other dot":
            size = (x.shape[1 - dim], 2)
            o = w.input("f32", shape=size, layout=w.pair.layout(size, {}))
            dims = {"lhs_contracting_dims": [1 - dim], "rhs_contracting_dims": [0]}
            x, y = w.emit(w.base, "dot", [x, o.base], **dims), w.emit(w.dist, "dot", [y, o.dist], **dims)
        else:
            x, y = w.emit(w.base, "reduce", [x], **over), w.emit(w.dist, "reduce", [y], **over)
        w.add(x, y)
        w.add(x, gathered(w.pair, y, 0, axis, n, low=w.slip(), cut=w.chance(0.3)))
    elif end in NEUTRAL:
        if w.chance(0.8):
            neutral = NEUTRAL[w.rng.choice(list(NEUTRAL)) if w.slip() else end]
            times = neutral == 0.0 and w.chance(0.4)
            along = 1 - dim if w.slip() else dim
            spelling = LATE if w.slip() else w.rng.choice(SPELLINGS)
            y = masked(w.pair, y, along, axis, bound, neutral, spelling=spelling, multiply=times)
        part = w.emit(w.dist, "reduce", [y], dimensions=[dim], reducer=end)
        total = w.emit(w.dist, "all-reduce", [part], reducer=end, groups=w.pair.groups(axis))
        w.add(w.emit(w.base, "reduce", [x], dimensions=[dim], reducer=end), total)
    elif end == "dot":
        other_side = w.input("f32", shape=[n, 2], layout=w.pair.layout([n, 2], {}))
        z = uneven_shard(w.pair, other_side.dist, 0, axis, filler=w.rng.choice([0.0, 0.0, 1.0]))
        if w.chance(0.5):
            y = masked(w.pair, y, dim, axis, bound, w.rng.choice([0.0, 0.0, 2.0]), spelling=w.rng.choice(SPELLINGS))
        dims = {"lhs_contracting_dims": [dim], "rhs_contracting_dims": [0]}
        part = w.emit(w.dist, "dot", [y, z], **dims)
        w.add(
            w.emit(w.base, "dot", [x, other_side.base], **dims),
            w.emit(w.dist, "all-reduce", [part], reducer="sum", groups=w.pair.groups(axis)),
        )
    else:
        beside = int(w.slip() and y.shape[1 - dim] > 1)
        w.add(x, gathered(w.pair, y, dim, axis, n, low=w.slip(), cut=w.chance(0.3), beside=beside))


@step("cut-short", 0.15)
def cut_short(w: World) -> None:
    """A value padded at its end, on one side, by a negative number of elements, or by none; then reduced."""
    t = w.twin(least=1)
    if not t.dist.shape or len(t.dist.shape) != len(t.base.shape):
        raise Retry
    dim = w.rng.randrange(len(t.dist.shape))
    high = [w.rng.choice([-1, 0, 1]) if d == dim else 0 for d in range(len(t.dist.shape))]
    none = [0] * len(high)
    cut = w.emit(w.dist, "pad", [t.dist, w.dist.constant(0.0, "f32")], low=none, high=high, interior=none)
    w.add(t.base, cut)
    w.add(*(
        w.emit(g, "reduce", [x], dimensions=[dim], reducer="sum") for g, x in ((w.base, t.base), (w.dist, cut))
    ))  # fmt: skip


@step("padded-blocks", 0.4)
def padded_blocks(w: World) -> None:
    """A value among zeros (or something else) on both sides, as one of so many blocks."""
    t = w.twin(least=1)
    if not t.dist.shape or len(t.dist.shape) != len(t.base.shape) or t.dist.dtype != "f32":
        raise Retry
    dim, blocks = w.rng.randrange(len(t.dist.shape)), w.rng.choice([2, 2, 3])
    at, between = w.rng.randrange(blocks), int(w.slip())
    half_before, half_behind, also = w.slip(), w.slip(), w.rng.randrange(len(t.dist.shape)) if w.slip() else dim
    padded = []
    for g, x in ((w.base, t.base), (w.dist, t.dist)):
        k, half = w.rng.randrange(blocks) if w.slip() else at, x.shape[dim] // 2
        low = k * x.shape[dim] + half * half_before - w.slip()
        high = (blocks - 1 - k) * x.shape[dim] - half * (half_before - half_behind)
        edges = {"low": low, "high": high, "interior": between}
        lists = {name: [n if d == dim else 0 for d in range(len(x.shape))] for name, n in edges.items()}
        lists["high"][also] += also != dim
        padded.append(w.emit(g, "pad", [x, g.constant(1.0 if w.slip() else 0.0, "f32")], **lists))
    w.add(*padded)


@step("uneven-integers", 0.2)
def uneven_integers(w: World) -> None:
    """Whole numbers over a dim that the axis does not divide: division truncates."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    n = w.rng.choice([5, 7])
    if n % ways == 0:
        raise Retry
    t = w.input("s32", shape=[n, 2], layout=w.pair.layout([n, 2], {}))
    x, y = t.base, uneven_shard(w.pair, t.dist, 0, axis, filler=w.rng.choice([0, 1]))
    for _ in range(w.rng.randrange(1, 4)):
        kind, number = w.rng.choice(["divide", "multiply", "add", "divide"]), w.rng.choice([1, 2, 3])
        x = w.emit(w.base, kind, [x, w.base.splat(number, "s32", x.shape)])
        y = w.emit(w.dist, kind, [y, w.dist.splat(number, "s32", y.shape)]) if not w.slip() else y
        if w.chance(0.3):
            x, y = (
                w.emit(g, "divide", [v, w.emit(g, "add", [v, g.splat(1, "s32", v.shape)])])
                for g, v in ((w.base, x), (w.dist, y))
            )
    part = w.emit(w.dist, "reduce", [y], dimensions=[0], reducer="sum")
    total = w.emit(w.dist, "all-reduce", [part], reducer="sum", groups=w.pair.groups(axis))
    w.add(w.emit(w.base, "reduce", [x], dimensions=[0], reducer="sum"), total)
    w.add(x, gathered(w.pair, y, 0, axis, n))


def on_one_rank(pair: Pair, x: Tensor, axis: str, chosen: int) -> Tensor:
    """The value at one coordinate of an axis; a sum puts zeros there from the others."""
    g = pair.dist
    own = rank_scalar(pair, first(pair, axis, 1))
    here = g.emit("compare", [own, g.constant(chosen, "s32")], direction="EQ")
    wide = g.emit("broadcast", [here], shape=x.shape, dimensions=[])
    kept = g.emit("select", [wide, x, g.splat(0.0, x.dtype, x.shape)])
    return g.emit("all-reduce", [kept], reducer="sum", groups=pair.groups(axis))


@step("own-part", 0.4)
def own_part(w: World) -> None:
    """A few elements of a sharded dim, which one rank has."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    n, others = w.rng.choice([7, 8, 12]), [name for name, z in w.pair.mesh.axes if name != axis and z == 2]
    if ways == 1:
        raise Retry
    even = n % ways == 0
    split = {1: axis} | ({0: w.rng.choice(others)} if others and w.chance(0.5) else {}) if even else {}
    t = w.input("f32", shape=[4, n], layout=w.pair.layout([4, n], split))
    shard = t.dist if even else uneven_shard(w.pair, t.dist, 1, axis)
    block = shard.shape[1]
    size = w.rng.randint(1, max(1, block - 1))
    at = w.rng.randint(0, block - size)
    chosen = w.rng.randrange(ways)
    begin = chosen * block + at
    if begin + size > n:
        raise Retry
    y = on_one_rank(w.pair, part(w.dist, shard, 1, at, at + size), axis, (chosen + w.slip()) % ways)
    w.add(part(w.base, t.base, 1, begin, begin + size), y)


@step("uneven-rows", 0.4)
def uneven_rows(w: World) -> None:
    """Rows of a value whose number the axis does not divide, flat, gathered flat, and the padding cut off."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    n, columns = w.rng.choice([3, 5, 7]), w.rng.choice([1, 2, 3])
    if n % ways == 0:
        raise Retry
    t = w.input("f32", shape=[n, columns], layout=w.pair.layout([n, columns], {}))
    block, base = uneven_shard(w.pair, t.dist, 0, axis, low=1 if w.slip() else 0), t.base
    row = w.emit(w.dist, "reshape", [block], shape=(prod(block.shape),))
    if w.chance(0.3):
        row, base = w.emit(w.dist, "tanh", [row]), w.emit(w.base, "tanh", [base])
    whole = w.emit(w.dist, "all-gather", [row], dimension=0, groups=w.pair.groups(axis))
    size = n * columns + (w.rng.choice([-columns, -1, 1]) if w.slip() else 0)
    first_ones = w.emit(w.dist, "slice", [whole], start=[0], limit=[size], stride=[1])
    if size == n * columns and w.chance(0.5):
        w.add(base, w.emit(w.dist, "reshape", [first_ones], shape=(n, columns)))
        return
    w.add(w.emit(w.base, "reshape", [base], shape=(n * columns,)), first_ones)
