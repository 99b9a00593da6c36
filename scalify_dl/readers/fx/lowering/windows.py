"""Windows that slide over spatial dims: pools, convolutions the other way round, and the backwards of both.

A pool is computed offset by offset: the elements that windows have at one place are a strided slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from math import inf, prod
from typing import NamedTuple

from scalify_dl.ir.graph import Tensor

from ..dtypes import category
from .contractions import Amounts, convolution, mirrored
from .core import Context, Unsupported, lower
from .views import Lazy

LARGEST = 64
"""Elements of a window: each is a slice of its own."""


class Windows(NamedTuple):
    """Windows over the last dims of a tensor, a number for each dim."""

    size: list[int]
    stride: list[int]
    low: list[int]
    high: list[int]
    dilation: list[int]
    places: list[int]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """The places in a window, row-major."""
        return product(*map(range, self.size))


def _numbers(value: Amounts, rank: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values


def _windows(
    x: Tensor, rank: int, size: Amounts, stride: Amounts, padding: Amounts, dilation: Amounts, ceil_mode: bool
) -> Windows:
    """The windows of a pool over the last `rank` dims."""
    sizes, pads, gaps = _numbers(size, rank), _numbers(padding, rank), _numbers(dilation, rank)
    strides = _numbers(stride, rank) if stride or isinstance(stride, int) else sizes
    if ceil_mode or category(x.dtype) != 2 or not prod(x.shape):
        raise Unsupported("a pool with a part of a window, of integers or of nothing")
    if prod(sizes) > LARGEST:
        raise Unsupported(f"windows of {prod(sizes)} elements")
    count, high = [], []
    for n, k, s, p, d in zip(x.shape[-rank:], sizes, strides, pads, gaps, strict=True):
        reach = (k - 1) * d + 1
        count.append((n + 2 * p - reach) // s + 1)
        high.append(max((count[-1] - 1) * s + reach - n - p, 0))
    return Windows(sizes, strides, pads, high, gaps, count)


def _at(c: Context, padded: Tensor, w: Windows, offset: Sequence[int]) -> Tensor:
    """What all windows have at one place."""
    first = len(padded.shape) - len(offset)
    for i, at in enumerate(offset):
        start = at * w.dilation[i]
        padded = c.slice(padded, first + i, start, start + (w.places[i] - 1) * w.stride[i] + 1, w.stride[i])
    return padded


def _padded(c: Context, x: Tensor, w: Windows, value: float) -> Tensor:
    lead = [0] * (len(x.shape) - len(w.size))
    return c.pad(x, [*lead, *w.low], [*lead, *w.high], value)


def _back(c: Context, part: Tensor, w: Windows, offset: Sequence[int], shape: Sequence[int]) -> Tensor:
    """What stands at one place of all windows, where it came from in a tensor of some shape; zero elsewhere."""
    lead = len(shape) - len(offset)
    low, high, gaps = [0] * lead, [0] * lead, [0] * lead
    for i, at in enumerate(offset):
        low.append(at * w.dilation[i] - w.low[i])
        gaps.append(w.stride[i] - 1)
        high.append(shape[lead + i] - low[-1] - (w.places[i] - 1) * w.stride[i] - 1)
    return c.pad(part, low, high, 0, gaps)


def _sum(c: Context, parts: Sequence[Tensor]) -> Tensor:
    return reduce(c.add, parts)


def _rank(c: Context) -> int:
    """Of the images of the op: `avg_pool2d` has two spatial dims."""
    return int(c.target[c.target.index("_pool") + len("_pool")])


@lower("aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d")
def maxima(
    c: Context, x: Tensor, kernel_size: Amounts, stride: Amounts = (), padding: Amounts = 0, dilation: Amounts = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    return max_pool(c, x, kernel_size, stride, padding, dilation, ceil_mode)[0]


@lower("aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices")
def max_pool(
    c: Context, x: Tensor, kernel_size: Amounts, stride: Amounts = (), padding: Amounts = 0, dilation: Amounts = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Lazy]:  # fmt: skip
    """(maxima, their places in the spatial dims as one)"""
    w = _windows(x, _rank(c), kernel_size, stride, padding, dilation, ceil_mode)
    padded = _padded(c, x, w, -inf)
    parts = [_at(c, padded, w, offset) for offset in w.offsets()]
    largest = reduce(lambda x, y: c.binary("maximum", x, y), parts)
    return largest, lambda: _places(c, x, w, parts, largest)


def _places(c: Context, x: Tensor, w: Windows, parts: Sequence[Tensor], largest: Tensor) -> Tensor:
    """Where in the spatial dims, taken as one, the first of the largest elements of each window stands."""
    sizes = x.shape[-len(w.size) :]
    found: Tensor | None = None
    for offset, part in reversed(list(zip(w.offsets(), parts, strict=True))):
        place = c.broadcast(_place(c, w, offset, sizes), largest.shape)
        if found is None:
            found = place
            continue
        here = c.compare("EQ", part, largest)
        for inside in _inside(c, w, offset, sizes):
            here = c.binary("and", here, inside)
        found = c.select(here, place, found)
    assert found is not None
    c.places[found] = sizes, w
    return found


def _place(c: Context, w: Windows, offset: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Where in the spatial dims, as one, stands what all windows have at one place; padding is where another is."""
    at = c.splat(0, "s64", tuple(w.places))
    for d, k in enumerate(offset):
        own = c.add(c.multiply(c.iota("s64", at.shape, d), w.stride[d]), k * w.dilation[d] - w.low[d])
        at = c.add(at, c.multiply(own, prod(sizes[d + 1 :])))
    return at


def _inside(c: Context, w: Windows, offset: Sequence[int], sizes: Sequence[int]) -> Iterator[Tensor]:
    """Whether what all windows have at one place is no padding: for each dim in which some have."""
    for d, k in enumerate(offset):
        first, step = k * w.dilation[d] - w.low[d], w.stride[d]
        index = c.iota("s64", tuple(w.places), d)
        if first < 0:
            yield c.compare("GE", index, -(first // step))
        if first + (w.places[d] - 1) * step >= sizes[d]:
            yield c.compare("LT", index, -((first - sizes[d]) // step))


@lower("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def max_pool_backward(
    c: Context, grad: Tensor, x: Tensor, kernel_size: Amounts, stride: Amounts, padding: Amounts, dilation: Amounts,
    ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient where the places say, which must be those of such windows over such a tensor."""
    w = _windows(x, _rank(c), kernel_size, stride, padding, dilation, ceil_mode)
    sizes = x.shape[-len(w.size) :]
    if c.places.get(indices) != (sizes, w) or indices.shape != grad.shape or grad.dtype != x.dtype:
        raise Unsupported("places that are not known to lie in these windows")
    parts = []
    for offset in w.offsets():
        chosen = c.compare("EQ", indices, c.broadcast(_place(c, w, offset, sizes), grad.shape))
        parts.append(_back(c, c.select(chosen, grad, 0, dtype=grad.dtype), w, offset, x.shape))
    return _sum(c, parts)


@lower("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(
    c: Context, x: Tensor, kernel_size: Amounts, stride: Amounts = (), padding: Amounts = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    w = _windows(x, _rank(c), kernel_size, stride, padding, 1, ceil_mode)
    padded = _padded(c, x, w, 0)
    summed = _sum(c, [_at(c, padded, w, offset) for offset in w.offsets()])
    return c.divide(summed, _divisor(w, count_include_pad, divisor_override))


def _divisor(w: Windows, count_include_pad: bool, divisor_override: int | None) -> int:
    if any(w.low) and not count_include_pad and not divisor_override:
        raise Unsupported("means over what is not padding")
    return divisor_override or prod(w.size)


@lower("aten.avg_pool2d_backward", "aten.avg_pool3d_backward")
def avg_pool_backward(
    c: Context, grad: Tensor, x: Tensor, kernel_size: Amounts, stride: Amounts, padding: Amounts, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    w = _windows(x, _rank(c), kernel_size, stride, padding, 1, ceil_mode)
    share = c.divide(grad, _divisor(w, count_include_pad, divisor_override))
    return _sum(c, [_back(c, share, w, offset, x.shape) for offset in w.offsets()])


def _blocks(x: Tensor, output_size: Sequence[int]) -> tuple[list[int], list[int]]:
    """Shape of images as blocks of one size, one for each element of the result; the dims of the blocks."""
    shape, dims = list(x.shape[: -len(output_size)]), []
    for n, blocks in zip(x.shape[-len(output_size) :], output_size, strict=True):
        if blocks < 1 or n % blocks or not n:
            raise Unsupported("means over windows of several sizes, or of nothing")
        dims.append(len(shape) + 1)
        shape += [blocks, n // blocks]
    return shape, dims


@lower("aten._adaptive_avg_pool2d", "aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d")
def adaptive_avg_pool(c: Context, x: Tensor, output_size: Amounts) -> Tensor:
    shape, dims = _blocks(x, _numbers(output_size, _rank(c)))
    return c.divide(c.reduce(c.reshape(x, tuple(shape)), dims, "sum"), prod(shape[d] for d in dims))


@lower("aten._adaptive_avg_pool2d_backward")
def adaptive_avg_pool_backward(c: Context, grad: Tensor, x: Tensor) -> Tensor:
    shape, dims = _blocks(x, grad.shape[-2:])
    share = c.divide(grad, prod(shape[d] for d in dims))
    return c.reshape(c.spread(share, tuple(shape), [d for d in range(len(shape)) if d not in dims]), x.shape)


# --- convolutions the other way round --------------------------------------------------------------------------------


def _not_asked() -> Tensor:
    raise Unsupported("a gradient that is not asked for")


@lower("aten.convolution_backward")
def convolution_backward(
    c: Context, grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: Amounts,
    padding: Amounts, dilation: Amounts, transposed: bool, output_padding: Amounts, groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | Lazy, ...]:  # fmt: skip
    """The gradients that are asked for: of the input, of the weight, of the bias (kernels may give the others, too).

    A convolution is transposed to its own gradient: for a transposed one, input and gradient change places."""
    spatial = len(x.shape) - 2
    strides, pads, gaps = (_numbers(value, spatial) for value in (stride, padding, dilation))
    of_x: Tensor | Lazy = _not_asked
    of_weight: Tensor | Lazy = _not_asked
    of_bias: Tensor | Lazy = _not_asked
    if output_mask[0] and transposed:
        of_x = convolution(c, grad, weight, None, strides, pads, gaps, False, 0, groups)
    elif output_mask[0]:
        of_x = mirrored(c, grad, weight, strides, pads, gaps, groups, x.shape[2:])
    if output_mask[1]:
        left, right = (grad, x) if transposed else (x, grad)
        of_weight = _of_weight(c, left, right, weight, strides, pads, gaps, groups)
    if output_mask[2]:
        of_bias = c.reduce(grad, [0, *range(2, 2 + spatial)], "sum")
    return of_x, of_weight, of_bias


def _of_weight(
    c: Context, x: Tensor, grad: Tensor, weight: Tensor, strides: list[int], pads: list[int], gaps: list[int],
    groups: int,
) -> Tensor:  # fmt: skip
    """x convolved with the gradient: channels are the batch, the batch is what is summed."""
    spatial = len(strides)
    dims = list(range(2, 2 + spatial))
    window = list(weight.shape[2:])
    high = [
        (k - 1) * d + (o - 1) * s + 1 - n - p
        for k, d, o, s, n, p in zip(window, gaps, grad.shape[2:], strides, x.shape[2:], pads, strict=True)
    ]
    numbers = {
        "window_size": list(grad.shape[2:]), "window_stride": gaps, "window_pad_low": pads, "window_pad_high": high,
        "window_dilation": strides, "base_dilation": [1] * spatial,
        "input_batch": [1], "input_feature": [0], "input_spatial": dims,
        "kernel_output_feature": [1], "kernel_input_feature": [0], "kernel_spatial": list(dims),
        "output_batch": [1], "output_feature": [0], "output_spatial": list(dims),
        "feature_group_count": [1], "batch_group_count": [int(groups)],
    }  # fmt: skip
    return c.emit("convolution", (x, grad), x.dtype, weight.shape, numbers)
