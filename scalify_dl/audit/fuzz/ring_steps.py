"""Random steps round a mesh axis: rolls by blocks, shifts that undo each other, reductions, gathers and work on the
blocks that come by."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor

from .partitioner_steps import part
from .world import Retry, Twin, World, step


def ring_axis(w: World) -> tuple[str, int, int]:
    """An axis with more than one rank: name, size, position."""
    fitting = [(a, n, i) for i, (a, n) in enumerate(w.pair.mesh.axes) if n > 1]
    if not fitting:
        raise Retry
    return w.rng.choice(fitting)


def shift(w: World, x: Tensor, at: int, size: int, by: int) -> Tensor:
    """The value that the rank `by` steps before has."""
    place = {c: r for r, c in enumerate(w.pair.mesh.coordinates)}
    pairs = []
    for c, r in place.items():
        target = list(c)
        target[at] = (c[at] + by) % size
        pairs.append((r, place[tuple(target)]))
    if w.slip():
        other = w.rng.choice(["fewer", "mixed"])
        if other == "fewer":
            pairs = pairs[:-1]
        else:
            targets = [t for _, t in pairs]
            w.rng.shuffle(targets)
            pairs = [(s, t) for (s, _), t in zip(pairs, targets, strict=True)]
    return w.emit(w.dist, "collective-permute", [x], pairs=pairs)


def own_block(w: World, at: int, size: int, width: int, by: int) -> dict[int, int]:
    """Where the block begins that a rank has after `by` steps."""
    return {r: (c[at] - by) % size * width for r, c in enumerate(w.pair.mesh.coordinates)}


def put_block(w: World, into: Tensor, block: Tensor, dim: int, start: dict[int, int]) -> Tensor:
    """`into` with the block written where the rank's offset says."""
    g = w.dist
    offset = g.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = start
    zero = g.constant(0, "s32")
    offsets = [offset.result if d == dim else zero for d in range(len(into.shape))]
    return w.emit(g, "dynamic-update-slice", [into, block, *offsets])


def sharded(w: World, dim: int, axis: str, shape: list[int]) -> Twin:
    """A fresh value with one dim in blocks over an axis, perhaps another over another axis."""
    sizes = dict(w.pair.mesh.axes)
    split: dict[int, str | list[str]] = {dim: axis}
    others = [a for a, n in w.pair.mesh.axes if a != axis and n > 1]
    if others and len(shape) > 1 and w.chance(0.4):
        split = w.rng.choice([{dim: axis, 1 - dim: others[0]}, {dim: [axis, others[0]]}, {dim: [others[0], axis]}])
    for d, axes in split.items():
        count = 1
        for a in [axes] if isinstance(axes, str) else axes:
            count *= sizes[a]
        if shape[d] % count:
            raise Retry
    return w.input("f32", shape=shape, layout=w.pair.layout(shape, split))


@step("roll", 0.5)
def roll(w: World) -> None:
    """The baseline rolls a dim, the ranks pass their blocks on."""
    axis, size, at = ring_axis(w)
    shape = [w.rng.choice([2, 3]) * size, w.rng.choice([2, 4])]
    dim = w.rng.randrange(2)
    shape = shape if dim == 0 else shape[::-1]
    t = sharded(w, dim, axis, shape)
    by = w.rng.randrange(1, size)
    n = shape[dim]
    block = n // size * (w.rng.randrange(1, size) if w.slip() else by) + (1 if w.slip() else 0)
    block = max(1, min(n - 1, block))
    base = w.emit(
        w.base, "concatenate", [part(w.base, t.base, dim, n - block, n), part(w.base, t.base, dim, 0, n - block)],
        dimension=dim,
    )  # fmt: skip
    steps = [by] if w.chance(0.6) or by == 1 else [1, by - 1]
    dist = t.dist
    for k in steps:
        dist = shift(w, dist, at, size, k)
    if w.chance(0.3):
        kind = w.rng.choice(["sine", "negate"])
        base, dist = w.emit(w.base, kind, [base]), w.emit(w.dist, kind, [dist])
    w.add(base, dist)


@step("full-turn", 0.3)
def full_turn(w: World) -> None:
    """Shifts that undo each other, with or without an op in between."""
    axis, size, at = ring_axis(w)
    t = sharded(w, 0, axis, [2 * size * w.rng.choice([1, 2]), 2]) if w.chance(0.7) else w.twin()
    by = w.rng.randrange(1, size)
    back = w.rng.randrange(size) if w.slip() else size - by
    x, base = shift(w, t.dist, at, size, by), t.base
    if w.chance(0.4):
        x, base = w.emit(w.dist, "sine", [x]), w.emit(w.base, "sine", [base])
    if back:
        x = shift(w, x, at, size, back)
    w.add(base, x)


@step("ring", 0.5)
def ring(w: World) -> None:
    """Every block comes by: added up, put side by side, or worked on and put side by side."""
    axis, size, at = ring_axis(w)
    style = w.rng.choice(["reduce", "gather", "work"])
    rounds = size + w.rng.choice([-1, 1]) if w.slip() else size
    if style == "reduce":
        t = (
            w.twin()
            if w.chance(0.4)
            else w.input("f32", shape=[4, 2], layout=w.pair.layout([4, 2], {}, pending={axis: "sum"}))
        )
        kind = w.rng.choice(["add", "add", "maximum"])
        total = moved = t.dist
        for _ in range(rounds - 1):
            moved = shift(w, moved, at, size, 1)
            total = w.emit(w.dist, kind, [total, moved])
        w.add(t.base, total)
        return
    rows = w.rng.choice([1, 2]) * size
    t = sharded(w, 0, axis, [rows, 2])
    width = t.dist.shape[0]
    other = w.input("f32", shape=[2, 4], layout=w.pair.layout([2, 4], {})) if style == "work" else None
    columns = t.dist.shape[1]
    if other is not None and other.dist.shape[0] != columns:
        raise Retry
    wide = 1 if w.slip() else 0  # a column that no block fills
    out = w.dist.splat(w.rng.choice([0.0, 1.0]), "f32", (width * size, (4 if other else columns) + wide))
    moved = t.dist
    for k in range(rounds):
        block = moved
        if other is not None:
            block = w.emit(w.dist, "dot", [moved, other.dist], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
        start = own_block(w, at, size, width, k + 1 if w.slip() else k)
        out = put_block(w, out, block, 0, start)
        if k + 1 < rounds:
            moved = shift(w, moved, at, size, 1)
    base = t.base
    if other is not None:
        base = w.emit(w.base, "dot", [t.base, other.base], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    w.add(base, out)


@step("placed-block", 0.5)
def placed_block(w: World) -> None:
    """Every rank writes what it has into zeros, at its own place."""
    axis, size, at = ring_axis(w)
    t = sharded(w, 0, axis, [2 * size, 4]) if w.chance(0.5) else w.twin(least=1)
    if not t.dist.shape:
        raise Retry
    dim = w.rng.randrange(len(t.dist.shape))
    width = t.dist.shape[dim]
    shape = [n * size if d == dim else n for d, n in enumerate(t.dist.shape)]
    into = w.dist.splat(1.0 if w.slip() else 0.0, "f32", shape)
    start = own_block(w, at, size, width, 1 if w.slip() else 0)
    w.add(t.base, put_block(w, into, t.dist, dim, start))
