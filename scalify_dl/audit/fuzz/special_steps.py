"""Random steps for lemmas that chains rarely reach: elided constants, swapped products, zeros, one rank, loops."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Repl
from scalify_dl.ir.literals import Literal

from .steps import partner
from .world import Retry, World, step


@step("elided", 0.3)
def elided(w: World) -> None:
    """A constant that neither dump prints."""
    t = w.twin()
    if t.base.shape != t.dist.shape:
        raise Retry
    constants = [g.constant(Literal.elided(), "f32", t.base.shape) for g in (w.base, w.dist)]
    w.add(w.emit(w.base, "multiply", [t.base, constants[0]]), w.emit(w.dist, "multiply", [t.dist, constants[1]]))


@step("swapped-dot", 0.4)
def swapped_dot(w: World) -> None:
    """x w on one side, w x on the other."""
    t = w.twin(least=2)
    if len(t.base.shape) != 2 or len(t.dist.shape) != 2:
        raise Retry
    shape = (t.base.shape[1], w.rng.choice([2, 4, 6]))
    for _ in range(10):
        layout = w.layout(shape, pending=w.chance(0.2))
        if layout.local_shape[0] == t.dist.shape[1]:
            break
    else:
        raise Retry
    o = w.input("f32", shape=shape, layout=layout)
    base = w.emit(w.base, "dot", [t.base, o.base], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    turned = w.emit(w.dist, "dot", [o.dist, t.dist], lhs_contracting_dims=[0], rhs_contracting_dims=[1])
    w.add(base, turned if w.slip() else w.emit(w.dist, "transpose", [turned], dimensions=[1, 0]))


@step("rows-with-rows", 0.8)
def rows_with_rows(w: World) -> None:
    """Rows of two values (or of one, twice) multiplied, each with its own or all with all, and added up."""
    t = w.level(least=2)
    o = t if w.chance(0.4) else partner(w, t)
    rank = len(t.base.shape)
    summed = w.rng.sample(range(rank), w.rng.randint(1, rank - 1))
    all_with_all = w.chance(0.5)
    other = w.chance(0.5) if w.slip() or w.chance(0.2) else all_with_all
    every = w.chance(0.5)  # all rows are added up, or those of the second value
    sides = ((w.base, t.base, o.base, all_with_all), (w.dist, t.dist, o.dist, other))
    w.add(*[_products(w, graph, x, y, summed, crossed, every) for graph, x, y, crossed in sides])


def _products(w: World, graph: Graph, x: Tensor, y: Tensor, summed: list[int], crossed: bool, every: bool) -> Tensor:
    rows = [d for d in range(len(x.shape)) if d not in summed]
    dims = {"lhs_contracting_dims": summed, "rhs_contracting_dims": summed}
    if crossed:
        found = w.emit(graph, "dot", [x, y], **dims)
        added = range(0 if every else len(rows), 2 * len(rows))
    else:
        found = w.emit(graph, "dot", [x, y], **dims, lhs_batch_dims=rows, rhs_batch_dims=rows)
        added = range(0 if every else len(rows), len(rows))
    return w.emit(graph, "reduce", [found], dimensions=list(added), reducer="sum") if len(added) else found


@step("clamp", 0.5)
def clamp(w: World) -> None:
    """Kept between two values, which are numbers or not."""
    if w.chance(0.4):
        layout = w.layout([4, 4], pending=True)
        low, t, high = (w.input("f32", shape=[4, 4], layout=layout) for _ in range(3))
    else:
        t = w.twin()
        low, high = partner(w, t), partner(w, t)
    w.add(
        w.emit(w.base, "clamp", [low.base, t.base, high.base]), w.emit(w.dist, "clamp", [low.dist, t.dist, high.dist])
    )


@step("zeros", 0.5)
def zeros(w: World) -> None:
    """Zero added, on both sides."""
    t = w.twin()
    kind = w.rng.choice(["add", "subtract", "maximum"])
    value = w.rng.choice([0.0, 0.0, 1.0])
    w.add(
        w.emit(w.base, kind, [t.base, w.base.splat(value, "f32", t.base.shape)]),
        w.emit(w.dist, kind, [t.dist, w.dist.splat(value, "f32", t.dist.shape)]),
    )


@step("one-rank", 0.8)
def one_rank(w: World) -> None:
    """A value kept on one rank (or on one coordinate of some axes) and zero elsewhere, by a choice or a product."""
    names = w.axes()
    g, axes = w.dist, [i for i, (name, _) in enumerate(w.pair.mesh.axes) if name in names]
    t = w.twin()
    if w.chance(0.6):  # the same on all the ranks that it is kept on one of
        t = w.input("f32", shape=[4, 4], layout=w.pair.layout([4, 4], {}))
    chosen = {i: w.rng.randrange(w.pair.mesh.axes[i][1]) for i in axes}
    here = {r: int(all(at[i] == c for i, c in chosen.items())) for r, at in enumerate(w.pair.mesh.coordinates)}
    if w.slip():
        here = {r: w.rng.choice([v, 1, 2]) for r, v in here.items()}
    flipped = w.chance(0.3)
    mark = g.add("constant", [], [("s32", ())])
    mark.rank_numbers["value", 0] = {r: 1 - v if flipped else v for r, v in here.items()}
    if w.chance(0.3):
        whole = w.input("s32", shape=[4, 2], layout=w.pair.layout([4, 2], {}))
        wide = w.emit(g, "broadcast", [mark.result], shape=[4, 2], dimensions=[])
        w.add(whole.base, w.emit(g, "multiply", [whole.dist, wide] if w.chance(0.5) else [wide, whole.dist]))
        return
    number = g.constant(w.rng.choice([0, 2]) if w.slip() else 1, "s32")
    there = w.emit(g, "compare", [mark.result, number], direction="EQ")
    wide = w.emit(g, "broadcast", [there], shape=t.dist.shape, dimensions=[])
    fill = g.splat(1.0 if w.slip() else 0.0, "f32", t.dist.shape)
    arms = [fill, t.dist] if flipped != w.slip() else [t.dist, fill]
    if w.chance(0.2):
        w.add(t.base, w.emit(g, "multiply", [t.dist, w.emit(g, "convert", [wide], dtype="f32")]))
        return
    w.add(t.base, w.emit(g, "select", [wide, *arms]))


@step("rank-arithmetic", 0.5)
def rank_arithmetic(w: World) -> None:
    """A value kept where a number computed from the rank compares so, in signed and unsigned types; or cut there."""
    g, dtype = w.dist, w.rng.choice(["u32", "u32", "s32", "s64", "u8"])
    number = g.add("partition-id", [], [("u32", ())]).result
    if dtype != "u32":
        number = w.emit(g, "convert", [number], dtype=dtype)
    kinds = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "xor"]
    for _ in range(w.rng.randint(1, 3)):
        pair = [number, g.constant(w.rng.choice([1, 1, 2, 3]), dtype)]
        kind = w.rng.choice(kinds)
        if kind in ("subtract", "divide", "remainder") and w.chance(0.5):
            pair.reverse()
        number = w.emit(g, kind, pair)
        if w.chance(0.3):
            number = w.emit(g, "convert", [number], dtype=(dtype := w.rng.choice(["u32", "s32", "s64"])))
    t = w.input("f32", shape=[8, 2], layout=w.pair.layout([8, 2], {}))
    if w.chance(0.3):  # at the ends of a type
        dtype, top = w.rng.choice([("u32", 0), ("u8", 0), ("s8", 127), ("u8", 255)])
        number = w.emit(g, "convert", [g.add("partition-id", [], [("u32", ())]).result], dtype=dtype)
        number = w.emit(g, "add" if top else "subtract", [number, g.constant(max(top, 1), dtype)])
        there = w.emit(g, "compare", [number, g.constant(top, dtype)], direction="GT" if top else "LT")
        wide = w.emit(g, "broadcast", [there], shape=t.dist.shape, dimensions=[])
        w.add(t.base, w.emit(g, "select", [wide, t.dist, g.splat(0.0, "f32", t.dist.shape)]))
        return
    if w.chance(0.4):
        size = w.rng.choice([2, 4])
        start = w.emit(g, "multiply", [number, g.constant(size, dtype)])
        w.add(t.base, w.emit(g, "dynamic-slice", [t.dist, start, g.constant(0, dtype)], sizes=[size, 2]))
        return
    direction = w.rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"])
    there = w.emit(g, "compare", [number, g.constant(w.rng.choice([0, 1, 2]), dtype)], direction=direction)
    wide = w.emit(g, "broadcast", [there], shape=t.dist.shape, dimensions=[])
    w.add(t.base, w.emit(g, "select", [wide, t.dist, g.splat(0.0, "f32", t.dist.shape)]))


@step("two-masks", 0.3)
def two_masks(w: World) -> None:
    """Two random masks of one value, which count differently."""
    t = w.twin()
    results = []
    for g, x in ((w.base, t.base), (w.dist, t.dist)):
        masks = [w.emit(g, "convert", [g.emit("dropout-mask", [x], probability="0.5")], dtype="f32") for _ in range(2)]
        if g is w.dist and w.chance(0.5):
            masks.reverse()
        y = w.emit(g, "multiply", [w.emit(g, "multiply", [x, masks[0]]), g.splat(2.0, "f32", x.shape)])
        results.append(w.emit(g, "add", [y, w.emit(g, "multiply", [x, masks[1]])]))
    w.add(*results)


@step("mask-of-two-layouts", 0.2)
def mask_of_two_layouts(w: World) -> None:
    """A random mask of a value that has several layouts: a constant between values that are placed differently, or a
    replicated value beside a pending one."""
    axis, size = w.rng.choice(w.pair.mesh.axes)
    rows = 4 * size
    if size > 1 and w.chance(0.5):
        t = w.input("f32", shape=[4, 2], layout=w.pair.layout([4, 2], {}))
        kind = w.rng.choice(["max", "sum"])
        o = w.input("f32", shape=[4, 2], layout=w.pair.layout([4, 2], {}, pending={axis: kind}))
        op = {"max": "maximum", "sum": "add"}[kind]
        x, y = t.base, t.dist
        w.add(w.emit(w.base, op, [x, o.base]), w.emit(w.dist, op, [y, o.dist]))
    else:
        x, y = w.base.splat(1.0, "f32", (rows, 2)), w.dist.splat(1.0, "f32", (4, 2))
        for stride in w.rng.sample([1, 4], 2):
            rest = Digit(0, size, 4) if stride == 1 else Digit(0, 1, 4)
            axes = [(a, [Digit(0, stride, n) if a == axis else Repl(n)]) for a, n in w.pair.mesh.axes]
            o = w.input("f32", shape=[rows, 2], layout=Layout.of([[rest], [Digit(1, 1, 2)]], axes))
            w.add(w.emit(w.base, "add", [x, o.base]), w.emit(w.dist, "add", [y, o.dist]))
    w.add(*(
        w.emit(g, "convert", [g.emit("dropout-mask", [v], probability="0.5")], dtype="f32")
        for g, v in ((w.base, x), (w.dist, y))
    ))  # fmt: skip


def _loop(
    w: World, g: Graph, x: Tensor, y: Tensor, times: int, kind: str, groups: list[list[int]] | None, factor: int
) -> Tensor:
    """x ← f(x, y), y ← factor · y, `times` times."""
    condition, body = Graph("condition"), Graph("body")
    i = condition.input("i", "s32", ())
    condition.input("x", "f32", x.shape)
    condition.input("y", "f32", y.shape)
    condition.output(w.emit(condition, "compare", [i, condition.constant(times, "s32")], direction="LT"))
    j, a, b = body.input("i", "s32", ()), body.input("x", "f32", x.shape), body.input("y", "f32", y.shape)
    body.output(w.emit(body, "add", [j, body.constant(1, "s32")]))
    z = w.emit(body, kind, [a, b])
    body.output(w.emit(body, "all-reduce", [z], reducer="sum", groups=groups) if groups else z)
    body.output(b if factor == 1 else w.emit(body, "multiply", [b, body.splat(factor, "f32", b.shape)]))
    start = g.constant(0, "s32")
    types = [("s32", ()), ("f32", x.shape), ("f32", y.shape)]
    return g.add("while", [start, x, y], types, regions=[condition, body]).results[1]


@step("loop", 0.4)
def loop(w: World) -> None:
    """A few rounds of an op on a carried value and one that is fixed or grows, now and then with a reduction inside."""
    t = w.twin()
    o = partner(w, t)
    kind, times = w.rng.choice(["add", "multiply", "maximum"]), w.rng.randint(1, 3)
    groups = w.groups() if w.chance(0.25) else None
    other = times + 1 if w.slip() else times
    factor = w.rng.choice([1, 1, 2])
    grows = 3 if w.slip() else factor
    w.add(
        _loop(w, w.base, t.base, o.base, times, kind, None, factor),
        _loop(w, w.dist, t.dist, o.dist, other, kind, groups, grows),
    )


def _until(w: World, g: Graph, x: Tensor, limit: float, reducer: str, groups: list[list[int]] | None) -> Tensor:
    """x ← x + 1 while any (or every) element is below a limit."""
    condition, body = Graph("condition"), Graph("body")
    a = condition.input("x", "f32", x.shape)
    low = w.emit(condition, "compare", [a, condition.splat(limit, "f32", x.shape)], direction="LT")
    some = w.emit(condition, "reduce", [low], dimensions=list(range(len(x.shape))), reducer=reducer)
    condition.output(w.emit(condition, "all-reduce", [some], reducer=reducer, groups=groups) if groups else some)
    b = body.input("x", "f32", x.shape)
    body.output(w.emit(body, "add", [b, body.splat(1.0, "f32", x.shape)]))
    return g.add("while", [x], [("f32", x.shape)], regions=[condition, body]).result


@step("data-loop", 0.3)
def data_loop(w: World) -> None:
    """A loop that runs as long as the data say, which every rank sees a part of."""
    axis, size = w.rng.choice(w.pair.mesh.axes)
    t = w.input("f32", shape=[2 * size, 2], layout=w.pair.layout([2 * size, 2], {0: axis} if w.chance(0.8) else {}))
    reducer = w.rng.choice(["or", "and"])
    other = {"or": "and", "and": "or"}[reducer] if w.slip() else reducer
    groups = w.pair.groups(axis) if w.chance(0.7) else None
    w.add(_until(w, w.base, t.base, 1.5, reducer, None), _until(w, w.dist, t.dist, 1.5, other, groups))
