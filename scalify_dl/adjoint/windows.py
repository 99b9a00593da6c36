"""Windows: each element's gradient is the sum of those of the windows that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, through, vjp
from .running import START
from .structural import _one

MOST = 256
"""Larger windows are not written out."""


def _numbers(op: Op, key: str, rank: int, default: int) -> list[int]:
    return list(op.numbers.get(key) or [default] * rank)


@vjp("reduce-window")
def reduce_window(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """A sum of windows over the gradient, spread by the stride; of maxima, to the element that was taken; others as
    reductions of the windows, written side by side."""
    g, (x, *more) = _one(gradients), op.operands
    reducer = op.symbols.get("reducer", [""])[0]
    rank = len(x.shape)
    if more or reducer not in ("sum", *START):
        raise NoAdjoint(f"no backward is known of windows that are combined by {reducer} (`{op.name}`)")
    size, stride = _numbers(op, "window_size", rank, 1), _numbers(op, "window_stride", rank, 1)
    low, dilation = _numbers(op, "window_pad_low", rank, 0), _numbers(op, "window_dilation", rank, 1)
    high, spread = _numbers(op, "window_pad_high", rank, 0), _numbers(op, "base_dilation", rank, 1)
    if reducer == "sum" and set(spread) <= {1}:
        return [_spread(p, g, x, size, stride, low, dilation)]
    if reducer in ("max", "min") and set(spread) | set(dilation) <= {1}:
        made = p.op("select-and-scatter", x, g, window_size=size, window_stride=stride, window_pad_low=low,
                    window_pad_high=high, reducer="sum", select="GE" if reducer == "max" else "LE")  # fmt: skip
        return [made.result]
    return through(p, op, g, lambda x: p.reduce(_windows(p, op, x, START.get(reducer, 0.0)), 0, reducer))


def _windows(p: Program, op: Op, x: Tensor, fill: float) -> Tensor:
    """The elements of every window along a new first dim, in the order of their places; padding is `fill`."""
    rank = len(x.shape)
    size, stride = _numbers(op, "window_size", rank, 1), _numbers(op, "window_stride", rank, 1)
    dilation, spread = _numbers(op, "window_dilation", rank, 1), _numbers(op, "base_dilation", rank, 1)
    if prod(size) > MOST:
        raise NoAdjoint(f"windows of {prod(size)} elements are not written out (`{op.name}`)")
    low, high = _numbers(op, "window_pad_low", rank, 0), _numbers(op, "window_pad_high", rank, 0)
    wide = p.op("pad", x, p.constant(fill, x.dtype), low=low, high=high, interior=[n - 1 for n in spread]).result
    count = [max((n - (k - 1) * d - 1) // s + 1, 0)
             for n, k, d, s in zip(wide.shape, size, dilation, stride, strict=True)]  # fmt: skip
    if 0 in count:
        return p.full(fill, (1, *count), x.dtype)
    parts = []
    for place in product(*(range(k) for k in size)):
        start = [a * d for a, d in zip(place, dilation, strict=True)]
        limit = [a + (c - 1) * s + 1 for a, c, s in zip(start, count, stride, strict=True)]
        parts.append(p.reshape(p.op("slice", wide, start=start, limit=limit, stride=stride).result, (1, *count)))
    return p.concatenate(parts, 0)


@vjp("select-and-scatter")
def select_and_scatter(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Each source element has the gradient of the place that its window chose; what only chooses has none."""
    g, (x, source) = _one(gradients), op.operands
    better = {"max": "GT", "GE": "GT", "GT": "GT", "min": "LT", "LE": "LT", "LT": "LT"}.get(
        op.symbols.get("select", ["max"])[0])  # fmt: skip
    if better is None or op.symbols.get("reducer", ["sum"])[0] != "sum":
        raise NoAdjoint(f"no backward is known of `{op.name}`, which is no sum at the largest or smallest")
    worst = float("-inf") if better == "GT" else float("inf")
    seen, back = _windows(p, op, x, worst), _windows(p, op, g, 0.0)
    if seen.shape[1:] != source.shape:
        raise NoAdjoint(f"`{op.name}` has other windows than elements to put there")
    choices = zip(p.split(seen, 0, [1] * seen.shape[0]), p.split(back, 0, [1] * seen.shape[0]), strict=True)
    best, found = next(choices)
    for value, gradient in choices:  # the first of equal ones
        wins = p.compare(value, best, direction=better)
        best, found = p.select(wins, value, best), p.select(wins, gradient, found)
    return [None, p.reshape(found, source.shape)]


def _spread(
    p: Program, g: Tensor, x: Tensor, size: Sequence[int], stride: Sequence[int], low: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    """Element i has the sum of g[o] over windows o and their places k with o stride + k dilation - low = i."""
    span = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
    before = [s - lo for s, lo in zip(span, low, strict=True)]
    wide = [max((n - 1) * s + 1, 0) for n, s in zip(g.shape, stride, strict=True)]
    after = [n + s - b - w for n, s, b, w in zip(x.shape, span, before, wide, strict=True)]
    zero = p.constant(0, g.dtype)
    padded = p.op("pad", g, zero, low=before, high=after, interior=[s - 1 for s in stride]).result
    return p.op("reduce-window", padded, window_size=list(size), window_dilation=list(dilation), reducer="sum").result
