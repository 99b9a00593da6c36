"""Random steps as a compiler's partitioner writes them: shards cut, passed on and glued again."""

from __future__ import annotations

from math import prod

from scalify_dl.frontends.graph import Graph, Tensor

from ..pair import Pair
from .world import Retry, World, step


def exchanged(pair: Pair, x: Tensor, dim: int, axis: str, first: int, size: int, *, slip: int = 0) -> Tensor:
    """Of the value whose blocks along `dim` are the shards `x` over `axis`: elements `first + size * c …` on the rank
    at coordinate `c`. Neighbours' shards are passed on, glued, and the window is cut out, `slip` elements too far."""
    g, n = pair.dist, x.shape[dim]
    at = [name for name, _ in pair.mesh.axes].index(axis)
    ranks = list(enumerate(pair.mesh.coordinates))
    count = pair.mesh.axes[at][1]
    starts = [first + size * c for c in range(count)]
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
    zero, offset = g.constant(0, "s32"), g.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = {r: starts[c[at]] - (c[at] + low) * n + slip for r, c in ranks}
    offsets = [offset.result if d == dim else zero for d in range(len(x.shape))]
    sizes = [size if d == dim else m for d, m in enumerate(x.shape)]
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
    t = w.input("f32", shape=shape, layout=w.pair.layout(shape, split))
    size = w.rng.randint(1, max(1, (shape[0] - 1) // count))
    first = w.rng.randint(0, shape[0] - size * count)
    w.add(
        part(w.base, t.base, 0, first, first + size * count),
        exchanged(w.pair, t.dist, 0, axis, first, size, slip=w.rng.choice([-1, 1]) if w.slip() else 0),
    )
