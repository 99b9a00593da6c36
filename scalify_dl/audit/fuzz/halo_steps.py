"""Random steps that need the borders of the neighbouring shards: shifts, rolls, pooling, convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from scalify_dl.frontends.graph import Graph, Tensor

from ..pair import Pair
from .padding_steps import NEUTRAL, first, gathered, uneven_shard
from .partitioner_steps import part, rank_scalar
from .world import Retry, World, step


def from_neighbour(pair: Pair, x: Tensor, axis: str, far: int, *, around: bool = False) -> Tensor:
    """What the rank `far` coordinates further along an axis holds; zeros at the ends, unless it goes `around`."""
    at = [name for name, _ in pair.mesh.axes].index(axis)
    count, ranks = pair.mesh.axes[at][1], {c: r for r, c in enumerate(pair.mesh.coordinates)}
    pairs = []
    for c, rank in ranks.items():
        there = c[at] + far
        if around or 0 <= there < count:
            pairs.append((ranks[(*c[:at], there % count, *c[at + 1 :])], rank))
    return pair.dist.emit("collective-permute", [x], pairs=pairs)


def with_borders(
    pair: Pair, x: Tensor, dim: int, axis: str, before: int, after: int, *, around: bool = False, swapped: bool = False
) -> Tensor:
    """The own shard between the last `before` elements of the one in front and the first `after` of the next one."""
    n, way = x.shape[dim], -1 if swapped else 1
    parts = [x]
    if before:
        parts.insert(0, from_neighbour(pair, part(pair.dist, x, dim, n - before, n), axis, -way, around=around))
    if after:
        parts.append(from_neighbour(pair, part(pair.dist, x, dim, 0, after), axis, way, around=around))
    return pair.dist.emit("concatenate", parts, dimension=dim) if len(parts) > 1 else x


def within(pair: Pair, x: Tensor, dim: int, axis: str, block: int, bounds: tuple[int, int], filler: float) -> Tensor:
    """Elements of a shard with borders whose place, counted in blocks, is out of bounds are replaced by a number."""
    g, shape = pair.dist, x.shape
    index = g.emit("iota", [], shape=shape, dtype="s32", dimension=dim)
    offset = g.emit("broadcast", [rank_scalar(pair, first(pair, axis, block))], shape=shape, dimensions=[])
    place = g.emit("add", [index, offset])
    low, high = (
        g.emit("compare", [place, g.splat(bound, "s32", shape)], direction=direction)
        for bound, direction in zip(bounds, ("GE", "LT"), strict=True)
    )
    return g.emit("select", [g.emit("and", [low, high]), x, g.splat(filler, x.dtype, shape)])


def moved(pair: Pair, x: Tensor, dim: int, off: int, filler: float = 0.0) -> Tensor:
    """Baseline: element i is element i + off, or the filler where that is outside."""
    rank, n = len(x.shape), x.shape[dim]
    low, high = ([v if d == dim else 0 for d in range(rank)] for v in (max(0, -off), max(0, off)))
    padded = pair.base.emit(
        "pad", [x, pair.base.constant(filler, x.dtype)], low=low, high=high, interior=[0] * rank
    )  # fmt: skip
    return part(pair.base, padded, dim, max(0, off), max(0, off) + n)


def rolled(pair: Pair, x: Tensor, dim: int, off: int) -> Tensor:
    """Baseline: element i is element i + off, counted around."""
    n = x.shape[dim]
    halves = [part(pair.base, x, dim, off % n, n), part(pair.base, x, dim, 0, off % n)]
    return pair.base.emit("concatenate", halves, dimension=dim)


@dataclass(frozen=True, slots=True)
class Window:
    """Along the second of three dims."""

    size: int = 3
    stride: int = 1
    dilation: int = 1
    low: int = 1
    kind: str = "sum"
    """A reducer, or `convolution`."""

    @property
    def reach(self) -> int:
        """From the first to behind the last element of a window."""
        return (self.size - 1) * self.dilation + 1

    @property
    def high(self) -> int:
        """The padding behind the end that makes as many windows as there are strides."""
        return self.reach - self.stride - self.low

    def apply(self, g: Graph, x: Tensor, w: Tensor | None, low: int, high: int) -> Tensor:
        """The op, padded so."""
        if self.kind == "convolution":
            assert w is not None
            return g.emit(
                "convolution", [x, w], window_size=[self.size], window_stride=[self.stride],
                window_dilation=[self.dilation], base_dilation=[1], window_pad_low=[low], window_pad_high=[high],
                input_batch=[0], input_feature=[2], input_spatial=[1], kernel_input_feature=[1],
                kernel_output_feature=[2], kernel_spatial=[0], output_batch=[0], output_feature=[2],
                output_spatial=[1], feature_group_count=[1], batch_group_count=[1],
            )  # fmt: skip
        return g.emit(
            "reduce-window", [x], window_size=[1, self.size, 1], window_stride=[1, self.stride, 1],
            window_dilation=[1, self.dilation, 1], base_dilation=[1, 1, 1], window_pad_low=[0, low, 0],
            window_pad_high=[0, high, 0], reducer=self.kind,
        )  # fmt: skip


def windowed(
    pair: Pair, x: Tensor, y: Tensor, w: tuple[Tensor, Tensor] | None, axis: str, window: Window, *,
    masked: bool = True, bounds: tuple[int, int] = (0, 0), filler: float | None = None, swapped: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A window op on the baseline's x and on its shards y, blocks of a multiple of its extent; the mask is off by
    `bounds`."""
    n, block = x.shape[1], y.shape[1]
    base = window.apply(pair.base, x, w and w[0], window.low, window.high)
    z = with_borders(pair, y, 1, axis, window.low, max(0, window.high), swapped=swapped)
    if masked:
        neutral = NEUTRAL.get(window.kind, 0.0) if filler is None else filler
        z = within(pair, z, 1, axis, block, (window.low + bounds[0], window.low + n + bounds[1]), neutral)
    return base, window.apply(pair.dist, z, w and w[1], 0, 0)


@step("uneven-windows", 0.3)
def uneven_windows(w: World) -> None:
    """A convolution or pooling over a dim that the axis does not divide."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    n, low = w.rng.choice([7, 10, 11]), w.rng.choice([0, 1, 2])
    if n % ways == 0:
        raise Retry
    t = w.input("f32", shape=[2, n, 2], layout=w.pair.layout([2, n, 2], {}))
    kernel = w.input("f32", shape=[3, 2, 2], layout=w.pair.layout([3, 2, 2], {}))
    window = Window(3, low=low, kind=w.rng.choice(["convolution", "sum", "max"]))
    y = uneven_shard(w.pair, t.dist, 1, axis, filler=w.rng.choice([0.0, 1.0]))
    if max(window.low, window.high) > y.shape[1]:
        raise Retry
    slip = (w.rng.choice([-1, 0, 1]), w.rng.choice([-1, 0, 1])) if w.slip() else (0, 0)
    base, z = windowed(
        w.pair, t.base, y, (kernel.base, kernel.dist), axis, window, masked=w.chance(0.8), bounds=slip, swapped=w.slip()
    )
    w.add(base, gathered(w.pair, z, 1, axis, n, low=w.slip()))


@step("borders", 0.6)
def borders(w: World) -> None:
    """A shift, a roll or a window op over a sharded dim."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    block = w.rng.choice([3, 4])
    others = [name for name, z in w.pair.mesh.axes if name != axis and z == 2]
    if ways == 1:
        raise Retry
    shape = [4, ways * block, 2]
    split = {1: axis} | ({0: w.rng.choice(others)} if others and w.chance(0.5) else {})
    t = w.input("f32", shape=shape, layout=w.pair.layout(shape, split))
    kind, swapped = w.rng.choice(["shift", "roll", "window", "window"]), w.slip()
    if kind == "window":
        reducer = w.rng.choice(["convolution", "convolution", "sum", "max", "min"])
        size, stride, dilation, low = (w.rng.choice(some) for some in ((2, 3), (1, 1, block), (1, 2), (0, 1, 2)))
        if w.chance(0.4):  # windows that tile
            size, stride, dilation, low = block, block, 1, 0
        window = Window(size, stride, dilation, low, reducer)
        if max(window.low, window.high) > block or window.reach < window.stride or window.reach <= window.low:
            raise Retry
        kernel = w.input("f32", shape=[window.size, 2, 2], layout=w.pair.layout([window.size, 2, 2], {}))
        filler = w.rng.choice([0.0, float("-inf")]) if w.slip() else None
        slip = (w.rng.choice([-1, 0, 1]), w.rng.choice([-1, 0, 1])) if w.slip() else (0, 0)
        w.add(*windowed(
            w.pair, t.base, t.dist, (kernel.base, kernel.dist), axis, window, masked=w.chance(0.8), bounds=slip,
            filler=filler, swapped=swapped,
        ))  # fmt: skip
        return
    off = w.rng.choice([-2, -1, 1, 2])
    far = off + w.slip()
    z = with_borders(
        w.pair, t.dist, 1, axis, max(0, -off), max(0, off), around=kind == "roll", swapped=swapped
    )  # fmt: skip
    z = part(w.dist, z, 1, max(0, far), max(0, far) + block) if max(0, far) + block <= z.shape[1] else z
    if z.shape != t.dist.shape:
        raise Retry
    if kind == "roll":
        w.add(rolled(w.pair, t.base, 1, off), z)
        return
    filler = w.rng.choice([0.0, 0.0, float("inf")])
    if w.chance(0.6):
        z = within(w.pair, z, 1, axis, block, (-off + w.slip(), shape[1] - off), filler)
    w.add(moved(w.pair, t.base, 1, off, filler), z)
