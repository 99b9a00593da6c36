"""Random steps for further forms that chains rarely reach: repeated heads, dims of one element, sums in parts, in
another order, or in stages."""

from __future__ import annotations

from math import prod

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Layout

from .ring_steps import ring_axis
from .world import FACTORS, Retry, World, step


@step("repeat-heads", 0.4)
def repeat_heads(w: World) -> None:
    """Heads repeated before a contraction on the baseline, spread over an axis on the distributed side."""
    axis, size, _ = ring_axis(w)
    heads, width = w.rng.choice([1, 2]), w.rng.choice([2, 4])
    repeat = size if w.chance(0.7) else size * 2
    k = w.input("f32", shape=[heads, 4, width], layout=w.layout([heads, 4, width], pending=False))
    q_shape = [heads, repeat, 4, width]
    q = w.input("f32", shape=q_shape, layout=w.pair.layout(q_shape, {1: axis}))
    results = []
    for g, x, y, n in ((w.base, k.base, q.base, repeat), (w.dist, k.dist, q.dist, repeat // size)):
        if len(x.shape) != 3:
            raise Retry
        wide = w.emit(g, "broadcast", [x], shape=[x.shape[0], n, *x.shape[1:]], dimensions=[0, 2, 3]) if n > 1 else None
        if wide is None:
            wide = w.emit(g, "reshape", [x], shape=[x.shape[0], 1, *x.shape[1:]])
        results.append(
            w.emit(
                g,
                "dot",
                [y, wide],
                lhs_batch_dims=[0, 1],
                rhs_batch_dims=[0, 1],
                lhs_contracting_dims=[3],
                rhs_contracting_dims=[3],
            )
        )
    w.add(results[0], results[1])


@step("unit-dims", 0.4)
def unit_dims(w: World) -> None:
    """Dims of one element come and go on one side: broadcasts, reshapes, reductions."""
    t = w.twin(least=1)
    at = w.rng.randrange(len(t.base.shape) + 1)
    shape = [*t.base.shape[:at], 1, *t.base.shape[at:]]
    kept = [d for d in range(len(shape)) if d != at]
    base = w.emit(w.base, "broadcast", [t.base], shape=shape, dimensions=kept)
    w.add(base, t.dist)
    if w.chance(0.6):
        kind = w.rng.choice(["sum", "max"])
        w.add(
            w.emit(w.base, "reduce", [w.emit(w.base, "sine", [base])], dimensions=[at], reducer=kind),
            w.emit(w.dist, "sine", [t.dist]),
        )


@step("part-of-a-constant", 0.2)
def part_of_a_constant(w: World) -> None:
    """A constant that one side makes with fewer elements and spreads afterwards, beside a sharded value; and what is
    reduced of it."""
    shape = [w.rng.choice([2, 4]), w.rng.choice([4, 8])]
    t = w.input("f32", shape=shape, layout=w.layout(shape, pending=False))
    if len(t.dist.shape) != 2:
        raise Retry
    dim = w.rng.randrange(2)
    small = [1 if d == dim else n for d, n in enumerate(t.dist.shape)]
    number = w.rng.choice([1.0, 2.0])
    base = w.base.splat(number, "f32", shape)
    line = w.dist.splat(number, "f32", [n for d, n in enumerate(small) if d != dim])
    dist = w.emit(w.dist, "reshape", [line], shape=small) if w.chance(0.5) else line
    flat = w.emit(w.dist, "reshape", [dist], shape=line.shape) if dist is not line else line
    wide = w.emit(w.dist, "broadcast", [flat], shape=t.dist.shape, dimensions=[1 - dim])
    if w.chance(0.4):
        base = w.emit(w.base, "sine", [base])
        wide, dist = w.emit(w.dist, "sine", [wide]), w.emit(w.dist, "sine", [dist])
    w.add(w.emit(w.base, "multiply", [t.base, base]), w.emit(w.dist, "multiply", [t.dist, wide]))
    w.add(base, dist)
    if len(dist.shape) == 2:
        w.add(*(
            w.emit(g, "reduce", [x], dimensions=[dim], reducer="sum") for g, x in ((w.base, base), (w.dist, dist))
        ))  # fmt: skip
    else:
        w.add(w.emit(w.base, "reduce", [base], dimensions=[dim], reducer="sum"), dist)


@step("share-of-a-sum", 0.4)
def share_of_a_sum(w: World) -> None:
    """A replicated value, divided by the number of ranks, added to a pending sum."""
    axis, size, _ = ring_axis(w)
    shape = [w.rng.choice([2, 4]), 4]
    t = w.input("f32", shape=shape, layout=w.pair.layout(shape, {}, pending={axis: "sum"}))
    o = w.input("f32", shape=shape, layout=w.pair.layout(shape, {}))
    count = size if not w.slip() else size + 1
    share = w.emit(w.dist, "divide", [o.dist, w.dist.splat(count, "f32", o.dist.shape)])
    total = w.emit(w.dist, "add", [t.dist, share])
    base = w.emit(w.base, "add", [t.base, o.base])
    w.add(base, total)
    w.add(base, w.emit(w.dist, "all-reduce", [total], reducer="sum", groups=w.pair.groups(axis)))


@step("sum-of-terms", 0.6)
def sum_of_terms(w: World) -> None:
    """Three or four terms added in another order or grouping, with coefficients."""
    count = w.rng.choice([3, 3, 4])
    first = w.twin() if w.chance(0.3) else w.input("f32", rank=w.rng.choice([1, 2]))
    layout = w.placement(first)
    terms = [first]
    while len(terms) < count:
        placed = layout if layout is not None and not w.slip() else w.layout(first.base.shape, pending=True)
        if placed.local_shape != first.dist.shape:
            raise Retry
        terms.append(w.input("f32", shape=first.base.shape, layout=placed))
    factors = [w.rng.choice([1, 1, 2, 0.5, -1]) for _ in terms]

    def total(g: Graph, xs: list[Tensor], numbers: list[float]) -> Tensor:
        scaled = [
            x if f == 1 else w.emit(g, "multiply", [x, g.splat(f, "f32", x.shape)])
            for x, f in zip(xs, numbers, strict=True)
        ]
        while len(scaled) > 1:
            i = w.rng.randrange(len(scaled) - 1)
            scaled[i : i + 2] = [w.emit(g, "add", scaled[i : i + 2])]
        return scaled[0]

    order = w.rng.sample(range(count), count)
    other = list(factors)
    if w.slip():
        other[0] = w.rng.choice([2, 3])
    if w.slip():
        order[0] = order[1]
    parts = [terms[i].dist for i in order]
    numbers = [other[i] for i in order]
    if w.slip():  # two terms count again
        parts.append(w.emit(w.dist, "add", parts[:2]))
        numbers.append(1)
    w.add(total(w.base, [t.base for t in terms], factors), total(w.dist, parts, numbers))


@step("subtotal", 0.3)
def subtotal(w: World) -> None:
    """a + (b + c) on the baseline; on the distributed side the subtotal is used, spelt out, or both."""
    layout = w.layout([4, 2], pending=True)
    a, b, c = (w.input("f32", shape=[4, 2], layout=layout) for _ in range(3))
    base = w.emit(w.base, "add", [a.base, w.emit(w.base, "add", [b.base, c.base])])
    together = w.emit(w.dist, "add", [b.dist, c.dist])
    terms = w.rng.choice([[a.dist, together], [a.dist, b.dist, c.dist], [a.dist, together, b.dist, c.dist]])
    w.rng.shuffle(terms)
    total = terms[0]
    for term in terms[1:]:
        total = w.emit(w.dist, "add", [total, term])
    w.add(base, total)


@step("staged-reduce", 0.5)
def staged_reduce(w: World) -> None:
    """Two dims reduced at once on one side, one after the other on the other."""
    t = w.twin(least=2)
    if len(t.base.shape) != len(t.dist.shape):
        raise Retry
    name = w.rng.choice(["sum", "max", "min", "prod" if prod(t.base.shape) <= FACTORS else "sum"])
    a, b = w.rng.sample(range(len(t.base.shape)), 2)

    def at_once(g: Graph, x: Tensor) -> Tensor:
        return w.emit(g, "reduce", [x], dimensions=sorted((a, b)), reducer=name)

    def in_turn(g: Graph, x: Tensor) -> Tensor:
        second = w.rng.choice(["sum", "max"]) if w.slip() else name
        x = w.emit(g, "reduce", [x], dimensions=[a], reducer=name)
        if g is w.dist and w.chance(0.5):
            x = w.emit(g, "all-reduce", [x], reducer=name, groups=w.groups())
        return w.emit(g, "reduce", [x], dimensions=[b - (b > a)], reducer=second)

    if w.chance(0.5):
        w.add(at_once(w.base, t.base), in_turn(w.dist, t.dist))
    else:
        w.add(in_turn(w.base, t.base), at_once(w.dist, t.dist))


@step("merged", 0.5)
def merged(w: World) -> None:
    """Two dims merged into one on the distributed side, in either order, before they are reduced or contracted."""
    t = w.twin(least=2)
    if len(t.base.shape) != 2 or len(t.dist.shape) != 2:
        raise Retry
    x = t.dist
    turned = w.chance(0.5)
    if turned:
        x = w.emit(w.dist, "transpose", [x], dimensions=[1, 0])
    x = w.emit(w.dist, "reshape", [x], shape=[t.dist.shape[0] * t.dist.shape[1]])
    if w.chance(0.6):
        name = w.rng.choice(["sum", "max"])
        dims = w.rng.choice([[0], [1]]) if w.slip() else [0, 1]
        w.add(
            w.emit(w.base, "reduce", [t.base], dimensions=dims, reducer=name),
            w.emit(w.dist, "reduce", [x], dimensions=[0], reducer=name),
        )
        return
    layout = w.placement(t) or w.layout(t.base.shape, pending=False)
    if layout.local_shape != t.dist.shape:
        raise Retry
    o = w.input("f32", shape=t.base.shape, layout=layout)
    y = o.dist
    if turned != w.slip():
        y = w.emit(w.dist, "transpose", [y], dimensions=[1, 0])
    y = w.emit(w.dist, "reshape", [y], shape=[o.dist.shape[0] * o.dist.shape[1]])
    dims = [0] if w.slip() else [0, 1]
    batch = [1] if len(dims) == 1 else []
    base = w.emit(
        w.base,
        "dot",
        [t.base, o.base],
        lhs_batch_dims=batch,
        rhs_batch_dims=batch,
        lhs_contracting_dims=dims,
        rhs_contracting_dims=dims,
    )
    w.add(base, w.emit(w.dist, "dot", [x, y], lhs_contracting_dims=[0], rhs_contracting_dims=[0]))


@step("micro-batches", 0.5)
def micro_batches(w: World) -> None:
    """The distributed side has the parts of a dim as inputs of their own, and adds up what they give."""
    parts, rows, columns = w.rng.choice([2, 3]), w.rng.choice([2, 4]), w.rng.choice([2, 4])
    placed = w.layout([rows, columns], pending=False)
    if len(placed.local_shape) != 2:
        raise Retry

    def cut(dtype: str, shape: list[int], layout: Layout, bounds: tuple[int, int] | None = None) -> list[Tensor]:
        whole = w.base.input(f"x{len(w.base.inputs)}", dtype, [parts * shape[0], *shape[1:]], range=bounds)
        return [whole, *(w.pair.part(whole, 0, i * shape[0], (i + 1) * shape[0], layout) for i in range(parts))]

    xs = cut("f32", [rows, columns], placed)
    if w.slip():
        xs[-1] = xs[1]
    if w.chance(0.25):  # rows added by ids: to zeros, or to what would be added once per part
        ids = cut("s32", [rows], w.pair.layout([rows], {}), (0, 4))
        if xs[1].shape[0] != rows:
            raise Retry
        into = w.input("f32", shape=[4, columns], layout=w.pair.layout([4, columns], {}))
        zero = w.chance(0.6) or xs[1].shape[1] != columns

        def added(g: Graph, i: Tensor, x: Tensor, base: Tensor) -> Tensor:
            if zero:
                base = g.splat(0.0, "f32", (4, x.shape[1]))
            return w.emit(
                g,
                "scatter",
                [base, i, x],
                update_window_dims=[1],
                inserted_window_dims=[0],
                scatter_dims_to_operand_dims=[0],
                index_vector_dim=1,
                reducer="sum",
            )

        expected = added(w.base, ids[0], xs[0], into.base)
        terms = [added(w.dist, i, x, into.dist) for i, x in zip(ids[1:], xs[1:], strict=True)]
        name = "sum"
    else:
        kind, name = w.rng.choice(["sine", "abs"]), w.rng.choice(["sum", "sum", "sum", "max"])
        sides = [w.base, *[w.dist] * parts]
        mapped = [w.emit(g, kind, [x]) for g, x in zip(sides, xs, strict=True)]
        results = [w.emit(g, "reduce", [x], dimensions=[0], reducer=name) for g, x in zip(sides, mapped, strict=True)]
        expected, terms = results[0], results[1:]
        if w.chance(0.3):  # … and all at once as well
            glued = w.emit(w.dist, "concatenate", mapped[1:], dimension=0)
            w.add(expected, w.emit(w.dist, "reduce", [glued], dimensions=[0], reducer=name))
    total = terms[0]
    for term in terms[1:]:
        total = w.emit(w.dist, {"sum": "add", "max": "maximum"}[name], [total, term])
    if w.chance(0.5):
        total = w.emit(w.dist, "all-reduce", [total], reducer=name, groups=w.groups())
    w.add(expected, total)
