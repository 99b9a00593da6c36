"""Convolutions, output element by output element: the products of all places of a window that are in what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from .forms import Unknown
from .programs import Op

Array = np.ndarray[Any, Any]
PLAIN = {"window_stride": 1, "window_dilation": 1, "window_pad_low": 0, "window_pad_high": 0, "base_dilation": 1,
         "window_reversal": 0}  # fmt: skip
"""What an op does with its windows, and the numbers of one that does nothing."""


def convolved(op: Op, rank: int, x: Array, w: Array, products: Callable[[list[tuple[Any, Any]]], Any]) -> Array:
    """What a rank's convolution gives; `products` adds up the products of pairs. XLA's windows: padding, strides, both
    dilations, kernels turned round, groups of features."""
    if op.number("batch_group_count", rank, 1) != 1:
        raise Unknown("a convolution of groups of batches")
    dims = [op.numbers(key, rank, []) for key in ("input_spatial", "kernel_spatial", "output_spatial")]
    each = [op.numbers(key, rank, [plain] * len(dims[0])) for key, plain in PLAIN.items()]
    x = x.transpose([op.number("input_batch", rank), op.number("input_feature", rank), *dims[0]])
    w = w.transpose([op.number("kernel_output_feature", rank), op.number("kernel_input_feature", rank), *dims[1]])
    windows = list(zip(x.shape[2:], w.shape[2:], *each, strict=True))
    size = [_places(*window) for window in windows]
    groups = op.number("feature_group_count", rank, 1)
    read, made = x.shape[1] // groups, w.shape[0] // groups
    if w.shape[1] != read or w.shape[0] % groups:
        raise Unknown("a convolution of other features")
    out = np.empty((x.shape[0], w.shape[0], *size), dtype=object)
    for n, feature, *at in product(*map(range, out.shape)):
        pairs = [
            (x[(n, feature // made * read + c, *places)], w[(feature, c, *taps)])
            for c in range(read)
            for taps, places in _window(at, windows)
        ]
        out[(n, feature, *at)] = products(pairs)
    turned = [op.number("output_batch", rank), op.number("output_feature", rank), *dims[2]]
    return out.transpose(np.argsort(turned))


def _places(n: int, k: int, stride: int, dilation: int, low: int, high: int, spread: int, _: int) -> int:
    """How many windows there are along a dim."""
    wide = (n - 1) * spread + 1 + low + high if n else low + high
    return max((wide - (k - 1) * dilation - 1) // stride + 1, 0)


def _window(at: list[int], windows: list[tuple[int, ...]]) -> Iterator[tuple[list[int], list[int]]]:
    """Places in the kernel, and what they meet; those that meet padding are left out."""
    for taps in product(*(range(k) for _, k, *_ in windows)):
        places = []
        for o, tap, (n, k, stride, dilation, low, _, spread, turned) in zip(at, taps, windows, strict=True):
            place, rest = divmod(o * stride + (k - 1 - tap if turned else tap) * dilation - low, spread)
            if rest or not 0 <= place < n:
                break
            places.append(place)
        else:
            yield [*taps], places
