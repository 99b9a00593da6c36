"""Wrong programs by hand about borders and windows."""

from __future__ import annotations

from functools import partial
from typing import Any

from scalify_dl.audit.fuzz.halo_steps import Window, moved, rolled, windowed, with_borders
from scalify_dl.audit.fuzz.padding_steps import first
from scalify_dl.audit.fuzz.partitioner_steps import part, rank_scalar
from scalify_dl.audit.pair import Pair

from .registry import TRIALS, trial


def masked_window(*, index: bool) -> Pair:
    """Windows that reach into the neighbours' shards, whose mask forgets the rank, or all but the rank."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8, 2), {1: "tp"})
    window = Window(3, low=1)
    if index:
        pair.outputs(*windowed(pair, x, dx, None, "tp", window, offset=False))
        return pair
    g = pair.dist
    z = with_borders(pair, dx, 1, "tp", 1, 1)
    place = g.emit("iota", [], shape=z.shape, dtype="s32", dimension=1)
    offset = g.emit("broadcast", [rank_scalar(pair, first(pair, "tp", 4))], shape=z.shape, dimensions=[])
    shifted = g.emit("add", [place, offset])
    ends = [
        g.emit("compare", [shifted, g.emit("add", [place, g.splat(n, "s32", z.shape)])], direction=way)
        for n, way in ((1, "GE"), (9, "LT"))
    ]
    kept = g.emit("select", [g.emit("and", ends), z, g.splat(0.0, "f32", z.shape)])
    pair.outputs(window.apply(pair.base, x, None, 1, 1), window.apply(g, kept, None, 0, 0))
    return pair


TRIALS["a mask of windows that forgets the rank"] = partial(masked_window, index=True)
TRIALS["a mask of windows that forgets the place"] = partial(masked_window, index=False)


@trial
def each_of_two_rolls_as_the_other() -> Pair:
    """A value rolled by one and by two."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    results = []
    for off in (1, 2):
        z = with_borders(pair, dx, 0, "tp", 0, off, around=True)
        results.append((rolled(pair, x, 0, off), part(pair.dist, z, 0, off, off + 4)))
    pair.outputs(results[0][0], results[1][1])
    pair.outputs(results[1][0], results[0][1])
    return pair


@trial
def something_between_a_value_and_the_zeros_behind_it() -> Pair:
    """A shift by two that brings the first element, and then zeros."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    z = with_borders(pair, dx, 0, "tp", 0, 2, mixed="inner")
    pair.outputs(moved(pair, x, 0, 2), part(pair.dist, z, 0, 2, 6))
    return pair


IN_ORDER, ORDERS = (0, 1, 2), [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1)]
"""Where batch, window and features are."""


def one_convolution(order: tuple[int, int, int], out: tuple[int, int, int]) -> Pair:
    """Convolutions over the shards of a dim, dims in any order; one has nothing of the neighbour."""
    pair = Pair({"tp": 2})
    batch, dim, feature = order
    shape = [{batch: 3, dim: 4, feature: 2}[d] for d in range(3)]
    (x, dx), (w, dw) = pair.input(shape, {dim: "tp"}), pair.input((2, 2, 2))
    window = Window(2, low=1, kind="convolution", order=order, out=out)
    for nothing in (True, False):
        pair.outputs(*windowed(pair, x, dx, (w, dw), "tp", window, masked=False, nothing=nothing))
    return pair


for other in ORDERS:
    TRIALS[f"a convolution from {IN_ORDER} to {other}"] = partial(one_convolution, IN_ORDER, other)
    TRIALS[f"a convolution from {other} to {IN_ORDER}"] = partial(one_convolution, other, IN_ORDER)


PLAIN = {"window_size": [1, 3], "window_pad_low": [0, 1], "window_pad_high": [0, 1]}
OTHERS = {
    "wider steps inside": ((2, 4), PLAIN, {**PLAIN, "window_size": [1, 2], "window_dilation": [1, 2]}),
    "other padding": ((2, 4), PLAIN, {**PLAIN, "window_pad_low": [0, 2], "window_pad_high": [0, 0]}),
    "padding in front": (
        (2, 5), {"window_size": [1, 2], "window_stride": [1, 2], "window_pad_high": [0, 1]},
        {"window_size": [1, 2], "window_stride": [1, 2], "window_pad_low": [0, 1], "window_pad_high": [0, 1]},
    ),
}  # fmt: skip
"""Shape, and attributes of both sides whose results have the same shape."""


def other_windows(shape: tuple[int, int], one: dict[str, Any], other: dict[str, Any]) -> Pair:
    """The two sides' windows differ; some attributes are left at what they are anyway."""
    pair = Pair({"tp": 2})
    x, dx = pair.input(shape)
    pair.outputs(*(
        g.emit("reduce-window", [v], **numbers, reducer="sum")
        for g, v, numbers in ((pair.base, x, one), (pair.dist, dx, other))
    ))  # fmt: skip
    return pair


for what, (shape, one, two) in OTHERS.items():
    TRIALS[f"windows with {what}"] = partial(other_windows, shape, one, two)


def products_in(base_type: str, dist_type: str) -> Pair:
    """A convolution of small integers over a sharded dim, which one side adds up in a type of fewer bits."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((2, 8, 3), {1: "tp"}, dtype="s8"), pair.input((3, 3, 3), dtype="s8")
    window = Window(kind="convolution")
    y = window.apply(pair.base, x, w, 1, 1)
    z = window.apply(pair.dist, with_borders(pair, dx, 1, "tp", 1, 1), dw, 0, 0)
    y.dtype, z.dtype = base_type, dist_type
    pair.outputs(*(g.emit("convert", [v], dtype="s64") for g, v in ((pair.base, y), (pair.dist, z))))
    return pair


TRIALS["windows that wrap round on the ranks"] = partial(products_in, "s32", "s8")
TRIALS["windows that wrap round in the baseline"] = partial(products_in, "s8", "s32")


def pooled_back(low: int, times: float) -> Pair:
    """The gradient of pooling by pairs of which the first begins so many elements before the row, on blocks of the row,
    at a multiple."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8, 2), {1: "tp"})
    y, dy = pair.input((4, 4, 2), {1: "tp"})
    base, dist = (
        graph.emit("select-and-scatter", [value, gradient], window_size=[1, 2, 1], window_stride=[1, 2, 1],
                   window_pad_low=[0, low, 0], reducer="sum", select="max")
        for graph, value, gradient in ((pair.base, x, y), (pair.dist, dx, dy))
    )  # fmt: skip
    pair.outputs(base, pair.dist.emit("multiply", [dist, pair.dist.splat(times, "f32", dist.shape)]))
    return pair


TRIALS["gradients of windows that begin before the block"] = partial(pooled_back, 1, 1.0)
TRIALS["gradients of windows that adjoin, twice"] = partial(pooled_back, 0, 2.0)
