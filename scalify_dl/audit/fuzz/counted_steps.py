"""Random steps that count how many labels are not ignored, where a program put the labels together itself."""

from __future__ import annotations

from typing import Any

from scalify_dl.ir.graph import Graph, Tensor

from .world import World, step

IGNORED = -100


@step("counted-parts", 0.3)
def counted_parts(w: World) -> None:
    """Labels that are shifted, padded, glued to others, cut and cast; the number of all that compare so, by one count
    for all ranks or one for each."""
    shape = [w.rng.choice([2, 4]), w.rng.choice([2, 3, 4])]
    lo, hi = w.rng.choice([(0, 6), (0, 6), (-2, 3), (IGNORED, 6)])
    place = w.layout(shape, pending=False) if w.chance(0.6) else w.pair.layout(shape, {0: w.axes()[:1]})
    labels = w.pair.input(shape, dtype="s32", range=(lo, hi), layout=place)
    w.dist.inputs[-1].range = (lo, hi)
    along = w.rng.choice([0, 1, 1, 1])
    todo = [_drawn(w, along) for _ in range(w.rng.choice([1, 2, 3]))]
    bound, way = w.rng.choice([IGNORED, IGNORED, lo, hi - 1, 9]), w.rng.choice(["NE", "NE", "EQ", "LT", "GE"])
    turned, order = w.chance(0.3), w.rng.choice(["merged", "turned", "as it is"])
    dims, counts = w.rng.choice([None, None, None, [0]]), []
    for g, ids in ((w.base, labels[0]), (w.dist, labels[1])):
        for kind, *rest in todo:
            ids = _put_together(w, g, ids, kind, along, *rest)
        number = g.splat(_fit(bound, ids), ids.dtype, ids.shape)
        mask = w.emit(g, "compare", [number, ids] if turned else [ids, number], direction=way)
        flags = w.emit(g, "convert", [mask], dtype=w.rng.choice(["f32", "f32", "s32", "s64", "s8"]))
        if order == "merged":
            flags = w.emit(g, "reshape", [flags], shape=(flags.shape[0] * flags.shape[1],))
        elif order == "turned":
            flags = w.emit(g, "transpose", [flags], dimensions=[1, 0])
        over = dims if dims is not None else list(range(len(flags.shape)))
        count = w.emit(g, "reduce", [flags], dimensions=over, reducer="sum")
        counts.append(count if count.dtype == "f32" else w.emit(g, "convert", [count], dtype="f32"))
    groups = w.groups() if w.slip() else w.pair.groups(*w.axes())
    together = w.emit(w.dist, "all-reduce", [counts[1]], reducer="sum", groups=groups)
    ranks = w.dist.splat(float(len(groups[0])), "f32", counts[1].shape)
    w.add(*counts)
    w.add(counts[0], together)
    w.add(counts[0], w.emit(w.dist, "multiply", [counts[1], ranks]))


def _drawn(w: World, along: int) -> tuple[Any, ...]:
    """One way of putting labels together, the same on both sides but for a slip."""
    kind = w.rng.choice(["pad", "pad", "glue", "cut", "cut", "cast", "reverse"])
    if kind == "pad":
        low, high = w.rng.choice([0, 0, 1, 2, -1]), w.rng.choice([0, 1, 1, 2, -1])
        both, between = w.chance(0.1), w.rng.choice([0, 0, 0, 0, 1])
        return kind, low, high, between, both, w.rng.choice([IGNORED, IGNORED, 3])
    if kind == "glue":
        return kind, w.chance(0.5), w.rng.choice([IGNORED, IGNORED, 0, 3]), w.rng.choice([1, 2])
    if kind == "cut":
        return kind, w.rng.choice([0, 1, 1, 2]), w.rng.choice([0, 0, 1]), w.rng.choice([1, 1, 1, 1, 2]), w.chance(0.3)
    return kind, w.rng.choice(["s64", "s32", "u8", "s8", "f32"])


def _fit(number: int, ids: Tensor) -> float:
    """A number that the type of the ids holds."""
    return float(number) if ids.dtype == "f32" else max(number, 0) if ids.dtype[0] == "u" else number


def _put_together(w: World, g: Graph, ids: Tensor, kind: str, along: int, *how: Any) -> Tensor:
    if kind == "pad":
        low, high, between, both, number = how
        lows, highs, interior = [0, 0], [0, 0], [0, 0]
        lows[along], highs[along], interior[along] = low, high, between
        if both:
            highs[1 - along] = 1
        filling = g.constant(_fit(number, ids), ids.dtype)
        return w.emit(g, "pad", [ids, filling], low=lows, high=highs, interior=interior)
    if kind == "glue":
        before, number, columns = how
        shape = list(ids.shape)
        shape[along] = columns
        other = g.splat(_fit(number, ids), ids.dtype, shape)
        return w.emit(g, "concatenate", [other, ids] if before else [ids, other], dimension=along)
    if kind == "cut":
        first, last, stride, across = how
        start, limit, strides = [0, 0], list(ids.shape), [1, 1]
        start[along], limit[along], strides[along] = first, limit[along] - last, stride
        if across:
            start[1 - along] = 1
        return w.emit(g, "slice", [ids], start=start, limit=limit, stride=strides)
    if kind == "reverse":
        return w.emit(g, "reverse", [ids], dimensions=[along])
    return w.emit(g, "convert", [ids], dtype=how[0])
