"""Random steps as a compiler's partitioner writes them: shards cut, passed on and glued again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Layout

from ..pair import Pair
from .world import Retry, World, step


def exchanged(
    pair: Pair, x: Tensor, dim: int, axis: str, first: int, size: int, *, step: int | None = None, slip: int = 0,
    beside: int = 0, padded: int = 0, corner: int = 0,
) -> Tensor:  # fmt: skip
    """Of the value whose blocks along `dim` are the shards `x` over `axis`: elements `first + step * c …` (a `step` is
    `size`) on the rank at coordinate `c`. Neighbours' shards are passed on, glued, perhaps `padded` in front (and by
    `corner` elements of another dim), and the window is cut out, `slip` elements too far, and `beside` elements less of
    another dim."""
    g, n = pair.dist, x.shape[dim]
    at = [name for name, _ in pair.mesh.axes].index(axis)
    ranks = list(enumerate(pair.mesh.coordinates))
    count = pair.mesh.axes[at][1]
    starts = [first + (size if step is None else step) * c for c in range(count)]
    low = min(s // n - c for c, s in enumerate(starts))
    high = max((s + size - 1) // n - c for c, s in enumerate(starts))
    parts = []
    for far in range(low, high + 1):
        pairs = [
            (q, r) for q, there in ranks for r, here in ranks
            if there[at] == here[at] + far and there[:at] == here[:at] and there[at + 1 :] == here[at + 1 :]
        ]  # fmt: skip
        parts.append(g.emit("collective-permute", [x], pairs=pairs) if far else x)
    joined = g.emit("concatenate", parts, dimension=dim) if len(parts) > 1 else x
    if padded:
        edge = [padded if d == dim else 0 for d in range(len(x.shape))]
        beyond = [corner if d == 1 - dim else 0 for d in range(len(edge))]
        none = [0] * len(edge)
        joined = g.emit("pad", [joined, g.constant(0.0, x.dtype)], low=edge, high=beyond, interior=none)
    zero, offset = g.constant(0, "s32"), g.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = {r: starts[c[at]] - (c[at] + low) * n + padded + slip for r, c in ranks}
    other = g.constant(beside, "s32")
    offsets = [offset.result if d == dim else other if beside and d == 1 - dim else zero for d in range(len(x.shape))]
    sizes = [size if d == dim else m - (beside if d == 1 - dim else 0) for d, m in enumerate(joined.shape)]
    return g.emit("dynamic-slice", [joined, *offsets], sizes=sizes)


def part(g: Graph, x: Tensor, dim: int, lo: int, hi: int) -> Tensor:
    """Elements `lo … hi-1` along one dim."""
    return g.emit(
        "slice", [x], start=[lo if d == dim else 0 for d in range(len(x.shape))],
        limit=[hi if d == dim else n for d, n in enumerate(x.shape)], stride=[1] * len(x.shape),
    )  # fmt: skip


@step("reshard", 0.5)
def reshard(w: World) -> None:
    """A part of a sharded dim, in blocks of its own: borders are exchanged."""
    shape = [w.rng.choice([8, 12, 16]), w.rng.choice([2, 4])]
    axis, count = w.rng.choice(w.pair.mesh.axes)
    others = [name for name, n in w.pair.mesh.axes if name != axis and n > 1]
    if count == 1 or shape[0] % count:
        raise Retry
    split: dict[int, str | list[str]] = {0: axis}
    if others and w.chance(0.5):
        other = w.rng.choice(others)
        split = w.rng.choice([{0: axis, 1: other}, {0: [axis, other]}, {0: [other, axis]}])
    sizes = dict(w.pair.mesh.axes)
    ways = {d: prod(sizes[a] for a in ([axes] if isinstance(axes, str) else axes)) for d, axes in split.items()}
    if any(shape[d] % n for d, n in ways.items()):
        raise Retry
    rest = [a for a in others if all(a not in axes for axes in split.values())]
    pending = {w.rng.choice(rest): w.rng.choice(["sum", "max"])} if rest and w.chance(0.3) else {}
    t = w.input("f32", shape=shape, layout=w.pair.layout(shape, split, pending=pending))
    size = w.rng.randint(1, max(1, (shape[0] - 1) // count))
    first = w.rng.randint(0, shape[0] - size * count)
    same = w.chance(0.2)  # the same part on all ranks
    slip = w.rng.choice([-1, 1]) if w.slip() else 0
    z = exchanged(
        w.pair, t.dist, 0, axis, first, size, step=0 if same else None, slip=slip,
        beside=1 if w.slip() and t.dist.shape[1] > 1 else 0, padded=w.rng.choice([0, 0, 1, -1]),
        corner=1 if w.slip() else 0,
    )  # fmt: skip
    if w.slip():  # and something added at the end of the other dim
        z = w.emit(w.dist, "pad", [z, w.dist.constant(0.0, "f32")], low=[0, 0], high=[0, 1], interior=[0, 0])
    w.add(part(w.base, t.base, 0, first, first + (size if same else size * count)), z)


def rank_scalar(pair: Pair, values: Sequence[int], dtype: str = "s32") -> Tensor:
    """An integer of each rank's own."""
    op = pair.dist.add("constant", [], [(dtype, ())])
    op.rank_numbers["value", 0] = dict(enumerate(values))
    return op.result


@dataclass(frozen=True, slots=True)
class Blocks:
    """A table whose first dims are indexed, and in blocks, one to a rank: its layout, first indices by dim and rank,
    block sizes by dim."""

    layout: Layout
    firsts: list[list[int]]
    sizes: list[int]

    @classmethod
    def of(cls, pair: Pair, shape: Sequence[int], axes: Sequence[str | None], rest: Mapping[int, str]) -> Blocks:
        """Indexed dim `k` over `axes[k]`, further dims as `rest` says."""
        split: dict[int, str] = {k: a for k, a in enumerate(axes) if a} | dict(rest)
        layout = pair.layout(shape, split)
        sizes = list(layout.local_shape[: len(axes)])
        at = {name: i for i, (name, _) in enumerate(pair.mesh.axes)}
        firsts = [[c[at[a]] * n if a else 0 for c in pair.mesh.coordinates] for a, n in zip(axes, sizes, strict=True)]
        return cls(layout, firsts, sizes)


def laid(g: Graph, scalars: Sequence[Tensor], shape: Sequence[int], vector: int = -1) -> Tensor:
    """Scalars as a vector along one dim of a shape, by default the last."""
    joined = g.emit("concatenate", [g.emit("reshape", [s], shape=(1,)) for s in scalars], dimension=0)
    return g.emit("broadcast", [joined], shape=shape, dimensions=[vector % len(shape)])


def block_gather(
    pair: Pair, table: Tensor, ids: Tensor, blocks: Blocks, heights: Sequence[int], *, clamp: bool = True,
    slip: int = 0, first: bool = False, mode: str = "clamp", window: int = 0, over: Sequence[int] | None = None,
    wide: bool = False, shift: int = 0,
) -> Tensor:  # fmt: skip
    """The distributed read at the first dims of a table in blocks: what the own block has, else zero; `slip` moves an
    upper bound, `over` are other dims to reduce the mask over. `first`: the ids' vectors are along dim 0; `wide`: two
    elements of the last indexed dim are read; `shift` is added before ids are compared."""
    g, n = pair.dist, len(blocks.sizes)
    vector = 0 if first else len(ids.shape) - 1
    low = laid(g, [rank_scalar(pair, f, ids.dtype) for f in blocks.firsts], ids.shape, vector)
    tops = [[v + z - 1 + slip for v in f] for f, z in zip(blocks.firsts, blocks.sizes, strict=True)]
    high = laid(g, [rank_scalar(pair, f, ids.dtype) for f in tops], ids.shape, vector)
    if clamp:
        last = laid(g, [g.constant(h - 1, ids.dtype) for h in heights], ids.shape, vector)
        ids = g.emit("clamp", [g.splat(0, ids.dtype, ids.shape), ids, last])
    compared = [ids, low, high]
    if shift:
        compared = [g.emit("add", [x, g.splat(shift, ids.dtype, ids.shape)]) for x in compared]
    outside = g.emit(
        "or", [
            g.emit("compare", [compared[0], compared[1]], direction="LT"),
            g.emit("compare", [compared[0], compared[2]], direction="GT"),
        ],
    )  # fmt: skip
    batch = len(ids.shape) - 1
    mask = g.emit("reduce", [outside], dimensions=over or [vector], reducer="or")
    attributes = read_attributes(table.shape, batch, n, vector=vector, mode=mode, window=window, wide=wide)
    read = g.emit("gather", [table, g.emit("subtract", [ids, low])], **attributes)
    laid_out = g.emit("broadcast", [mask], shape=read.shape, dimensions=list(range(len(mask.shape))))
    return g.emit("select", [laid_out, g.splat(0.0, "f32", read.shape), read])


def read_attributes(
    shape: Sequence[int], batch: int, n: int, *, vector: int | None = None, mode: str = "clamp", window: int = 0,
    wide: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Of a gather at the first `n` dims, with windows along the others, `window` elements less than these have, and
    (`wide`) of two elements along the last indexed one."""
    dims = list(range(n))
    return {
        "offset_dims": list(range(batch, batch + len(shape) - n + wide)), "collapsed_slice_dims": dims[: n - wide],
        "start_index_map": dims, "slice_sizes": [1] * (n - wide) + [2] * wide + [m - window for m in shape[n:]],
        "index_vector_dim": batch if vector is None else vector, "mode": mode,
    }  # fmt: skip


@step("block-gather", 0.4)
def block_gather_step(w: World) -> None:
    """A read at several indices of a table that is in blocks along them."""
    heights = [w.rng.choice([4, 8]), w.rng.choice([2, 4, 6])]
    narrow = w.slip()  # ids of eight bits, which wrap round
    if narrow:
        heights[0] = 64
    shape = [*heights, 4] if w.chance(0.5) and not narrow else heights
    names = [name for name, _ in w.pair.mesh.axes]
    w.rng.shuffle(names)
    free: list[str | None] = [*names, None, None]
    axes, rest = free[:2], {2: names[2]} if len(shape) == 3 and len(names) > 2 else {}
    if w.chance(0.3):
        axes = w.rng.choice([[free[0], None], [None, free[0]]])
        rest = {2: names[1]} if len(shape) == 3 and len(names) > 1 and w.chance(0.5) else {}
    sizes = dict(w.pair.mesh.axes)
    if any(a and h % sizes[a] for a, h in zip(axes, heights, strict=True)):
        raise Retry
    blocks = Blocks.of(w.pair, shape, axes, rest)
    table = w.input("f32", shape=shape, layout=blocks.layout)
    kind = "s8" if narrow else w.rng.choice(["u32", "s8", "pending", "placed"]) if w.slip() else "s32"
    vector_first = w.chance(0.3)
    id_shape = [2, 4] if vector_first else [4, 2]
    free_axes = [a for a in names if a not in axes and a not in rest.values()]
    layout = w.pair.layout(id_shape, {})
    if kind == "placed":
        layout = w.layout(id_shape, pending=False)
    elif kind == "pending" and free_axes:
        layout = w.pair.layout(id_shape, {}, pending={free_axes[0]: "sum"})
    dtype = kind if kind in ("u32", "s8") else "s32"
    bounds = w.rng.choice([(0, 6), (0, 6), (0, 9)] + [(-3, 6)] * (dtype[0] == "s"))
    base_ids, dist_ids = w.pair.input(id_shape, dtype=dtype, range=bounds, layout=layout)
    bounds = (0, 64) if narrow else bounds
    mode, window, wide = "wrap" if w.slip() else "clamp", 1 if w.slip() else 0, w.slip()
    read = block_gather(
        w.pair, table.dist, dist_ids, blocks, heights, clamp=w.chance(0.7),
        slip=w.rng.choice([-1, 1]) if w.slip() else 0, first=vector_first, mode=mode, window=window,
        over=[0, 1] if w.slip() and w.chance(0.3) else None, wide=wide, shift=100 if narrow else w.rng.choice([0, 5]),
    )  # fmt: skip
    attributes = read_attributes(shape, 1, 2, vector=0 if vector_first else 1, mode=mode, window=window, wide=wide)
    w.add(w.emit(w.base, "gather", [table.base, base_ids], **attributes), read)


def write_attributes(batch: int, rank: int, n: int) -> dict[str, Any]:
    """Of a scatter at the first `n` dims of a tensor of that rank."""
    dims = list(range(n))
    return {
        "update_window_dims": list(range(batch, batch + rank - n)), "inserted_window_dims": dims,
        "scatter_dims_to_operand_dims": dims, "index_vector_dim": batch,
    }  # fmt: skip


@step("block-scatter", 0.4)
def block_scatter(w: World) -> None:
    """A scatter at several indices into zeros that are in blocks along them."""
    heights = [w.rng.choice([4, 8]), w.rng.choice([2, 4, 6])]
    shape = [*heights, 4] if w.chance(0.5) else heights
    free: list[str | None] = [*(name for name, _ in w.pair.mesh.axes), None, None]
    w.rng.shuffle(free)
    sizes = dict(w.pair.mesh.axes)
    axes = free[:2]
    if any(a and h % sizes[a] for a, h in zip(axes, heights, strict=True)):
        raise Retry
    blocks = Blocks.of(w.pair, shape, axes, {})
    ids = w.input("s32", shape=[4, 2], layout=w.pair.layout([4, 2], {}))
    updates = w.input("f32", shape=[4, *shape[2:]])
    reducer = w.rng.choice(["sum", "sum", "max", "replace"])
    g = w.dist
    low = laid(g, [rank_scalar(w.pair, [v + w.slip() for v in f]) for f in blocks.firsts], ids.dist.shape)
    local = g.emit("subtract", [ids.dist, low])
    into = g.splat(0.0, "f32", blocks.layout.local_shape)
    zeros = w.base.splat(0.0, "f32", shape)
    w.add(
        w.emit(
            w.base, "scatter", [zeros, ids.base, updates.base], reducer=reducer, **write_attributes(1, len(shape), 2)
        ),
        w.emit(g, "scatter", [into, local, updates.dist], reducer=reducer, **write_attributes(1, len(shape), 2)),
    )


@step("block-slice", 0.4)
def block_slice(w: World) -> None:
    """The own block of a whole value, along one or two dims at once."""
    names = [name for name, _ in w.pair.mesh.axes]
    w.rng.shuffle(names)
    shape = [w.rng.choice([4, 8, 12]), w.rng.choice([4, 8])]
    axes = [*names, None][:2]
    sizes = dict(w.pair.mesh.axes)
    if any(a and h % sizes[a] for a, h in zip(axes, shape, strict=True)):
        raise Retry
    t = w.input("f32", shape=shape, layout=w.pair.layout(shape, {}))
    blocks = Blocks.of(w.pair, shape, axes, {})
    starts = [rank_scalar(w.pair, [v + w.slip() for v in first]) for first in blocks.firsts]
    w.add(t.base, w.emit(w.dist, "dynamic-slice", [t.dist, *starts], sizes=blocks.sizes))
