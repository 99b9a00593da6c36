"""Random steps around norms of many tensors: roots of sums, put side by side, squared and added up over the ranks."""

from __future__ import annotations

from math import prod, sqrt

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import spread
from .world import Retry, World, step


@step("norm-of-norms", 0.4)
def norm_of_norms(w: World) -> None:
    """The norm of two or three values, by way of the norm of each."""
    count = w.rng.choice([2, 2, 3])
    first = w.input("f32", rank=w.rng.choice([1, 2]))
    layout = w.placement(first)
    terms = [first]
    while len(terms) < count:
        placed = layout if layout is not None and w.chance(0.8) else w.layout(first.base.shape, pending=w.slip())
        terms.append(w.input("f32", shape=first.base.shape, layout=placed))
    sort = "abs" if w.slip() else w.rng.choice(["square", "square", "power", "abs"])
    below, again, moved = w.slip(), w.rng.choice(["product", "product", "power"]), w.chance(0.3)
    kept = [w.chance(0.2) for _ in terms]  # of which no root is taken

    def norms(g: Graph, values: list[Tensor]) -> tuple[Tensor, Tensor]:
        parts = []
        for x, bare in zip(values, kept, strict=True):
            each = x if below else _raised(w, g, x, sort)
            total = w.emit(g, "reduce", [each], dimensions=list(range(len(x.shape))), reducer="sum")
            root = total if bare else w.emit(g, "sqrt", [total])
            parts.append(w.emit(g, "reshape", [root], shape=(1,)))
        side = w.emit(g, "concatenate", parts, dimension=0)
        if moved:
            side = w.emit(g, "broadcast", [w.emit(g, "reshape", [side], shape=(1, count))], shape=(1, count, 2),
                          dimensions=[0, 1])  # fmt: skip
        squares = _raised(w, g, side, "square" if again == "product" else "power")
        return squares, w.emit(g, "reduce", [squares], dimensions=list(range(len(side.shape))), reducer="sum")

    (base, total), (dist, mine) = norms(w.base, [t.base for t in terms]), norms(w.dist, [t.dist for t in terms])
    w.add(base, dist)
    groups = w.groups() if w.slip() else w.pair.groups(*w.axes())
    reduced = w.emit(w.dist, "all-reduce", [mine], reducer="sum", groups=groups)
    w.add(total, mine)
    w.add(*(w.emit(g, "sqrt", [x]) for g, x in ((w.base, total), (w.dist, reduced))))


@step("flat-norm", 0.4)
def flat_norm(w: World) -> None:
    """The norm of two or three values by those of each, which may be clipped by it before they are put in one row; a
    rank has a shard of the row of what they were, or all of it, and its squares."""
    axis = w.rng.choice([a for a, n in w.pair.mesh.axes if n > 1] or w.axes())
    size, count = w.pair.mesh.axis_size(axis), w.rng.choice([2, 2, 3])
    shapes = [[size * w.rng.choice([1, 2]), *([2] if w.chance(0.5) else [])] for _ in range(count)]
    values = [w.input("f32", shape=s, layout=w.pair.layout(s, {}, pending={axis: "sum"})) for s in shapes]
    base, b, d = [v.base for v in values], w.base, w.dist
    listed = base[:-1] + base[:1] if w.slip() and shapes[0] == shapes[-1] else base
    squares = [w.emit(b, "reduce", [_raised(w, b, x, "square")], dimensions=list(range(len(x.shape))), reducer="sum")
               for x in listed]  # fmt: skip
    if w.chance(0.5):
        total = squares[0]
        for each in squares[1:]:
            total = w.emit(b, "add", [total, each] if w.chance(0.7) else [each, total])
    else:
        roots = [w.emit(b, "reshape", [w.emit(b, "sqrt", [x])], shape=(1,)) for x in squares]
        side = w.emit(b, "concatenate", roots, dimension=0)
        total = w.emit(b, "reduce", [_raised(w, b, side, "square")], dimensions=[0], reducer="sum")
    clip = _coefficient(w, b, total)
    kept = [w.emit(b, "multiply", [x, spread(b, clip, x.shape, [])]) for x in base] if w.chance(0.6) else base
    order = list(range(count))
    if w.chance(0.3):
        w.rng.shuffle(order)
    row = w.emit(b, "concatenate", [_flat(w, b, kept[i]) for i in order], dimension=0)
    mine = w.emit(d, "concatenate", [_flat(w, d, values[i].dist) for i in order], dimension=0)
    mine = w.emit(d, "reduce-scatter", [mine], dimension=0, reducer="sum", groups=w.pair.groups(axis))
    number = w.emit(d, "reduce", [_raised(w, d, mine, "square")], dimensions=[0], reducer="sum")
    number = number if w.slip() else w.emit(d, "all-reduce", [number], reducer="sum", groups=w.pair.groups(axis))
    w.add(total, number)
    clip = _coefficient(w, d, number)
    w.add(row, w.emit(d, "multiply", [mine, spread(d, clip, mine.shape, [])]) if kept is not base else mine)


def _coefficient(w: World, g: Graph, total: Tensor) -> Tensor:
    one = g.constant(1.0, "f32")
    return w.emit(g, "minimum", [one, w.emit(g, "divide", [g.constant(2.0, "f32"), w.emit(g, "add", [total, one])])])


def _flat(w: World, g: Graph, x: Tensor) -> Tensor:
    return w.emit(g, "reshape", [x], shape=(prod(x.shape),)) if len(x.shape) != 1 else x


@step("shared-norm", 0.4)
def shared_norm(w: World) -> None:
    """Norms of a value in parts and of one that all ranks of an axis hold, which they divide by the root of their
    number, in one row; its squares, added up over the axis. Or rows of the values themselves, divided by the number."""
    axis = w.rng.choice([a for a, n in w.pair.mesh.axes if n > 1] or w.axes())
    size = w.pair.mesh.axis_size(axis)
    shape, squares = [2 * size], w.chance(0.6)
    whole = w.input("f32", shape=shape, layout=w.pair.layout(shape, {}, pending={axis: "sum"} if w.slip() else {}))
    part = w.input("f32", shape=shape, layout=w.pair.layout(shape, {0: axis}))
    ranks = size + w.rng.choice([-1, 1]) if w.slip() and size > 1 else size

    def row(g: Graph, values: list[Tensor], by: float) -> Tensor:
        sums = []
        for x, divided in zip(values, (True, False), strict=True):
            each = _raised(w, g, x, "square") if squares else x
            total = w.emit(g, "reduce", [each], dimensions=[0], reducer="sum")
            total = w.emit(g, "sqrt", [total]) if squares else total
            if divided and g is w.dist:
                total = w.emit(g, "divide", [total, g.constant(by, "f32")])
            sums.append(w.emit(g, "reshape", [total], shape=(1,)))
        side = w.emit(g, "concatenate", sums, dimension=0)
        return _raised(w, g, side, "square") if squares else side

    base = row(w.base, [whole.base, part.base], 1.0)
    mine = row(w.dist, [whole.dist, part.dist], sqrt(ranks) if squares else float(ranks))
    w.add(base, w.emit(w.dist, "all-reduce", [mine], reducer="sum", groups=w.pair.groups(axis)))


@step("sum-of-sides", 0.4)
def sum_of_sides(w: World) -> None:
    """The sum of a row of three or four values; the ranks add up those that they share and the others in two rows."""
    axis = w.axes()[0]
    whole = w.rng.sample([True, True, False, False], w.rng.choice([3, 4]))
    size = w.pair.mesh.axis_size(axis)
    shapes = [[size * w.rng.choice([1, 2]), *w.rng.choice([[], [2]])] for _ in whole]
    twins = [
        w.input("f32", shape=s, layout=w.pair.layout(s, {} if kept != w.slip() else {0: axis}))
        for s, kept in zip(shapes, whole, strict=True)
    ]
    squared, rooted = w.chance(0.7), w.chance(0.5)

    def total(g: Graph, values: list[Tensor]) -> Tensor:
        rows = []
        for x in values:
            each = _raised(w, g, x, "square") if squared else x
            if rooted and squared:
                norm = w.emit(g, "reduce", [each], dimensions=list(range(len(x.shape))), reducer="sum")
                each = w.emit(g, "sqrt", [norm])
            rows.append(w.emit(g, "reshape", [each], shape=(prod(each.shape),)))
        row = w.emit(g, "concatenate", rows, dimension=0) if len(rows) > 1 else rows[0]
        row = _raised(w, g, row, "square") if rooted and squared else row
        return w.emit(g, "reduce", [row], dimensions=[0], reducer="sum")

    mine = [total(w.dist, [t.dist for t, k in zip(twins, whole, strict=True) if k == kept]) for kept in (True, False)]
    groups = w.groups() if w.slip() else w.pair.groups(axis)
    shared = w.emit(w.dist, "all-reduce", [mine[1]], reducer="sum", groups=groups)
    if w.slip():
        shared = mine[1]
    w.add(total(w.base, [t.base for t in twins]), w.emit(w.dist, "add", [mine[0], shared]))


@step("magnitude", 0.2)
def magnitude(w: World) -> None:
    """What may be below zero, or may not, and its magnitude in its place on one side or both."""
    x = w.twin()
    way, last = w.rng.choice(["exponential", "square", "abs", "sum", "log", "kept"]), w.rng.choice(["log", "none"])
    where, made = w.rng.choice(["base", "dist", "both"]), []
    for name, g, value in (("base", w.base, x.base), ("dist", w.dist, x.dist)):
        if way in ("exponential", "abs", "log"):
            value = w.emit(g, way, [value])
        elif way == "square":
            value = w.emit(g, "multiply", [value, value])
        elif way == "kept":
            large = w.emit(g, "compare", [value, g.splat(0.25, "f32", value.shape)], direction="GT")
            other = g.splat(w.rng.choice([0.0, float("-inf")]), "f32", value.shape)
            value = w.emit(g, "select", [large, w.emit(g, "abs", [value]), other])
        if where in (name, "both"):
            value = w.emit(g, "abs", [value])
        made.append(w.emit(g, "log", [value]) if last == "log" else value)
    w.add(*made)


@step("decided-choice", 0.3)
def decided_choice(w: World) -> None:
    """What is chosen by the sign of a number, or by whether it is finite, where that may be certain, on one side."""
    tested, x, other = w.twin(), w.twin(), w.twin()
    way, test = w.rng.choice(["exponential", "square", "abs", "sum", "log"]), w.rng.choice(["GE", "GT", "is-finite"])
    if not tested.base.shape == x.base.shape == other.base.shape or tested.dist.shape != x.dist.shape:
        raise Retry
    value = tested.base
    if way == "square":
        value = w.emit(w.base, "multiply", [value, value])
    elif way != "sum":
        value = w.emit(w.base, way, [value])
    zeros = w.base.splat(0.0, "f32", value.shape)
    if test == "is-finite":
        mask = w.emit(w.base, test, [value])
    else:
        mask = w.emit(w.base, "compare", [value, zeros], direction=test)
    kind = w.rng.choice(["other", "zero", "both"])
    made = w.emit(w.base, "select", [mask, x.base, other.base if kind == "other" else zeros])
    if kind == "both":
        last = w.emit(w.base, "select", [mask, zeros, x.base])
        made = w.emit(w.base, "add", [made, w.emit(w.base, "negate", [last])])
    w.add(made, x.dist)


def _raised(w: World, g: Graph, x: Tensor, sort: str) -> Tensor:
    """A square, as a product or as a power; or a magnitude."""
    if sort == "abs":
        return w.emit(g, "abs", [x])
    if sort == "power":
        return w.emit(g, "power", [x, g.splat(2.0, x.dtype, x.shape)])
    return w.emit(g, "multiply", [x, x])
