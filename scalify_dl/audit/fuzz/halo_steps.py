"""Random steps that need the borders of the neighbouring shards: shifts, rolls, pooling, convolutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import Pair
from .padding_steps import NEUTRAL, first, gathered, uneven_shard
from .partitioner_steps import part, rank_scalar
from .world import Retry, Twin, World, step


def from_neighbour(
    pair: Pair, x: Tensor, axis: str, far: int, *, around: bool = False, nothing: bool = False
) -> Tensor:  # fmt: skip
    """What the rank `far` coordinates further along an axis holds; zeros at the ends, unless it goes `around`, or
    everywhere (`nothing`)."""
    at = [name for name, _ in pair.mesh.axes].index(axis)
    count, ranks = pair.mesh.axes[at][1], {c: r for r, c in enumerate(pair.mesh.coordinates)}
    pairs = []
    for c, rank in ranks.items():
        there = c[at] + far
        if not nothing and (around or 0 <= there < count):
            pairs.append((ranks[(*c[:at], there % count, *c[at + 1 :])], rank))
    return pair.dist.emit("collective-permute", [x], pairs=pairs)


def with_borders(
    pair: Pair, x: Tensor, dim: int, axis: str, before: int, after: int, *, around: bool = False,
    swapped: bool = False, mixed: str = "", nothing: bool = False,
) -> Tensor:  # fmt: skip
    """The own shard between the last `before` elements of the one in front and the first `after` of the next one;
    `mixed`: the `outer`most ones (or the `inner` ones) go around where the others do not."""
    n, way = x.shape[dim], -1 if swapped else 1

    def sent(lo: int, hi: int, far: int, outer: int) -> list[Tensor]:
        cuts = [lo, outer, hi] if mixed and lo < outer < hi else [lo, hi]
        return [
            from_neighbour(
                pair, part(pair.dist, x, dim, a, b), axis, far, nothing=nothing,
                around=around != (bool(mixed) and (mixed == "outer") == (a == lo if far == -way else b == hi)),
            ) for a, b in pairwise(cuts)
        ]  # fmt: skip

    parts = [
        *(sent(n - before, n, -way, n - before + 1) if before else []), x,
        *(sent(0, after, way, after - 1) if after else []),
    ]  # fmt: skip
    return pair.dist.emit("concatenate", parts, dimension=dim) if len(parts) > 1 else x


def within(pair: Pair, x: Tensor, dim: int, axis: str, block: int, bounds: tuple[int, int], filler: float) -> Tensor:
    """Elements of a shard with borders whose place, counted in blocks, is out of bounds are replaced by a number."""
    g, shape = pair.dist, x.shape
    index = g.emit("iota", [], shape=shape, dtype="s32", dimension=dim)
    place = index
    if block:
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
    groups: int = 1
    """Of batches, in a convolution."""
    beside: int = 0
    """Padding of the last dim, in a reduction."""
    order: tuple[int, int, int] = (0, 1, 2)
    """Where batch, window and features are among the dims of the operand."""
    out: tuple[int, int, int] | None = None
    """… and of a convolution's result, where not the same."""

    @property
    def dim(self) -> int:
        """The one that windows run along."""
        return self.order[1]

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
        batch, dim, feature = self.order
        if self.kind == "convolution":
            assert w is not None
            batch_out, dim_out, feature_out = self.out or self.order
            return g.emit(
                "convolution", [x, w], window_size=[self.size], window_stride=[self.stride],
                window_dilation=[self.dilation], base_dilation=[1], window_pad_low=[low], window_pad_high=[high],
                input_batch=[batch], input_feature=[feature], input_spatial=[dim], kernel_input_feature=[1],
                kernel_output_feature=[2], kernel_spatial=[0], output_batch=[batch_out], output_feature=[feature_out],
                output_spatial=[dim_out], feature_group_count=[1], batch_group_count=[self.groups],
            )  # fmt: skip

        def along(value: int, other: int, feature_value: int | None = None) -> list[int]:
            last = other if feature_value is None else feature_value
            return [value if d == dim else last if d == feature else other for d in range(3)]

        return g.emit(
            "reduce-window", [x], window_size=along(self.size, 1), window_stride=along(self.stride, 1),
            window_dilation=along(self.dilation, 1), base_dilation=[1, 1, 1], window_pad_low=along(low, 0, self.beside),
            window_pad_high=along(high, 0), reducer=self.kind,
        )  # fmt: skip


def windowed(
    pair: Pair, x: Tensor, y: Tensor, w: tuple[Tensor, Tensor] | None, axis: str, window: Window, *,
    masked: bool = True, bounds: tuple[int, int] = (0, 0), filler: float | None = None, swapped: bool = False,
    around: bool = False, other: Window | None = None, mixed: str = "", nothing: bool = False, offset: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A window op on the baseline's x and on its shards y, blocks of a multiple of its extent; the mask is off by
    `bounds` (and, without `offset`, is the same on all ranks), and the shards have an `other` window."""
    n, block = x.shape[window.dim], y.shape[window.dim]
    base = window.apply(pair.base, x, w and w[0], window.low, window.high)
    z = with_borders(
        pair, y, window.dim, axis, window.low, max(0, window.high), around=around, swapped=swapped, mixed=mixed,
        nothing=nothing,
    )  # fmt: skip
    if masked:
        neutral = NEUTRAL.get(window.kind, 0.0) if filler is None else filler
        limits = (window.low + bounds[0], window.low + n + bounds[1])
        z = within(pair, z, window.dim, axis, block * offset, limits, neutral)
    return base, (other or window).apply(pair.dist, z, w and w[1], 0, 0)


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


FAULTS = ("swapped", "around", "outer", "inner", "nothing", "bounds", "offset")
"""What may be wrong about borders."""
SHIFT_FAULTS = (*FAULTS, "far", "wide", "base", "corner", "along")
WINDOW_FAULTS = (*FAULTS, "filler", "groups", "beside", "other op", "other op", "other op")


@step("borders", 0.6)
def borders(w: World) -> None:
    """A shift, a roll or a window op over a sharded dim; now and then something about it is wrong."""
    axis, ways = w.rng.choice(w.pair.mesh.axes)
    block = w.rng.choice([2, 3, 4])
    others = [name for name, z in w.pair.mesh.axes if name != axis and z == 2]
    if ways == 1:
        raise Retry
    order = w.rng.choice([(0, 1, 2), (0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)])
    batch, dim, feature = order
    shape = [{batch: w.rng.choice([2, 4]), dim: ways * block, feature: 2}[d] for d in range(3)]
    split = {dim: axis} | ({batch: w.rng.choice(others)} if others and w.chance(0.5) else {})
    t = w.input("f32", shape=shape, layout=w.pair.layout(shape, split))
    kind = w.rng.choice(["shift", "roll", "window", "window"])
    faults = WINDOW_FAULTS if kind == "window" else SHIFT_FAULTS
    for _ in range(w.rng.choice([1, 1, 2])):  # now and then two of a value
        fault = w.rng.choice(faults) if w.chance(3 * w.wrong) else ""
        if kind == "window":
            window_over(w, t, axis, block, order, fault)
        else:
            moved_over(w, t, axis, block, order, kind, fault)


def moved_over(
    w: World, t: Twin, axis: str, block: int, order: tuple[int, int, int], kind: str, fault: str
) -> None:  # fmt: skip
    """A shift or a roll."""
    batch, dim, feature = order
    shape = t.base.shape
    off = w.rng.choice([-2, -1, 1, 2])
    far, wide = max(0, off) + (fault == "far"), fault in ("wide", "far")  # more than what is needed, and then cut
    z = with_borders(
        w.pair, t.dist, dim, axis, max(0, -off), max(0, off) + wide, around=(fault == "around") != (kind == "roll"),
        swapped=fault == "swapped", mixed=fault if fault in ("outer", "inner") else "", nothing=fault == "nothing",
    )  # fmt: skip
    z = part(w.dist, z, dim, far, far + block)
    if z.shape != t.dist.shape:
        raise Retry
    if kind == "roll":
        w.add(rolled(w.pair, t.base, dim, off), z)
        return
    filler = w.rng.choice([0.0, 0.0, float("inf")])
    if w.chance(0.6):
        along, start = (batch if fault == "along" else dim), (0 if fault == "offset" else block)
        z = within(w.pair, z, along, axis, start, (-off + (fault == "bounds"), shape[dim] - off), filler)
    base = moved(w.pair, t.base, dim, off * (w.rng.choice([5, shape[dim]]) if fault == "base" else 1), filler)
    if fault == "corner":  # and an element of another dim
        edge = [int(d == w.rng.choice([batch, feature])) for d in range(3)]
        number, none = w.base.constant(filler, "f32"), [0, 0, 0]
        base = w.emit(w.base, "pad", [base, number], low=none, interior=none, high=edge)
    w.add(base, z)


def window_over(w: World, t: Twin, axis: str, block: int, order: tuple[int, int, int], fault: str) -> None:
    """A convolution or pooling."""
    reducer = w.rng.choice(["convolution", "convolution", "sum", "max", "min"])
    size, stride, dilation, low = (w.rng.choice(some) for some in ((2, 3), (1, 1, block), (1, 2), (0, 1, 2)))
    out = w.rng.choice([None, None, (0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)])
    if w.chance(0.4):  # windows that tile
        size, stride, dilation, low = block, block, 1, 0
    window = Window(
        size, stride, dilation, low, reducer, 2 if fault == "groups" else 1, 1 if fault == "beside" else 0, order, out
    )  # fmt: skip
    if max(window.low, window.high) > block or window.reach < window.stride or window.reach <= window.low:
        raise Retry
    kernel = w.input("f32", shape=[window.size, 2, 2], layout=w.pair.layout([window.size, 2, 2], {}))
    bounds = (w.rng.choice([-1, 0, 1]), w.rng.choice([-1, 1])) if fault == "bounds" else (0, 0)
    other = None
    if fault == "other op":
        other = w.rng.choice([
            replace(window, beside=1), replace(window, kind="max" if reducer == "sum" else "sum"),
            replace(window, kind="min" if reducer == "max" else "max"),
        ])  # fmt: skip
    w.add(*windowed(
        w.pair, t.base, t.dist, (kernel.base, kernel.dist), axis, window, masked=w.chance(0.7), bounds=bounds,
        filler=w.rng.choice([0.0, float("-inf")]) if fault == "filler" else None, swapped=fault == "swapped",
        around=fault == "around", other=other, mixed=fault if fault in ("outer", "inner") else "",
        nothing=fault == "nothing", offset=fault != "offset",
    ))  # fmt: skip
