"""Random steps with sums whose terms have their dims exchanged, as in the gradient of a contrastive loss."""

from __future__ import annotations

from ..pair import spread
from .ring_steps import ring_axis
from .world import Retry, World, step


@step("crossed-terms", 0.3)
def crossed_terms(w: World) -> None:
    """(transpose(g) + h) @ y of rows of g, h and y: a product with the parts of each term, over the ranks for one."""
    axis, size, _ = ring_axis(w)
    n = size * w.rng.choice([1, 2])
    rows = w.pair.layout([n, n], {0: axis})
    g, h = w.input("f32", shape=[n, n], layout=rows), w.input("f32", shape=[n, n], layout=rows)
    y = w.input("f32", shape=[n, 2], layout=w.pair.layout([n, 2], {0: axis}))
    number = w.input("f32", shape=[], layout=w.pair.layout([], {}))
    if h.dist.shape != g.dist.shape or y.dist.shape[0] != h.dist.shape[0]:
        raise Retry
    early = w.chance(0.5)  # the number is a factor of y
    kind = w.rng.choice(["none", "multiply", "multiply", "divide"])
    over = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [0]}
    turned = [w.emit(w.base, "transpose", [g.base], dimensions=[1, 0]), h.base]
    if w.slip():
        turned = w.rng.choice([[g.base, h.base], [turned[0], w.emit(w.base, "transpose", [h.base], dimensions=[1, 0])]])
    flipped = w.chance(0.5)
    total = w.emit(w.base, "add", turned[::-1] if flipped else turned)
    if w.slip():
        total = w.emit(w.base, w.rng.choice(["sine", "abs", "negate"]), [total])
    factors = []
    for graph, value, of in ((w.base, y.base, number.base), (w.dist, y.dist, number.dist)):
        factor = w.emit(graph, "exponential" if early else "sine", [of]) if kind == "multiply" else of
        wide = value
        if kind != "none" and early:
            wide = w.emit(graph, kind, [value, spread(graph, factor, value.shape, [])])
        factors.append((factor, wide))
    (base_factor, base_y), (dist_factor, dist_y) = factors
    if w.chance(0.3):  # the other way round, over the other dim of y
        back = w.emit(w.base, "transpose", [base_y], dimensions=[1, 0])
        other = w.emit(w.base, "dot", [back, w.emit(w.base, "transpose", [total], dimensions=[1, 0])], **over)
        product = w.emit(w.base, "transpose", [other], dimensions=[1, 0])
    else:
        product = w.emit(w.base, "dot", [total, base_y], **over)
    groups = w.pair.groups(axis)
    one = w.emit(w.dist, "dot", [g.dist, dist_y], lhs_contracting_dims=[0], rhs_contracting_dims=[0])
    one = w.emit(w.dist, "reduce-scatter", [one], dimension=0, reducer="sum", groups=groups)
    late = early and kind != "none" and w.chance(0.6)
    whole = w.emit(w.dist, "all-gather", [y.dist if late else dist_y], dimension=0, groups=groups)
    two = w.emit(w.dist, "dot", [h.dist, whole], **over)
    if late:
        two = w.emit(w.dist, kind, [two, spread(w.dist, dist_factor, two.shape, [])])
    if not early and kind != "none":
        product = w.emit(w.base, kind, [product, spread(w.base, base_factor, product.shape, [])])
        one = w.emit(w.dist, kind, [one, spread(w.dist, dist_factor, one.shape, [])])
        if not w.slip():
            two = w.emit(w.dist, kind, [two, spread(w.dist, dist_factor, two.shape, [])])
    w.add(product, w.emit(w.dist, "add", [two, one] if flipped else [one, two]))


@step("turned-sums", 0.3)
def turned_sums(w: World) -> None:
    """sum(u * ((transpose(g) + h + k) @ v)) of rows of all, by ranks that have rows of both scores; u and v perhaps
    over their norms, or infinite."""
    axis, size, _ = ring_axis(w)
    n = size * w.rng.choice([1, 2])
    shapes = [[n, n], [n, n], [n, n], [n, 2], [n, 2]]
    inputs = [w.input("f32", shape=shape, layout=w.pair.layout(shape, {0: axis})) for shape in shapes]
    if any(x.dist.shape[0] * size != n for x in inputs):
        raise Retry
    g, h, k, u, v = inputs
    groups, over = w.pair.groups(axis), {"lhs_contracting_dims": [1]}
    how = w.rng.choice(["as they are", "over norms", "over norms", "logarithms"])
    another, along = w.slip(), w.rng.choice([0, 1, 1, 1])  # another row's norm, or of a column that is cut
    sides = []
    for graph, values in ((w.base, (u.base, v.base)), (w.dist, (u.dist, v.dist))):
        factors = []
        for value in values:
            if how == "over norms":
                squares = w.emit(graph, "multiply", [value, value])
                norms = w.emit(graph, "reduce", [squares], dimensions=[along], reducer="sum")
                norms = w.emit(graph, "reverse", [norms], dimensions=[0]) if another else norms
                wide = spread(graph, w.emit(graph, "sqrt", [norms]), value.shape, [1 - along])
                value = w.emit(graph, "divide", [value, wide])
            elif how == "logarithms":
                value = w.emit(graph, "log", [value])
            factors.append(value)
        sides.append(factors)
    (base_u, base_v), (dist_u, dist_v) = sides
    scores = [w.emit(w.base, "transpose", [g.base], dimensions=[1, 0]), h.base]
    total = w.emit(w.base, "add", scores[::-1] if w.chance(0.5) else scores)
    rows = h.dist
    if w.chance(0.6):
        total = w.emit(w.base, "add", [total, k.base] if w.chance(0.5) else [k.base, total])
        rows = w.emit(w.dist, "add", [rows, k.dist])
    if w.slip():
        total = w.emit(w.base, w.rng.choice(["sine", "abs"]), [total])
    upright = w.chance(0.5)
    factor = base_v if upright else w.emit(w.base, "transpose", [base_v], dimensions=[1, 0])
    product = w.emit(w.base, "dot", [total, factor], **over, rhs_contracting_dims=[int(not upright)])
    multiple = w.emit(w.base, "multiply", [product, base_u] if w.chance(0.5) else [base_u, product])
    summed = [0, 1] if not w.slip() else [w.rng.choice([0, 1])]
    result = w.emit(w.base, "reduce", [multiple], dimensions=summed, reducer="sum")
    parts = []
    for own, held, other in ((rows, dist_v, dist_u), (g.dist, dist_u, dist_v)):
        whole = w.emit(w.dist, "all-gather", [held], dimension=0, groups=w.groups() if w.slip() else groups)
        made = w.emit(w.dist, "dot", [own, whole], **over, rhs_contracting_dims=[0])
        made = w.emit(w.dist, "multiply", [made, dist_v if w.slip() else other])
        parts.append(w.emit(w.dist, "reduce", [made], dimensions=summed, reducer="sum"))
    w.add(result, w.emit(w.dist, "add", parts))
