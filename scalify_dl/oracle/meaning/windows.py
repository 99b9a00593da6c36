"""Windowed reductions: reduce-window and its transpose, select-and-scatter."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .base import Array, Call, Unsupported, accumulated, identity, meaning, reducer
from .structural import padded


class Window:
    """The window attributes of an op, with their defaults."""

    def __init__(self, call: Call, rank: int) -> None:
        ones, zeros = [1] * rank, [0] * rank
        self.size = call.numbers("window_size", ones)
        self.stride = call.numbers("window_stride", ones)
        self.low = call.numbers("window_pad_low", zeros)
        self.high = call.numbers("window_pad_high", zeros)
        self.dilation = call.numbers("window_dilation", ones)
        self.spread = [d - 1 for d in call.numbers("base_dilation", ones)]

    def pad(self, x: Array, value: Any) -> Array:
        """x with its base dilation and padding."""
        return padded(x, np.array(value, dtype=x.dtype), self.low, self.high, self.spread)

    def count(self, shape: tuple[int, ...]) -> list[int]:
        """How many windows fit along each dim of a padded shape."""
        reach = [(s - 1) * d + 1 for s, d in zip(self.size, self.dilation, strict=True)]
        return [max((n - r) // st + 1, 0) for n, r, st in zip(shape, reach, self.stride, strict=True)]


@meaning("reduce-window")
def reduce_window(call: Call, xs: list[Array]) -> list[Array]:
    """The reduction of every window."""
    x = accumulated(xs[0], call.results[0].dtype)
    name = call.symbol("reducer")
    window = Window(call, x.ndim)
    start = identity(name, x.dtype, call.results[0].dtype)
    x = window.pad(x, start)
    count = window.count(x.shape)
    result = np.full(count, start, dtype=x.dtype)
    for at in product(*(range(s) for s in window.size)) if 0 not in count else ():
        seen = tuple(
            slice(a * d, a * d + (c - 1) * s + 1, s)
            for a, d, c, s in zip(at, window.dilation, count, window.stride, strict=True)
        )
        result = np.asarray(reducer(name)(result, x[seen]))
    return [result]


@meaning("select-and-scatter")
def select_and_scatter(call: Call, xs: list[Array]) -> list[Array]:
    """Each source element goes to the element that `select` picks in its window; several are combined by `reducer`."""
    x, source = xs[0], xs[1]
    select, name = call.symbol("select", "max"), call.symbol("reducer", "sum")
    better = {"max": np.greater, "GE": np.greater, "GT": np.greater, "min": np.less, "LE": np.less, "LT": np.less}.get(
        select
    )
    if better is None:
        raise Unsupported(f"select-and-scatter of op {call.op.id} selects by `{select}`")
    window = Window(call, x.ndim)
    worst = identity("max" if better is np.greater else "min", x.dtype)
    wide = window.pad(x, worst)
    result = np.full(wide.shape, identity(name, source.dtype, call.results[0].dtype), dtype=source.dtype)
    for at in np.ndindex(*source.shape):
        corner = [a * s for a, s in zip(at, window.stride, strict=True)]
        picked: tuple[int, ...] | None = None
        for offset in product(*(range(s) for s in window.size)):
            place = tuple(c + o for c, o in zip(corner, offset, strict=True))
            inside = all(lo <= p < lo + n for p, lo, n in zip(place, window.low, x.shape, strict=True))
            if inside and (picked is None or better(wide[place], wide[picked])):
                picked = place
        if picked is not None:
            result[picked] = reducer(name)(result[picked], source[at])
    return [result[tuple(slice(lo, lo + n) for lo, n in zip(window.low, x.shape, strict=True))]]
