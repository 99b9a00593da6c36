"""Random steps around flat buffers: values of all sizes in one row, exchanged at once and taken out again. The baseline
has the values alone."""

from __future__ import annotations

from math import gcd, prod

from scalify_dl.ir.graph import Tensor

from .ring_steps import ring_axis
from .world import Retry, Twin, World, step


def _values(w: World, axis: str, *, pending: bool) -> list[Twin]:
    """Two or three inputs: cut along dim 0 over the axis, or parts of a sum over it."""
    size, alike = w.pair.mesh.axis_size(axis), w.chance(0.3)
    found: list[Twin] = []
    for _ in range(w.rng.choice([2, 2, 3])):
        if not (alike and found):
            shape = [size * w.rng.choice([1, 2]), *w.rng.choice([[], [2], [3]])]
        if pending:
            layout = w.pair.layout(shape, {}, pending={axis: "sum"})
        else:
            layout = w.pair.layout(shape, {0: axis}) if not w.slip() else w.layout(shape, pending=False)
        found.append(w.input("f32", shape=shape, layout=layout))
    return found


def _flat(w: World, x: Tensor, *rows: int) -> Tensor:
    return w.emit(w.dist, "reshape", [x], shape=(*rows, prod(x.shape) // prod(rows)))


def _cut(w: World, x: Tensor, dim: int, lo: int, hi: int) -> Tensor:
    """Elements lo … hi along one dim; now and then others, or no further than there are."""
    if w.slip():
        lo, hi = (lo + 1, hi + 1) if hi < x.shape[dim] else (max(lo - 1, 0), hi)
    return w.emit(
        w.dist, "slice", [x], start=[lo if d == dim else 0 for d in range(len(x.shape))],
        limit=[hi if d == dim else n for d, n in enumerate(x.shape)], stride=[1] * len(x.shape),
    )  # fmt: skip


def _between(w: World, x: Tensor) -> Tensor:
    """What is done with the whole buffer: nothing, or half of it."""
    return w.emit(w.dist, "multiply", [x, w.dist.splat(0.5, "f32", x.shape)]) if w.chance(0.3) else x


def _ends(xs: list[Tensor], rows: int) -> list[tuple[int, int]]:
    ends, at = [], 0
    for x in xs:
        ends.append((at, at := at + prod(x.shape) // rows))
    return ends


def _unit(w: World, xs: list[Tensor], rows: int) -> int:
    """So many elements of a row are seen as one part: one, or what goes into every value."""
    return gcd(*(prod(x.shape) // rows for x in xs)) if w.chance(0.5) else 1


@step("flat-gather", 0.4)
def flat_gather(w: World) -> None:
    """Shards of several values, gathered in one row each."""
    axis, size, _ = ring_axis(w)
    twins = _values(w, axis, pending=False)
    mine = [t.dist for t in twins]
    order = w.rng.sample(range(len(mine)), len(mine))
    row = _between(w, w.emit(w.dist, "concatenate", [_flat(w, mine[i]) for i in order], dimension=0))
    gathered = w.emit(w.dist, "all-gather", [row], dimension=0, groups=w.groups() if w.slip() else w.pair.groups(axis))
    unit = _unit(w, mine, 1)
    if gathered.shape[0] % (size * unit):
        raise Retry
    rows = _between(w, _flat(w, gathered, size, gathered.shape[0] // size // unit))
    for i, (lo, hi) in zip(order, _ends([mine[i] for i in order], 1), strict=True):
        part = _cut(w, rows, 1, lo // unit, hi // unit)
        if prod(part.shape) == prod(twins[i].base.shape):
            w.add(twins[i].base, w.emit(w.dist, "reshape", [part], shape=twins[i].base.shape))


@step("moved-blocks", 0.3)
def moved_blocks(w: World) -> None:
    """A value cut along a later dim, gathered along dim 0: its blocks are put beside each other along that dim."""
    axis, size, _ = ring_axis(w)
    shape = [w.rng.choice([1, 2, 4]), *w.rng.choice([[], [3]]), size * w.rng.choice([1, 2])]
    dim = w.rng.randrange(1, len(shape))
    layout = w.pair.layout(shape, {len(shape) - 1: axis}) if not w.slip() else w.layout(shape, pending=False)
    x = w.input("f32", shape=shape, layout=layout)
    groups = w.groups() if w.slip() else w.pair.groups(axis)
    gathered = w.emit(w.dist, "all-gather", [x.dist], dimension=0, groups=groups)
    length = gathered.shape[0] // len(groups[0])
    blocks = [_cut(w, gathered, 0, i * length, (i + 1) * length) for i in range(len(groups[0]))]
    if w.slip():
        w.rng.shuffle(blocks)
    w.add(x.base, w.emit(w.dist, "concatenate", blocks, dimension=dim if w.slip() else len(shape) - 1))


@step("flat-scatter", 0.4)
def flat_scatter(w: World) -> None:
    """Parts of sums of several values, a row for each rank, reduced and scattered at once; or reduced as one bucket."""
    axis, size, _ = ring_axis(w)
    twins = _values(w, axis, pending=True)
    mine, groups = [t.dist for t in twins], w.groups() if w.slip() else w.pair.groups(axis)
    if w.chance(0.4):
        row = _between(w, w.emit(w.dist, "concatenate", [_flat(w, x) for x in mine], dimension=0))
        total = _between(w, w.emit(w.dist, "all-reduce", [row], reducer="sum", groups=groups))
        for t, (lo, hi) in zip(twins, _ends(mine, 1), strict=True):
            w.add(t.base, w.emit(w.dist, "reshape", [_cut(w, total, 0, lo, hi)], shape=t.dist.shape))
        return
    unit = _unit(w, mine, size)
    parts = [_flat(w, x, size, prod(x.shape) // size // unit) for x in mine]
    rows = _between(w, w.emit(w.dist, "concatenate", parts, dimension=1))
    flat = _flat(w, rows)
    if flat.shape[0] % len(groups[0]):
        raise Retry
    share = w.emit(w.dist, "reduce-scatter", [flat], dimension=0, reducer="sum", groups=groups)
    share = _between(w, share)
    for t, (lo, hi) in zip(twins, _ends(mine, size), strict=True):
        if hi > share.shape[0]:
            raise Retry
        shape = (t.dist.shape[0] // size, *t.dist.shape[1:])
        w.add(t.base, w.emit(w.dist, "reshape", [_cut(w, share, 0, lo, hi)], shape=shape))
