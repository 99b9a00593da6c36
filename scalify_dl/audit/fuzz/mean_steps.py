"""Random steps around means: counts of truths that a range decides, numbers that differ by a factor on the two sides,
and gradients that start from them."""

from __future__ import annotations

from math import prod

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import spread
from .world import Retry, World, step

LABELS = (0, 6)


@step("counted", 0.5)
def counted(w: World) -> None:
    """A mean over what is not ignored, by one count for all ranks or one for each; and the gradient that starts from
    the count."""
    shape = [w.rng.choice([4, 8]), *w.rng.choice([[], [2]])]
    lo, hi = w.rng.choice([LABELS, LABELS, (-2, 3)])
    labels = w.pair.input(shape, dtype="s32", range=(lo, hi), layout=(place := w.layout(shape, pending=False)))
    w.dist.inputs[-1].range = (lo, hi)
    x = w.input("f32", shape=shape, layout=place)
    if x.dist.shape != labels[1].shape:
        raise Retry
    bound = w.rng.choice([lo - 1, lo, hi - 1, hi, hi + 94])
    way = w.rng.choice(["NE", "NE", "EQ", "LT", "LE", "GT", "GE"])
    late, turned, through = w.slip(), w.chance(0.3), w.rng.choice(["f32", "s64", "s32", "s8", "f32"])
    masks = []
    for g, ids in ((w.base, labels[0]), (w.dist, labels[1])):
        if w.chance(0.2):
            ids = w.emit(g, "convert", [ids], dtype=w.rng.choice(["s64", "u32", "s8", "u8"]))
        number = g.splat(max(bound, 0) if ids.dtype[0] == "u" else bound + (late and g is w.dist), ids.dtype, ids.shape)
        masks.append(w.emit(g, "compare", [number, ids] if turned else [ids, number], direction=way))
    counts = [_count(w, g, mask, through) for g, mask in zip((w.base, w.dist), masks, strict=True)]
    w.add(*counts)
    axes = w.axes()
    groups = w.groups() if w.slip() else w.pair.groups(*axes)
    together = w.emit(w.dist, "all-reduce", [counts[1]], reducer="sum", groups=groups)
    w.add(counts[0], together)
    _mean(w, x.base, x.dist, masks, counts, together, groups)
    _gradient(w, x.base, x.dist, counts, together, groups)


@step("weighted", 0.3)
def weighted(w: World) -> None:
    """A mean by weights that are given, whose sum is added up over the ranks, or averaged, or is the rank's own."""
    shape = [w.rng.choice([4, 8]), *w.rng.choice([[], [2]])]
    x = w.input("f32", shape=shape, layout=(place := w.layout(shape, pending=False)))
    weights = w.input("f32", shape=shape, layout=place)
    axes = w.axes()
    groups = w.groups() if w.slip() else w.pair.groups(*axes)
    dims, ranks = list(range(len(shape))), len(groups[0])
    integral, away, halved = w.chance(0.2), w.chance(0.2), w.chance(0.3)
    sums, counts = [], []
    for g, one, weight in ((w.base, x.base, weights.base), (w.dist, x.dist, weights.dist)):
        kept = w.emit(g, "multiply", [one, weight])
        sums.append(w.emit(g, "reduce", [kept], dimensions=dims, reducer="sum"))
        if away:  # no sum of what is given
            weight = w.emit(g, "subtract", [weight, one])
        if integral:
            weight = w.emit(g, "convert", [w.emit(g, "multiply", [weight, g.splat(3.0, "f32", weight.shape)])],
                            dtype="s32")  # fmt: skip
        counts.append(w.emit(g, "reduce", [weight], dimensions=dims, reducer="sum"))
    whole = w.emit(w.dist, "all-reduce", [counts[1]], reducer="sum", groups=groups)
    factor = 1
    if not integral:
        counts = [w.emit(g, "divide", [c, g.constant(2.0, "f32")]) if halved else c
                  for g, c in ((w.base, counts[0]), (w.dist, whole))]  # fmt: skip
        whole, factor = counts[1], w.rng.choice([1, ranks, -1])
        whole = w.emit(w.dist, "divide", [whole, w.dist.constant(float(factor), "f32")])
        w.add(counts[0], whole)
    else:
        sums = [w.emit(g, "convert", [v], dtype="s32") for g, v in ((w.base, sums[0]), (w.dist, sums[1]))]
    share = w.emit(w.dist, "divide", [sums[1], whole])
    total = w.emit(w.dist, "all-reduce", [share], reducer="sum", groups=groups)
    if not integral:
        total = w.emit(w.dist, "divide", [total, w.dist.constant(float(factor + w.slip()), "f32")])
    w.add(w.emit(w.base, "divide", [sums[0], counts[0]]), total)
    if not integral:
        start = w.emit(w.dist, "divide", [w.dist.constant(1.0, "f32"), whole])
        w.add(w.emit(w.base, "divide", [w.base.constant(1.0, "f32"), counts[0]]),
              w.emit(w.dist, "divide", [start, w.dist.constant(float(factor + w.slip()), "f32")]))  # fmt: skip


@step("late-factor", 0.3)
def late_factor(w: World) -> None:
    """What is computed of rows and added up, with a number that is computed as a factor of the rows on one side and of
    what is computed on the other."""
    shape = [w.rng.choice([4, 8]), 2]
    x = w.input("f32", shape=shape, layout=(place := w.layout(shape, pending=False)))
    weights = w.input("f32", shape=shape, layout=place)
    groups = w.groups() if w.slip() else w.pair.groups(*w.axes())
    early, how = w.rng.choice(["base", "dist", "both"]), w.rng.choice(["divide", "multiply", "inverse"])
    way, least, own = w.rng.choice(["scaled", "scaled", "turned", "added", "tanh"]), w.chance(0.5), w.slip()
    made, numbers = [], []
    for name, g, rows, weight in (("base", w.base, x.base, weights.base), ("dist", w.dist, x.dist, weights.dist)):
        number = w.emit(g, "reduce", [weight], dimensions=[0, 1], reducer="sum")
        if g is w.dist and not own:
            number = w.emit(g, "all-reduce", [number], reducer="sum", groups=groups)
        if least:
            number = w.emit(g, "maximum", [number, g.constant(1.0, "f32")])
        if how == "inverse":
            number = w.emit(g, "divide", [g.constant(1.0, "f32"), number])
        numbers.append(number)
        kind = "divide" if how == "divide" else "multiply"
        if early in (name, "both"):
            rows = w.emit(g, kind, [rows, spread(g, number, rows.shape, [])])
        rows = _linear(w, g, rows, weight, way)
        total = w.emit(g, "reduce", [rows], dimensions=[0], reducer="sum")
        if g is w.dist:
            total = w.emit(g, "all-reduce", [total], reducer="sum", groups=groups)
        if early not in (name, "both"):
            total = w.emit(g, kind, [total, spread(g, number, total.shape, [])])
        made.append(total)
    w.add(*numbers)
    w.add(*made)


def _linear(w: World, g: Graph, rows: Tensor, weight: Tensor, way: str) -> Tensor:
    """Something that is linear in rows, or nearly so."""
    if way == "scaled":
        return w.emit(g, "multiply", [weight, rows])
    if way == "turned":
        return w.emit(g, "subtract", [w.emit(g, "negate", [rows]), rows])
    return w.emit(g, "add", [rows, weight]) if way == "added" else w.emit(g, "tanh", [rows])


def _count(w: World, g: Graph, mask: Tensor, through: str) -> Tensor:
    """How many truths there are."""
    flags = w.emit(g, "convert", [mask], dtype=through)
    number = w.emit(g, "reduce", [flags], dimensions=list(range(len(mask.shape))), reducer="sum")
    return number if through == "f32" else w.emit(g, "convert", [number], dtype="f32")


def _mean(
    w: World, base: Tensor, dist: Tensor, masks: list[Tensor], counts: list[Tensor], together: Tensor,
    groups: list[list[int]],
) -> None:  # fmt: skip
    sums = []
    for g, x, mask in ((w.base, base, masks[0]), (w.dist, dist, masks[1])):
        kept = w.emit(g, "select", [mask, x, g.splat(0.0, "f32", x.shape)])
        sums.append(w.emit(g, "reduce", [kept], dimensions=list(range(len(x.shape))), reducer="sum"))
    own = w.chance(0.5)
    share = w.emit(w.dist, "divide", [sums[1], counts[1] if own else together])
    total = w.emit(w.dist, "all-reduce", [share], reducer="sum", groups=groups)
    ranks = len(groups[0]) + w.slip()
    mean = w.emit(w.dist, "divide", [total, w.dist.constant(float(ranks), "f32")]) if own != w.slip() else total
    w.add(w.emit(w.base, "divide", [sums[0], counts[0]]), mean)


def _gradient(
    w: World, base: Tensor, dist: Tensor, counts: list[Tensor], together: Tensor, groups: list[list[int]]
) -> None:
    """One over the count wherever x is large, else zero; added up over the ranks."""
    own, start, sign = w.chance(0.6), w.rng.choice([1.0, -1.0, 3.0]), w.rng.choice([1.0, 1.0, -2.0])
    known = w.chance(0.6)  # the count is written down
    made = []
    for g, x, count in ((w.base, base, counts[0]), (w.dist, dist, counts[1] if own else together)):
        number = g.constant(float(prod(x.shape) + (w.slip() and g is w.dist)), "f32") if known else count
        number = w.emit(g, "divide", [g.constant(start if g is w.base else start * sign, "f32"), number])
        wide = spread(g, number, x.shape, [])
        large = w.emit(g, "compare", [x, g.splat(0.25, "f32", x.shape)], direction="GT")
        arms = [wide, g.splat(0.0, "f32", x.shape)]
        made.append(w.emit(g, "select", [large, *(arms if w.chance(0.8) else arms[::-1])]))
    w.add(*made)
    total = w.emit(w.base, "reduce", [made[0]], dimensions=[0], reducer="sum")
    mine = w.emit(w.dist, "reduce", [made[1]], dimensions=[0], reducer="sum")
    summed = w.emit(w.dist, "all-reduce", [mine], reducer="sum", groups=groups)
    factor = sign * (len(groups[0]) if own or known else 1) + w.slip()
    w.add(total, w.emit(w.dist, "divide", [summed, w.dist.splat(factor, "f32", summed.shape)]))
