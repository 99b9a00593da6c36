"""Patches of images: blocks of pixels as channels and back, windows as columns and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from scalify_dl.ir.graph import Tensor

from .core import Context, Unsupported, lower
from .dims import axis

Pair = Sequence[int]


@lower("aten.pixel_shuffle")
def pixel_shuffle(c: Context, x: Tensor, upscale_factor: int) -> Tensor:
    """[…, C·r·r, H, W] as [… , C, H·r, W·r]."""
    *lead, channels, rows, columns = x.shape
    r, n = upscale_factor, len(lead)
    split = c.reshape(x, (*lead, channels // (r * r), r, r, rows, columns))
    turned = c.transpose(split, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return c.reshape(turned, (*lead, channels // (r * r), rows * r, columns * r))


@lower("aten.pixel_unshuffle")
def pixel_unshuffle(c: Context, x: Tensor, downscale_factor: int) -> Tensor:
    """[…, C, H·r, W·r] as [… , C·r·r, H, W]; without elements as it is, as torch has it."""
    if 0 in x.shape:
        return c.reshape(x, x.shape)
    *lead, channels, rows, columns = x.shape
    r, n = downscale_factor, len(lead)
    split = c.reshape(x, (*lead, channels, rows // r, r, columns // r, r))
    turned = c.transpose(split, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return c.reshape(turned, (*lead, channels * r * r, rows // r, columns // r))


@lower("aten.channel_shuffle", "aten.native_channel_shuffle")
def channel_shuffle(c: Context, x: Tensor, groups: int) -> Tensor:
    lead, channels, *rest = x.shape
    split = c.reshape(x, (lead, groups, channels // groups, *rest))
    return c.reshape(c.transpose(split, [0, 2, 1, *range(3, len(rest) + 3)]), x.shape)


def _repeated(size: Sequence[int], output_size: Sequence[int], scales: Sequence[float | None]) -> list[int]:
    """How often each pixel is repeated along each dim, where all of a dim are so equally often."""
    import numpy as np  # most programs do without

    times = [out // n if n else 0 for n, out in zip(size, output_size, strict=True)]
    for n, out, k, scale in zip(size, output_size, times, scales, strict=True):
        step = np.float32(1 / scale) if scale else np.float32(n) / np.float32(max(out, 1))
        places = np.minimum(np.floor(np.arange(out, dtype=np.float32) * step), n - 1)
        if k < 1 or n * k != out or (places != np.arange(out) // k).any():
            raise Unsupported("pixels that are not all repeated equally often")
    return times


@lower("aten.upsample_nearest2d.default")
def upsample_nearest(
    c: Context, x: Tensor, output_size: Pair, scales_h: float | None = None, scales_w: float | None = None
) -> Tensor:
    """Each pixel as a block of equal ones."""
    lead, size = x.shape[:-2], x.shape[-2:]
    times = _repeated(size, output_size, (scales_h, scales_w))
    spread = (*lead, size[0], times[0], size[1], times[1])
    n = len(lead)
    return c.reshape(c.spread(x, spread, [*range(n + 1), n + 2]), (*lead, *output_size))


@lower("aten.upsample_nearest2d_backward.default")
def upsample_nearest_backward(
    c: Context, grad: Tensor, output_size: Pair, input_size: Sequence[int], scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:  # fmt: skip
    """Each pixel's gradient is the sum of those of its copies."""
    *lead, rows, columns = input_size
    times = _repeated((rows, columns), output_size, (scales_h, scales_w))
    n = len(lead)
    return c.reduce(c.reshape(grad, (*lead, rows, times[0], columns, times[1])), [n + 1, n + 3], "sum")


class _Windows:
    """Windows of images of some size."""

    def __init__(self, size: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> None:
        self.size, self.kernel, self.dilation, self.padding, self.stride = size, kernel, dilation, padding, stride
        self.padded = [n + 2 * p for n, p in zip(size, padding, strict=True)]
        self.counts = [
            (n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(self.padded, kernel, dilation, stride, strict=True)
        ]

    @property
    def side_by_side(self) -> bool:
        """Whether they part the image."""
        return not any(self.padding) and all(
            k == s and d == 1 and n % k == 0
            for n, k, d, s in zip(self.size, self.kernel, self.dilation, self.stride, strict=True)
        )

    def firsts(self) -> Iterator[list[int]]:
        """For each place in a window where it is in the first one."""
        for at in product(*map(range, self.kernel)):
            yield [i * d for i, d in zip(at, self.dilation, strict=True)]


@lower("aten.unfold", "aten.unfold_copy")
def unfold(c: Context, x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of a dim: where they begin is in its place, what is in them is a dim at the end."""
    d, n = axis(dimension, len(x.shape)), len(x.shape)
    if not n:
        return c.slice(c.reshape(x, (1,)), 0, 0, size)
    count = (x.shape[d] - size) // step + 1
    rest = [x.shape[:d], x.shape[d + 1 :]]
    if not size:
        return c.splat(0, x.dtype, (*rest[0], count, *rest[1], 0))
    if size == step and count * size == x.shape[d]:
        split = c.reshape(x, (*rest[0], count, size, *rest[1]))
        return c.transpose(split, [*range(d + 1), *range(d + 2, n + 1), d + 1])
    parts = [c.slice(x, d, first, first + (count - 1) * step + 1, step) for first in range(size)]
    return c.concatenate([c.reshape(part, (*rest[0], count, *rest[1], 1)) for part in parts], n)


@lower("aten.im2col")
def im2col(c: Context, x: Tensor, kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Tensor:
    """[…, C, H, W] as [… , C·kernel, windows]."""
    *lead, channels, rows, columns = x.shape
    windows, n = _Windows((rows, columns), kernel_size, dilation, padding, stride), len(lead) + 1
    shape = (*lead, channels * prod(kernel_size), prod(windows.counts))
    if windows.side_by_side:
        down, across = windows.counts
        split = c.reshape(x, (*lead, channels, down, kernel_size[0], across, kernel_size[1]))
        return c.reshape(c.transpose(split, [*range(n), n + 1, n + 3, n, n + 2]), shape)
    around = [0] * n + list(padding)
    x, parts = c.pad(x, around, around, 0), []
    for first in windows.firsts():
        part = x
        for d, (begin, count, step) in enumerate(zip(first, windows.counts, stride, strict=True)):
            part = c.slice(part, n + d, begin, begin + (count - 1) * step + 1, step)
        parts.append(c.reshape(part, (*lead, channels, 1, prod(windows.counts))))
    return c.reshape(c.concatenate(parts, n), shape)


@lower("aten.col2im")
def col2im(
    c: Context, x: Tensor, output_size: Pair, kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> Tensor:
    """[…, C·kernel, windows] as [… , C, H, W]: what windows have in common is added up."""
    *lead, deep, _ = x.shape
    windows, n = _Windows(output_size, kernel_size, dilation, padding, stride), len(lead) + 1
    channels = deep // prod(kernel_size)
    if windows.side_by_side:
        split = c.reshape(x, (*lead, channels, *kernel_size, *windows.counts))
        turned = c.transpose(split, [*range(n), n + 2, n, n + 3, n + 1])
        return c.reshape(turned, (*lead, channels, *output_size))
    split, total = c.reshape(x, (*lead, channels, prod(kernel_size), *windows.counts)), None
    for i, first in enumerate(windows.firsts()):
        part = c.reshape(c.slice(split, n, i, i + 1), (*lead, channels, *windows.counts))
        ends = [
            size - begin - (count - 1) * step - 1
            for size, begin, count, step in zip(windows.padded, first, windows.counts, stride, strict=True)
        ]
        gaps = [0] * n + [step - 1 for step in stride]
        part = c.pad(part, [0] * n + first, [0] * n + ends, 0, gaps)
        total = part if total is None else c.add(total, part)
    assert total is not None
    around = [0] * n + [-p for p in padding]
    return c.pad(total, around, around, 0)
