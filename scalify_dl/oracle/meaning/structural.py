"""Ops that move elements: constants are in `control`, everything here copies operand elements to other places."""

from __future__ import annotations

from math import prod

import numpy as np

from .base import Array, Call, accumulated, meaning, reduce_over, reducer

COPIED = 1 << 15
"""Elements up to which a broadcast is written out: that is faster than to make a view."""


@meaning("broadcast")
def broadcast(call: Call, xs: list[Array]) -> list[Array]:
    """Operand dim i becomes result dim `dimensions[i]`."""
    return [broadcasted(xs[0], call.results[0].shape, call.numbers("dimensions", []))]


def broadcasted(x: Array, shape: tuple[int, ...], dims: list[int]) -> Array:
    """Dim i of x as dim `dims[i]` of a shape."""
    placed = [1] * len(shape)
    for size, dim in zip(x.shape, dims, strict=True):
        placed[dim] = size
    if dims != sorted(dims):
        x = np.transpose(x, np.argsort(dims))
    x = x.reshape(placed)
    if prod(shape) > COPIED:
        return np.broadcast_to(x, shape)
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


@meaning("reshape")
def reshape(call: Call, xs: list[Array]) -> list[Array]:
    """Row-major."""
    return [np.ascontiguousarray(xs[0]).reshape(call.results[0].shape)]


@meaning("transpose")
def transpose(call: Call, xs: list[Array]) -> list[Array]:
    """Result dim j is operand dim `dimensions[j]`."""
    return [np.transpose(xs[0], call.numbers("dimensions", []))]


@meaning("slice")
def slice_(call: Call, xs: list[Array]) -> list[Array]:
    """`x[start:limit:stride]` per dim."""
    start, limit = call.numbers("start", []), call.numbers("limit", [])
    stride = call.numbers("stride", [1] * len(start))
    return [xs[0][tuple(slice(*bounds) for bounds in zip(start, limit, stride, strict=True))]]


def padded(x: Array, value: Array, low: list[int], high: list[int], interior: list[int]) -> Array:
    """XLA's pad: `interior` elements between neighbours, then `low` and `high` at the ends (negative ones crop)."""
    spread = [max(n + (n - 1) * i, 0) if n else 0 for n, i in zip(x.shape, interior, strict=True)]
    result = np.full(
        [s + max(a, 0) + max(b, 0) for s, a, b in zip(spread, low, high, strict=True)], value, dtype=x.dtype
    )
    where = tuple(slice(max(a, 0), max(a, 0) + s, i + 1) for a, s, i in zip(low, spread, interior, strict=True))
    result[where] = x
    crop = tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, result.shape, strict=True))
    return result[crop]


@meaning("pad")
def pad(call: Call, xs: list[Array]) -> list[Array]:
    """Padding with a scalar."""
    low, high = call.numbers("low", []), call.numbers("high", [])
    return [padded(xs[0], xs[1], low, high, call.numbers("interior", [0] * len(low)))]


@meaning("concatenate")
def concatenate(call: Call, xs: list[Array]) -> list[Array]:
    """Operands one after the other along `dimension`."""
    return [np.concatenate(xs, axis=call.number("dimension"))]


@meaning("reverse")
def reverse(call: Call, xs: list[Array]) -> list[Array]:
    """The order along `dimensions` turned around."""
    return [np.flip(xs[0], tuple(call.numbers("dimensions", [])))]


@meaning("dynamic-slice")
def dynamic_slice(call: Call, xs: list[Array]) -> list[Array]:
    """A window of `sizes`, its start clamped so that it fits."""
    x, *starts = xs
    sizes = call.numbers("sizes", [])
    lows = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, x.shape, sizes, strict=True)]
    return [x[tuple(slice(lo, lo + size) for lo, size in zip(lows, sizes, strict=True))]]


@meaning("dynamic-update-slice")
def dynamic_update_slice(call: Call, xs: list[Array]) -> list[Array]:
    """x with a window replaced, its start clamped so that it fits."""
    x, update, *starts = xs
    result = np.array(x)
    lows = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, x.shape, update.shape, strict=True)]
    result[tuple(slice(lo, lo + size) for lo, size in zip(lows, update.shape, strict=True))] = update
    return [result]


@meaning("reduce")
def reduce(call: Call, xs: list[Array]) -> list[Array]:
    """Reduction over `dimensions`; index reductions give the lowest index of the extreme value."""
    dims = tuple(call.numbers("dimensions", []))
    name = call.symbol("reducer")
    if name in ("argmax", "argmin"):
        (axis,) = dims
        found = (np.argmax if name == "argmax" else np.argmin)(xs[0], axis=axis)
        return [np.asarray(found)]
    return [reduce_over(name, accumulated(x, t.dtype), dims, t.dtype) for x, t in zip(xs, call.results, strict=True)]


@meaning("cumulative")
def cumulative(call: Call, xs: list[Array]) -> list[Array]:
    """Inclusive scan along `dimension`, from the end where `reverse` is 1."""
    axis, name = call.number("dimension"), call.symbol("reducer")
    x = accumulated(xs[0], call.results[0].dtype)
    x = np.flip(x, axis) if call.number("reverse", 0) else x
    function = np.logaddexp if name == "logsumexp" else reducer(name)
    scanned = function.accumulate(x, axis=axis, dtype=x.dtype)
    return [np.flip(scanned, axis) if call.number("reverse", 0) else scanned]
