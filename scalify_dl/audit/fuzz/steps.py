"""Random steps around each op kind: the same on both sides, now and then not."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.layout import Digit, Layout, Repl

from .world import FACTORS, Retry, Twin, World, shapes_agree, step

UNARY = ["sine", "exponential", "negate", "abs", "logistic", "tanh", "sign", "floor", "relu", "gelu"]
BINARY = ["add", "add", "subtract", "multiply", "multiply", "divide", "maximum", "minimum", "gelu-backward"]
NOT_COMMUTATIVE = ["subtract", "divide", "gelu-backward"]


def _pick(w: World, right: str, others: Sequence[str]) -> str:
    return w.rng.choice(list(others)) if w.slip() else right


@step("unary", 1.5)
def unary(w: World) -> None:
    t = w.twin()
    kind = w.rng.choice(UNARY)
    w.add(w.emit(w.base, kind, [t.base]), w.emit(w.dist, _pick(w, kind, UNARY), [t.dist]))


def partner(w: World, t: Twin) -> Twin:
    """Another value of the same shapes: one that is there, or an input placed likewise or otherwise."""
    found = [o for o in w.twins if shapes_agree(o, t) and o.base.dtype == t.base.dtype]
    if found and w.chance(0.6):
        return w.rng.choice(found)
    placed = w.placement(t) if w.chance(0.6) else None
    layout = placed or w.layout(t.base.shape, pending=t.base.dtype in ("f32", "s32"))
    if layout.local_shape != t.dist.shape:
        layout = next((lay for lay in _plain(w, t)), layout)
    fresh = w.input(t.base.dtype, shape=t.base.shape, layout=layout)
    if not shapes_agree(fresh, t):
        raise Retry
    return fresh


def _plain(w: World, t: Twin):  # type: ignore[no-untyped-def]
    from scalify_dl.oracle.compare import default_layouts

    found = list(default_layouts(t.base.shape, t.dist.shape, dict(w.pair.mesh.axes)))
    w.rng.shuffle(found)
    return found


@step("binary", 2.5)
def binary(w: World) -> None:
    t = w.twin()
    o = partner(w, t)
    kind = w.rng.choice(BINARY)
    operands = [t.dist, o.dist]
    if w.chance(0.3 if kind in NOT_COMMUTATIVE else 0.1):
        operands.reverse()
    w.add(w.emit(w.base, kind, [t.base, o.base]), w.emit(w.dist, _pick(w, kind, BINARY), operands))


@step("integers", 0.8)
def integers(w: World) -> None:
    """Integer arithmetic, which truncates and is not linear where reals are."""
    t = w.twin(dtype="s32")
    o = partner(w, t)
    kind = w.rng.choice(["add", "multiply", "divide", "remainder", "maximum", "power", "and"])
    if kind in ("divide", "remainder", "power") or w.chance(0.3):
        value = w.rng.choice([2, 3])
        pair = [w.emit(g, kind, [x, g.splat(value, "s32", x.shape)]) for g, x in ((w.base, t.base), (w.dist, t.dist))]
    else:
        operands = [o.dist, t.dist] if w.chance(0.2) else [t.dist, o.dist]
        pair = [w.emit(w.base, kind, [t.base, o.base]), w.emit(w.dist, kind, operands)]
    w.add(*pair)


@step("scale", 1.0)
def scale(w: World) -> None:
    t = w.twin()
    kind, factor = w.rng.choice(["multiply", "divide", "add"]), w.rng.choice([2, 0.5, 3, 4])
    other = w.rng.choice([2, 0.5, 3, 4]) if w.slip() else factor
    w.add(
        w.emit(w.base, kind, [t.base, w.base.splat(factor, "f32", t.base.shape)]),
        w.emit(w.dist, kind, [t.dist, w.dist.splat(other, "f32", t.dist.shape)]),
    )


@step("select", 0.7)
def select(w: World) -> None:
    t = w.twin()
    o = partner(w, t)
    c, e = partner(w, t), partner(w, t)
    direction = w.rng.choice(["LT", "GE", "EQ"])
    p = w.emit(w.base, "compare", [t.base, o.base], direction=direction)
    q = w.emit(w.dist, "compare", [t.dist, o.dist], direction=_pick(w, direction, ["LT", "GT", "GE", "EQ"]))
    w.add(w.emit(w.base, "select", [p, c.base, e.base]), w.emit(w.dist, "select", [q, c.dist, e.dist]))


@step("convert", 0.5)
def convert(w: World) -> None:
    t = w.twin()
    dtype = w.rng.choice(["f16", "bf16", "s32"])
    back = [
        w.emit(g, "convert", [w.emit(g, "convert", [x], dtype=d)], dtype="f32")
        for g, x, d in ((w.base, t.base, dtype), (w.dist, t.dist, _pick(w, dtype, ["f16", "s32"])))
    ]
    w.add(*back)


@step("broadcast", 1.0)
def broadcast(w: World) -> None:
    t = w.twin()
    if len(t.base.shape) > 3 or len(t.base.shape) != len(t.dist.shape):
        raise Retry
    rank = len(t.base.shape) + w.rng.choice([1, 1, 2])
    dims = sorted(w.rng.sample(range(rank), len(t.base.shape)))
    size = w.rng.choice([2, 4, 6])
    local = size
    if w.chance(0.4):
        local = max(size // w.rng.choice([n for _, n in w.pair.mesh.axes]), 1)
    shapes = []
    for x, n in ((t.base, size), (t.dist, local)):
        shape = [n] * rank
        for d, extent in zip(dims, x.shape, strict=True):
            shape[d] = extent
        shapes.append(shape)
    other = sorted(w.rng.sample(range(rank), len(dims))) if w.slip() else dims
    w.add(
        w.emit(w.base, "broadcast", [t.base], shape=shapes[0], dimensions=dims),
        w.emit(w.dist, "broadcast", [t.dist], shape=shapes[1], dimensions=other),
    )


def _refactored(w: World, shape: Sequence[int]) -> list[int]:
    """The shape with two neighbours merged, or one dim split."""
    shape = list(shape)
    if len(shape) > 1 and w.chance(0.5):
        at = w.rng.randrange(len(shape) - 1)
        return [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    splittable = [d for d, n in enumerate(shape) if n >= 4]
    if not splittable or len(shape) > 4:
        raise Retry
    at = w.rng.choice(splittable)
    factors = [f for f in range(2, shape[at]) if shape[at] % f == 0]
    if not factors:
        raise Retry
    first = w.rng.choice(factors)
    return [*shape[:at], first, shape[at] // first, *shape[at + 1 :]]


@step("reshape", 2.0)
def reshape(w: World) -> None:
    t = w.twin(least=1, dtype=None)
    shape = _refactored(w, t.base.shape)
    local = None
    if (
        len(t.dist.shape) == len(t.base.shape) and not w.slip()
    ):  # divide one of the new dims by what the local one lacks
        ratio = max(prod(t.base.shape) // max(prod(t.dist.shape), 1), 1)
        fitting = [d for d, n in enumerate(shape) if n % ratio == 0]
        if fitting:
            at = w.rng.choice(fitting[:1] if w.chance(0.6) else fitting)
            local = [n // ratio if d == at else n for d, n in enumerate(shape)]
    if local is None:
        local = _refactored(w, t.dist.shape)
    w.add(w.emit(w.base, "reshape", [t.base], shape=shape), w.emit(w.dist, "reshape", [t.dist], shape=local))


@step("transpose", 1.5)
def transpose(w: World) -> None:
    t = w.level(least=2, dtype=None)
    order = w.rng.sample(range(len(t.base.shape)), len(t.base.shape))
    other = w.rng.sample(order, len(order)) if w.slip() else order
    if w.chance(0.15):  # on one side only
        w.add(t.base, w.emit(w.dist, "transpose", [t.dist], dimensions=other))
        return
    w.add(
        w.emit(w.base, "transpose", [t.base], dimensions=order), w.emit(w.dist, "transpose", [t.dist], dimensions=other)
    )


def _sliced(w: World, side: str, x: Tensor, dim: int, lo: int, hi: int, stride: int = 1) -> Tensor:
    graph = w.base if side == "base" else w.dist
    start, limit, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    start[dim], limit[dim], strides[dim] = lo, hi, stride
    return w.emit(graph, "slice", [x], start=start, limit=limit, stride=strides)


@step("slice", 1.5)
def slice_(w: World) -> None:
    t = w.level(least=1, dtype=None)
    dim = w.rng.randrange(len(t.base.shape))
    n, m = t.base.shape[dim], t.dist.shape[dim]
    parts = w.rng.choice([2, 2, 3])
    if n % parts or m % parts:
        raise Retry
    at = w.rng.randrange(parts)
    other = w.rng.randrange(parts) if w.slip() else at
    if w.chance(0.15):  # strided
        w.add(_sliced(w, "base", t.base, dim, at, n, parts), _sliced(w, "dist", t.dist, dim, other, m, parts))
        return
    size, local = n // parts, m // parts
    w.add(
        _sliced(w, "base", t.base, dim, at * size, (at + 1) * size),
        _sliced(w, "dist", t.dist, dim, other * local, (other + 1) * local),
    )


@step("fused", 0.7)
def fused(w: World) -> None:
    """Several blocks side by side, each cut over an axis: slices at any place, and what is glued again."""
    axis, size = w.rng.choice(w.pair.mesh.axes)
    blocks, width = w.rng.choice([2, 3]), w.rng.choice([1, 2, 5])
    n = blocks * size * width
    digits = [Digit(0, size * width, blocks), Digit(0, 1, width)]
    axes = [(a, [Digit(0, width, size) if a == axis else Repl(k)]) for a, k in w.pair.mesh.axes]
    t = w.input("f32", shape=[n, 2], layout=Layout.of([digits, [Digit(1, 1, 2)]], axes))
    m = t.dist.shape[0]
    if m != blocks * width:
        raise Retry
    parts: list[tuple[Tensor, Tensor]] = []
    for k in range(blocks):
        lo, hi, low, high = k * n // blocks, (k + 1) * n // blocks, k * width, (k + 1) * width
        if w.slip():
            lo, hi = sorted(w.rng.sample(range(n + 1), 2))
        if w.slip():
            low, high = sorted(w.rng.sample(range(m + 1), 2))
        parts.append((_sliced(w, "base", t.base, 0, lo, hi), _sliced(w, "dist", t.dist, 0, low, high)))
        w.add(*parts[-1])
    if w.chance(0.5):
        other = w.rng.sample(parts, len(parts)) if w.slip() else parts
        base = w.emit(w.base, "concatenate", [b for b, _ in parts], dimension=0)
        w.add(base, w.emit(w.dist, "concatenate", [d for _, d in other], dimension=0))


@step("own-slice", 1.2)
def own_slice(w: World) -> None:
    """Every rank takes its part of a value, by coordinates along an axis (or by something else)."""
    t = w.twin(least=1, dtype=None)
    axis, size = w.rng.choice(w.pair.mesh.axes)
    dim = w.rng.randrange(len(t.dist.shape)) if t.dist.shape else 0
    if not t.dist.shape or t.dist.shape[dim] % size or size == 1:
        raise Retry
    local = t.dist.shape[dim] // size
    position = [name for name, _ in w.pair.mesh.axes].index(axis)
    starts = {rank: at[position] * local for rank, at in enumerate(w.pair.mesh.coordinates)}
    if w.slip():
        rank = w.rng.choice(list(starts))
        starts[rank] = w.rng.randrange(t.dist.shape[dim] - local + 1)
    shape = [local if d == dim else n for d, n in enumerate(t.dist.shape)]
    zero = [0] * len(shape)
    if w.chance(0.5):
        limit = list(t.dist.shape)
        limit[dim] = local
        op = w.dist.add(
            "slice",
            [t.dist],
            [(t.dist.dtype, tuple(shape))],
            numbers={"start": zero, "limit": limit, "stride": [1] * len(shape)},
        )
        op.rank_numbers["start", dim] = starts
        op.rank_numbers["limit", dim] = {rank: s + local for rank, s in starts.items()}
        w.add(t.base, op.result)
        return
    offset = w.dist.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = starts
    at = [offset.result if d == dim else w.dist.constant(0, "s32") for d in range(len(shape))]
    along = [(d, p, n) for d in range(len(shape)) for p, (name, n) in enumerate(w.pair.mesh.axes)
             if d != dim and name != axis and n > 1 and shape[d] % n == 0]  # fmt: skip
    if along and w.chance(0.5):  # and along another dim, by another axis (or by the same, which is wrong)
        d, p, n = w.rng.choice(along)
        shape[d] //= n
        by = position if w.slip() else p
        other = w.dist.add("constant", [], [("s32", ())])
        other.rank_numbers["value", 0] = {rank: c[by] * shape[d] for rank, c in enumerate(w.pair.mesh.coordinates)}
        at[d] = other.result
    w.add(t.base, w.emit(w.dist, "dynamic-slice", [t.dist, *at], sizes=shape))


@step("concatenate", 1.0)
def concatenate(w: World) -> None:
    t = w.twin(least=1)
    o = partner(w, t)
    dim = w.rng.randrange(len(t.base.shape))
    other = w.rng.randrange(len(t.dist.shape)) if w.slip() and t.dist.shape else dim
    order = [o, t] if w.slip() else [t, o]
    w.add(
        w.emit(w.base, "concatenate", [t.base, o.base], dimension=dim),
        w.emit(w.dist, "concatenate", [x.dist for x in order], dimension=other),
    )


@step("pad", 0.8)
def pad(w: World) -> None:
    t = w.level(least=1)
    dim = w.rng.randrange(len(t.base.shape))
    low, high = w.rng.choice([(0, 2), (1, 0), (1, 1), (-1, 0)])
    amounts = [[v if d == dim else 0 for d in range(len(t.base.shape))] for v in (low, high)]
    value = w.rng.choice([0.0, 1.0])
    other = 1.0 - value if w.slip() else value
    zero = [0] * len(t.base.shape)
    w.add(
        w.emit(w.base, "pad", [t.base, w.base.constant(value, "f32")], low=amounts[0], high=amounts[1], interior=zero),
        w.emit(w.dist, "pad", [t.dist, w.dist.constant(other, "f32")], low=amounts[0], high=amounts[1], interior=zero),
    )


@step("reduce", 2.0)
def reduce(w: World) -> None:
    t = w.level(least=1)
    dims = sorted(w.rng.sample(range(len(t.base.shape)), w.rng.randint(1, len(t.base.shape))))
    others = sorted(w.rng.sample(range(len(t.base.shape)), len(dims))) if w.slip() else dims
    names = ["sum", "sum", "sum", "max", "min", "prod" if prod(t.base.shape) <= FACTORS else "sum"]
    name = w.rng.choice(names)
    w.add(
        w.emit(w.base, "reduce", [t.base], dimensions=dims, reducer=name),
        w.emit(w.dist, "reduce", [t.dist], dimensions=others, reducer=_pick(w, name, names)),
    )


@step("dot", 2.5)
def dot(w: World) -> None:
    t = w.level(least=1)
    dim = w.rng.randrange(len(t.base.shape))
    n, m = t.base.shape[dim], t.dist.shape[dim]
    batch = [d for d in range(len(t.base.shape)) if d != dim and w.chance(0.25) and t.base.shape[d] <= 4]
    free = w.rng.choice([2, 4, 6])
    shape = [*(t.base.shape[d] for d in batch), n, free]
    want = [*(t.dist.shape[d] for d in batch), m]
    for _ in range(12):
        layout = w.layout(shape, pending=w.chance(0.2))
        if list(layout.local_shape[: len(want)]) == want:
            break
    else:
        raise Retry
    o = w.input("f32", shape=shape, layout=layout)
    if len(o.dist.shape) != len(shape):
        raise Retry
    attributes = {
        "lhs_batch_dims": batch, "rhs_batch_dims": list(range(len(batch))), "lhs_contracting_dims": [dim],
        "rhs_contracting_dims": [len(batch)],
    }  # fmt: skip
    if w.chance(0.3):
        turned = {key.replace("lhs", "?").replace("rhs", "lhs").replace("?", "rhs"): v for key, v in attributes.items()}
        w.add(w.emit(w.base, "dot", [o.base, t.base], **turned), w.emit(w.dist, "dot", [o.dist, t.dist], **turned))
    else:
        w.add(
            w.emit(w.base, "dot", [t.base, o.base], **attributes), w.emit(w.dist, "dot", [t.dist, o.dist], **attributes)
        )


@step("along", 1.2)
def along(w: World) -> None:
    """Ops along one dim: scans, sorts, reversals, index reductions."""
    t = w.level(least=1)
    dim = w.rng.randrange(len(t.base.shape))
    other = w.rng.randrange(len(t.base.shape)) if w.slip() else dim
    kind = w.rng.choice(["cumulative", "sort", "reverse", "argmax"])
    for graph, x, d in ((w.base, t.base, dim), (w.dist, t.dist, other)):
        if kind == "cumulative":
            r = w.emit(graph, kind, [x], dimension=d, reducer="sum")
        elif kind == "sort":
            r = w.emit(graph, kind, [x], dimension=d, direction="ASC")
        elif kind == "reverse":
            r = w.emit(graph, kind, [x], dimensions=[d])
        else:
            r = w.emit(
                graph,
                "reduce",
                [x],
                dimensions=[d],
                reducer="argmax",
                dtype="s32",
                shape=[n for i, n in enumerate(x.shape) if i != d],
            )
        if graph is w.base:
            first = r
    w.add(first, r)
