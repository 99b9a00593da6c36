"""Statistics of a batch or of groups of channels: batch norms with what they keep of the batch, backwards."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

from scalify_dl.ir.graph import Tensor

from .core import Context, Unsupported, Written, exact, lower
from .reductions import mean_of
from .views import Lazy


def _statistics(x: Tensor) -> list[int]:
    """The dims that statistics of channels are over: all but the second."""
    return [0, *range(2, len(x.shape))]


def _alike(x: Tensor, *others: Tensor | None) -> None:
    """Kernels accumulate what is narrow in a wider type: not read."""
    if x.dtype not in ("f32", "f64") or any(other is not None and other.dtype != x.dtype for other in others):
        raise Unsupported("statistics in another type than the input's")
    if len(x.shape) < 2 or not prod(x.shape):
        raise Unsupported("statistics of nothing, or without channels")


def _of_channels(x: Tensor, *others: Tensor | None) -> None:
    """torch takes the first numbers of whatever it is given, one for each channel."""
    if any(other is not None and other.shape != x.shape[1:2] for other in others):
        raise Unsupported("weights or statistics that are not one for each channel")


def _normal(c: Context, x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    return c.multiply(c.subtract(x, c.spread(mean, x.shape, [1])), c.spread(rstd, x.shape, [1]))


def _scaled(c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else c.multiply(x, c.spread(weight, x.shape, [1]))
    return x if bias is None else c.add(x, c.spread(bias, x.shape, [1]))


def _of_batch(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(normalised, mean, reciprocal deviation, sum of squared distances) of a batch."""
    dims = _statistics(x)
    mean = mean_of(c, x, dims)
    distance = c.subtract(x, c.spread(mean, x.shape, [1]))
    squares = c.reduce(c.multiply(distance, distance), dims, "sum")
    rstd = c.unary("rsqrt", c.add(c.multiply(squares, Fraction(1, prod(x.shape) // x.shape[1])), eps))
    out = c.multiply(distance, c.spread(rstd, x.shape, [1]))
    return _scaled(c, out, weight, bias), mean, rstd, squares


def _kept(
    c: Context, x: Tensor, mean: Tensor, squares: Tensor, momentum: float, running_mean: Tensor, running_var: Tensor
) -> tuple[Tensor, Tensor]:
    """Running statistics after a batch: (1 − m) · before + m · of the batch, whose variance is over n − 1."""
    number, factor = prod(x.shape) // x.shape[1], exact(momentum)
    if number < 2 or factor is None:
        raise Unsupported("a variance of one element, or a momentum that is no number")
    variance = c.multiply(squares, Fraction(1, number - 1))
    of_mean, of_variance = (
        c.add(c.multiply(before, 1 - factor), c.multiply(now, factor))
        for before, now in ((running_mean, mean), (running_var, variance))
    )
    return of_mean, of_variance


def _of_running(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, variance: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Normalised by running statistics; nothing of the batch is kept."""
    if mean is None or variance is None:
        raise Unsupported("no statistics")
    rstd = c.unary("rsqrt", c.add(variance, eps))
    none = c.splat(0, x.dtype, (0,))
    return _scaled(c, _normal(c, x, mean, rstd), weight, bias), none, none


@lower("aten.native_batch_norm", "aten._native_batch_norm_legit.default")
def native_batch_norm(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """(normalised, mean, reciprocal deviation); in training it writes the running statistics, where there are any."""
    _alike(x, weight, bias, running_mean, running_var)
    _of_channels(x, weight, bias, running_mean, running_var)
    if not training:
        return _of_running(c, x, weight, bias, running_mean, running_var, eps)
    out, mean, rstd, squares = _of_batch(c, x, weight, bias, eps)
    if running_mean is None and running_var is None:
        return out, mean, rstd
    if running_mean is None or running_var is None:
        raise Unsupported("one running statistic without the other")
    return Written((out, mean, rstd), _kept(c, x, mean, squares, momentum, running_mean, running_var))


@lower("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_running(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, _momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    _alike(x, weight, bias)
    _of_channels(x, weight, bias)
    if not training:
        raise Unsupported("no statistics")
    return _of_batch(c, x, weight, bias, eps)[:3]


@lower("aten._native_batch_norm_legit_no_training")
def batch_norm_of_running(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    _momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _alike(x, weight, bias, running_mean, running_var)
    _of_channels(x, weight, bias, running_mean, running_var)
    return _of_running(c, x, weight, bias, running_mean, running_var, eps)


@lower("aten.batch_norm")
def batch_norm(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """As `native_batch_norm`, without what it keeps for its backward."""
    found = native_batch_norm(c, x, weight, bias, running_mean, running_var, training, momentum, eps)
    return Written(found.results[:1], found.values) if isinstance(found, Written) else found[0]


@lower("aten._native_batch_norm_legit_functional")
def functional_batch_norm(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    training: bool, momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The running statistics after the batch are results."""
    _alike(x, weight, bias, running_mean, running_var)
    _of_channels(x, weight, bias, running_mean, running_var)
    if not training:
        return (*_of_running(c, x, weight, bias, running_mean, running_var, eps), running_mean, running_var)
    out, mean, rstd, squares = _of_batch(c, x, weight, bias, eps)
    return (out, mean, rstd, *_kept(c, x, mean, squares, momentum, running_mean, running_var))


@lower("aten.native_batch_norm_backward")
def native_batch_norm_backward(
    c: Context, grad: Tensor, x: Tensor, weight: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, save_mean: Tensor | None, save_invstd: Tensor | None, train: bool, eps: float,
    output_mask: Sequence[bool],
) -> tuple[Lazy | None, ...]:  # fmt: skip
    """weight · rstd · (g − mean(g) − x̂ · mean(g · x̂)), Σ g · x̂, Σ g; by running statistics weight · rstd · g."""
    _alike(x, grad, weight, running_mean, running_var, save_mean, save_invstd)
    _of_channels(x, weight, *((save_mean, save_invstd) if train else (running_mean, running_var)))
    if grad.shape != x.shape:
        raise Unsupported("a gradient of another shape")
    if train:
        mean, rstd = save_mean, save_invstd
    else:
        mean, rstd = running_mean, None if running_var is None else c.unary("rsqrt", c.add(running_var, eps))
    if mean is None or rstd is None or mean.shape != (x.shape[1],):
        raise Unsupported("no statistics")
    dims = _statistics(x)
    hat = _normal(c, x, mean, rstd)

    def of_x() -> Tensor:
        inner = grad
        if train:
            middle = c.spread(mean_of(c, grad, dims), x.shape, [1])
            tilt = c.multiply(hat, c.spread(mean_of(c, c.multiply(grad, hat), dims), x.shape, [1]))
            inner = c.subtract(c.subtract(grad, middle), tilt)
        return _scaled(c, c.multiply(inner, c.spread(rstd, x.shape, [1])), weight, None)

    def of_weight() -> Tensor:
        return c.reduce(c.multiply(grad, hat), dims, "sum")

    gradients = of_x, of_weight, lambda: c.reduce(grad, dims, "sum")
    return tuple([gradient if asked else None for gradient, asked in zip(gradients, output_mask, strict=True)])


@lower("aten.native_group_norm_backward")
def native_group_norm_backward(
    c: Context, grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, n: int, channels: int,
    inner: int, groups: int, output_mask: Sequence[bool],
) -> tuple[Lazy | None, ...]:  # fmt: skip
    """Of each group as of a layer norm; weight and bias are of channels."""
    _alike(x, grad, mean, rstd, weight)
    if grad.shape != x.shape or (weight is not None and weight.shape != x.shape[1:2]):
        raise Unsupported("a gradient of another shape, or weights that are not one for each channel")
    grouped, one = (n, groups, channels // groups * inner), (n, groups, 1)
    distance = c.subtract(c.reshape(x, grouped), c.reshape(mean, one))
    hat = c.multiply(distance, c.reshape(rstd, one))

    def of_x() -> Tensor:
        g = c.reshape(_scaled(c, grad, weight, None), grouped)
        straight = c.subtract(g, mean_of(c, g, [2], True))
        tilt = c.multiply(hat, mean_of(c, c.multiply(g, hat), [2], True))
        return c.reshape(c.multiply(c.subtract(straight, tilt), c.reshape(rstd, one)), x.shape)

    def of_weight() -> Tensor:
        return c.reduce(c.multiply(grad, c.reshape(hat, x.shape)), _statistics(x), "sum")

    gradients = of_x, of_weight, lambda: c.reduce(grad, _statistics(x), "sum")
    return tuple([gradient if asked else None for gradient, asked in zip(gradients, output_mask, strict=True)])
