"""Random steps around integers that wrap round: of every type, in any range or none, pending, and what widens them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle.dtypes import integer_limits, is_integer

from .steps import partner
from .world import Retry, Twin, World, step

INTEGERS = ["s8", "u8", "s16", "u16", "s32", "s32", "u32", "s64", "u64", "s4"]
RESULTS = [*INTEGERS, "f32", "f32", "f64"]
RANGES = [None, None, None, (0, 2), (-3, 4), (0, 1000), (0, 2**28), (0, 2**30)]


def integer_input(w: World, least: int = 1) -> Twin:
    """An input of some integer type, within a range or not."""
    dtype, bounds = w.rng.choice(INTEGERS), w.rng.choice(RANGES)
    shape = [w.rng.choice([1, 2, 4, 4, 6, 8]) for _ in range(w.rng.choice([least, 2, 3]))]
    lo, hi = integer_limits(dtype)
    if bounds is not None and not (lo <= bounds[0] and bounds[1] <= hi):
        bounds = None
    layout = w.layout(shape, pending=True)
    if layout.gaps(shape) is not None:
        raise Retry
    base, dist = w.pair.input(shape, dtype=dtype, range=bounds, layout=layout)
    w.placed[dist] = layout
    w.twins.append(Twin(base, dist))
    return w.twins[-1]


def truths(w: World) -> Twin:
    """Where a value is positive, as numbers."""
    t, dtype = w.twin(least=1), w.rng.choice(["s32", "s32", "s64", "u8", "s8"])
    found = []
    for g, x in ((w.base, t.base), (w.dist, t.dist)):
        truth = w.emit(g, "compare", [x, g.splat(0.0, "f32", x.shape)], direction="GT")
        found.append(w.emit(g, "convert", [truth], dtype=dtype))
    w.twins.append(Twin(*found))
    return w.twins[-1]


def integer(w: World, least: int = 1) -> Twin:
    """A value of an integer type: of those there are, an input, or truth values as numbers."""
    found = [t for t in w.twins[-8:] if is_integer(t.base.dtype) and len(t.base.shape) >= least]
    if found and w.chance(0.6):
        return w.rng.choice(found)
    return truths(w) if w.chance(0.3) else integer_input(w, least)


def _wider(w: World, dtype: str) -> str:
    return dtype if w.chance(0.3) else w.rng.choice(RESULTS)


def _reduced(g: Graph, x: Tensor, dims: list[int], reducer: str, dtype: str) -> Tensor:
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    said: dict[str, Any] = {"numbers": {"dimensions": dims}, "symbols": {"reducer": [reducer]}}
    return g.add("reduce", [x], [(dtype, shape)], **said).result


def _both(w: World, t: Twin, make: Callable[[Graph, Tensor], Tensor]) -> None:
    w.add(make(w.base, t.base), make(w.dist, t.dist))


@step("integer-sum", 0.8)
def integer_sum(w: World) -> None:
    """Sums and extremes over dims, at once or one after the other, in the type of the operand or another one."""
    t = integer(w)
    if len(t.base.shape) != len(t.dist.shape):
        raise Retry
    reducer, dtype = w.rng.choice(["sum", "sum", "sum", "max", "min", "and"]), _wider(w, t.base.dtype)
    if reducer == "and":
        dtype = t.base.dtype
    rank = len(t.base.shape)
    dims = sorted(w.rng.sample(range(rank), w.rng.randint(1, rank)))
    steps = [dims] if len(dims) == 1 or w.chance(0.6) else [dims[1:], dims[:1]]
    other = [dims] if w.chance(0.3) else steps

    def make(g: Graph, x: Tensor) -> Tensor:
        for at in steps if g is w.base else other:
            last = at[0] == dims[0]
            x = _reduced(g, x, at, reducer, dtype if last else x.dtype)
        return x

    _both(w, t, make)


@step("integer-cast", 0.8)
def integer_cast(w: World) -> None:
    """A cast to any type, of what is pending or scaled, too."""
    t, dtype = integer(w), w.rng.choice([*RESULTS, "pred"])
    _both(w, t, lambda g, x: w.emit(g, "convert", [x], dtype=dtype))


@step("integer-arithmetic", 0.8)
def integer_arithmetic(w: World) -> None:
    """Arithmetic with another value of the type, or with a number."""
    t = integer(w)
    dtype = t.base.dtype
    kind = w.rng.choice([
        "add", "add", "subtract", "multiply", "multiply", "divide", "remainder", "floor-divide", "maximum", "minimum",
        "and", "or", "shift-right-logical", "shift-left", "negate", "abs", "clamp",
    ])  # fmt: skip
    lo, hi = integer_limits(dtype)
    if kind in ("negate", "abs"):
        return _both(w, t, lambda g, x: w.emit(g, kind, [x]))
    number = w.rng.choice([n for n in (1, 2, 3, 7, -1, -4, 0, 100) if lo <= n <= hi])

    def splat(g: Graph, x: Tensor, value: int = number) -> Tensor:
        return g.splat(value, dtype, x.shape)

    if kind == "clamp":
        return _both(w, t, lambda g, x: w.emit(g, kind, [splat(g, x, max(lo, -4)), x, splat(g, x, min(hi, 100))]))
    if kind in ("add", "subtract", "multiply", "maximum", "minimum") and w.chance(0.6):
        o = partner(w, t)
        w.add(w.emit(w.base, kind, [t.base, o.base]), w.emit(w.dist, kind, [t.dist, o.dist]))
        return None
    return _both(w, t, lambda g, x: w.emit(g, kind, [x, splat(g, x)]))


@step("integer-dot", 0.6)
def integer_dot(w: World) -> None:
    """A contraction of integers, in their type or another one."""
    t = integer(w)
    if len(t.dist.shape) != len(t.base.shape) or not is_integer(t.base.dtype):
        raise Retry
    dim = w.rng.randrange(len(t.base.shape))
    shape, dtype = [t.base.shape[dim], w.rng.choice([2, 3])], t.base.dtype
    for _ in range(12):
        layout = w.layout(shape, pending=w.chance(0.2))
        if len(layout.local_shape) == 2 and layout.local_shape[0] == t.dist.shape[dim] and layout.gaps(shape) is None:
            break
    else:
        raise Retry
    bounds = w.rng.choice([None, (0, 2), (0, 7)])
    base, dist = w.pair.input(shape, dtype=dtype, range=bounds, layout=layout)
    result, turned = _wider(w, dtype), w.chance(0.3)
    found = []
    for g, x, y in ((w.base, t.base, base), (w.dist, t.dist, dist)):
        free = tuple(n for d, n in enumerate(x.shape) if d != dim)
        dims = {"lhs_contracting_dims": [0 if turned else dim], "rhs_contracting_dims": [dim if turned else 0]}
        numbers = dims | {"lhs_batch_dims": [], "rhs_batch_dims": []}
        made = (y.shape[1], *free) if turned else (*free, y.shape[1])
        found.append(g.add("dot", [y, x] if turned else [x, y], [(result, made)], numbers=numbers).result)
    w.add(found[0], found[1])


@step("integer-collective", 0.8)
def integer_collective(w: World) -> None:
    """What is pending is reduced over the mesh, before or after it is cast; what is not is counted once per rank."""
    t, dtype = integer(w), w.rng.choice([*RESULTS, ""])
    if prod(t.base.shape) > 512:
        raise Retry
    groups, reducer = w.groups(), w.rng.choice(["sum", "sum", "sum", "max", "min"])
    base, dist = t.base, t.dist
    first = w.chance(0.5)
    for late in (False, True):
        if late == first:
            dist = w.emit(w.dist, "all-reduce", [dist], reducer=reducer, groups=groups)
        elif dtype:
            base, dist = (w.emit(g, "convert", [x], dtype=dtype) for g, x in ((w.base, base), (w.dist, dist)))
    if dtype[:1] == "f" and w.chance(0.3):  # what is counted once per rank, divided by their number
        dist = w.emit(w.dist, "multiply", [dist, w.dist.splat(1 / len(groups[0]), dtype, dist.shape)])
    w.add(base, dist)
