"""Softmax, normalisations and losses, with their backwards, as primitives."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, prod

from scalify_dl.ir.graph import Tensor

from ..dtypes import is_floating
from .core import Context, Number, Unsupported, lower
from .dims import axis
from .indexing import along
from .reductions import mean_of
from .views import Lazy, dtype_of

EPSILON = {"f32": 1.1920928955078125e-07, "bf16": 0.0078125, "f16": 0.0009765625, "f64": 2.220446049250313e-16}
"""`torch.finfo(dtype).eps`, what `rms_norm` without an epsilon uses."""


def _shifted(c: Context, x: Tensor, d: int) -> Tensor:
    """x minus its maximum along a dim."""
    return c.subtract(x, c.reduce(x, [d], "max", keepdim=True))


@lower("aten._softmax", "aten.softmax", "aten._safe_softmax")
def softmax(c: Context, x: Tensor, dim: int, half_or_dtype: object = None, *, dtype: object = None) -> Tensor:
    """exp(x − max) / Σ exp(x − max)"""
    x = _real(c, x, _dtype(half_or_dtype, dtype))
    d = axis(dim, len(x.shape))
    powers = c.unary("exponential", _shifted(c, x, d))
    result = c.divide(powers, c.reduce(powers, [d], "sum", keepdim=True))
    if "safe" in c.target:  # rows that are masked altogether give zeros
        masked = c.reduce(c.compare("EQ", x, -inf), [d], "and", keepdim=True)
        return c.select(masked, 0, result, dtype=result.dtype)
    return result


@lower("aten._log_softmax", "aten.log_softmax")
def log_softmax(c: Context, x: Tensor, dim: int, half_or_dtype: object = None, *, dtype: object = None) -> Tensor:
    """(x − max) − log Σ exp(x − max)"""
    x = _real(c, x, _dtype(half_or_dtype, dtype))
    d = axis(dim, len(x.shape))
    shifted = _shifted(c, x, d)
    return c.subtract(shifted, c.unary("log", c.reduce(c.unary("exponential", shifted), [d], "sum", keepdim=True)))


def _real(c: Context, x: Tensor, dtype: str | None) -> Tensor:
    if not is_floating(dtype or x.dtype):
        raise Unsupported("softmax of integers")
    return c.convert(x, dtype or x.dtype)


def _dtype(positional: object, keyword: object) -> str | None:
    """`softmax.int` has a dtype where `_softmax` has a flag: half input, f32 result."""
    if positional is True:
        return "f32"
    chosen = keyword if keyword is not None else positional
    return None if chosen is None or chosen is False else dtype_of(chosen)


@lower("aten._softmax_backward_data")
def softmax_backward(c: Context, grad: Tensor, out: Tensor, dim: int, input_dtype: object) -> Tensor:
    """out · grad − out · Σ out · grad"""
    weighted = c.multiply(grad, out)
    total = c.reduce(weighted, [axis(dim, len(out.shape))], "sum", keepdim=True)
    return c.convert(c.subtract(weighted, c.multiply(out, total)), dtype_of(input_dtype))


@lower("aten._log_softmax_backward_data")
def log_softmax_backward(c: Context, grad: Tensor, out: Tensor, dim: int, input_dtype: object) -> Tensor:
    """grad − exp(out) · Σ grad"""
    total = c.reduce(grad, [axis(dim, len(out.shape))], "sum", keepdim=True)
    return c.convert(c.subtract(grad, c.multiply(c.unary("exponential", out), total)), dtype_of(input_dtype))


# --- normalisations --------------------------------------------------------------------------------------------------


def layer_norm_of(
    c: Context, x: Tensor, dims: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(normalised, mean, reciprocal deviation); the statistics keep the reduced dims, and are computed in the dtype
    that the text shows for them (kernels differ in that)."""
    dtype, x = x.dtype, c.convert(x, c.printed(1) or c.printed(2) or x.dtype)
    mean = mean_of(c, x, dims, keepdim=True)
    distance = c.subtract(x, mean)
    variance = mean_of(c, c.multiply(distance, distance), dims, keepdim=True)
    rstd = c.unary("rsqrt", c.add(variance, eps))
    out = c.multiply(distance, rstd)
    out = out if weight is None else c.multiply(out, weight)
    return c.convert(out if bias is None else c.add(out, bias), c.printed(0) or dtype), mean, rstd


def _last(x: Tensor, normalized: Sequence[int]) -> list[int]:
    return list(range(len(x.shape) - len(normalized), len(x.shape)))


@lower("aten.native_layer_norm")
def native_layer_norm(
    c: Context, x: Tensor, normalized: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return layer_norm_of(c, x, _last(x, normalized), weight, bias, eps)


@lower("aten.layer_norm")
def layer_norm(
    c: Context, x: Tensor, normalized: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    return layer_norm_of(c, x, _last(x, normalized), weight, bias, eps)[0]


@lower("aten.native_layer_norm_backward")
def native_layer_norm_backward(
    c: Context, grad: Tensor, x: Tensor, normalized: Sequence[int], mean: Tensor, rstd: Tensor, weight: Tensor | None,
    _bias: Tensor | None, _wanted: Sequence[bool],
) -> tuple[Lazy, Lazy, Lazy]:  # fmt: skip
    """rstd · (g − mean(g) − x̂ · mean(g · x̂)), Σ grad · x̂, Σ grad, with g = grad · weight and x̂ the normalised x."""
    dims = _last(x, normalized)
    outer = list(range(len(x.shape) - len(normalized)))

    def normal() -> Tensor:
        return c.multiply(c.subtract(x, mean), rstd)

    def grad_x() -> Tensor:
        hat = normal()
        g = grad if weight is None else c.multiply(grad, weight)
        inner = c.subtract(
            c.subtract(g, mean_of(c, g, dims, True)), c.multiply(hat, mean_of(c, c.multiply(g, hat), dims, True))
        )
        return c.multiply(inner, rstd)

    return grad_x, lambda: c.reduce(c.multiply(grad, normal()), outer, "sum"), lambda: c.reduce(grad, outer, "sum")


def rms_norm_of(c: Context, x: Tensor, dims: Sequence[int], weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """(x / √(mean x² + eps) · weight, the reciprocal root), computed in the dtype that the text shows for the root."""
    dtype, x = x.dtype, c.convert(x, c.printed(1) or x.dtype)
    rstd = c.unary("rsqrt", c.add(mean_of(c, c.multiply(x, x), dims, keepdim=True), eps))
    out = c.multiply(x, rstd)
    return c.convert(out if weight is None else c.multiply(out, weight), c.printed(0) or dtype), rstd


@lower("aten.rms_norm")
def rms_norm(
    c: Context, x: Tensor, normalized: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    return _fused_rms_norm(c, x, normalized, weight, eps)[0]


@lower("aten._fused_rms_norm")
def _fused_rms_norm(
    c: Context, x: Tensor, normalized: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    return rms_norm_of(c, x, _last(x, normalized), weight, EPSILON[x.dtype] if eps is None else eps)


@lower("aten._fused_rms_norm_backward")
def _fused_rms_norm_backward(
    c: Context,
    grad: Tensor,
    x: Tensor,
    normalized: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    _wanted: Sequence[bool],
) -> tuple[Lazy, Lazy]:
    dims = _last(x, normalized)
    outer = list(range(len(x.shape) - len(normalized)))

    def grad_x() -> Tensor:
        g = grad if weight is None else c.multiply(grad, weight)
        hat = c.multiply(x, rstd)
        return c.multiply(c.subtract(g, c.multiply(hat, mean_of(c, c.multiply(g, hat), dims, True))), rstd)

    return grad_x, lambda: c.reduce(c.multiply(grad, c.multiply(x, rstd)), outer, "sum")


@lower("aten.native_group_norm")
def native_group_norm(
    c: Context,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    channels: int,
    inner: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    grouped = c.reshape(x, (n, groups, channels // groups * inner))
    out, mean, rstd = layer_norm_of(c, grouped, [2], None, None, eps)
    out = c.reshape(out, x.shape)
    out = out if weight is None else c.multiply(out, c.spread(weight, x.shape, [1]))
    out = out if bias is None else c.add(out, c.spread(bias, x.shape, [1]))
    return out, c.reshape(mean, (n, groups)), c.reshape(rstd, (n, groups))


# --- losses ----------------------------------------------------------------------------------------------------------


def _reduced(c: Context, losses: Tensor, weight: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """(loss, total weight); reduction 0 none, 1 mean, 2 sum."""
    total = c.reduce(weight, range(len(weight.shape)), "sum")
    if reduction == 0:
        return losses, total
    summed = c.reduce(losses, range(len(losses.shape)), "sum")
    return (c.divide(summed, total) if reduction == 1 else summed), total


@lower("aten.nll_loss_forward", "aten.nll_loss2d_forward")
def nll_loss_forward(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor | Lazy]:
    """−x[target] where the target is not ignored, averaged over those."""
    if weight is not None or "2d" in c.target:
        raise Unsupported("nll_loss with class weights or spatial dims")
    valid = c.compare("NE", target, ignore_index)
    safe = c.select(valid, target, 0, dtype=target.dtype)
    losses = c.unary("negate", along(c, x, len(x.shape) - 1, safe))
    loss, total = _reduced(c, c.select(valid, losses, 0, dtype=x.dtype), c.convert(valid, x.dtype), reduction)
    return loss, total if reduction else _no_total


def _no_total() -> Tensor:
    raise Unsupported("the total weight of losses that are not reduced")


@lower("aten.nll_loss", "aten.nll_loss_nd")
def nll_loss(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    if len(x.shape) > 2:
        raise Unsupported("nll_loss with spatial dims")
    return nll_loss_forward(c, x, target, weight, reduction, ignore_index)[0]


@lower("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_loss_backward(
    c: Context, grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int,
    total_weight: Tensor,
) -> Tensor:  # fmt: skip
    """−grad / total at each target that is not ignored, zero elsewhere."""
    if weight is not None or "2d" in c.target:
        raise Unsupported("nll_loss with class weights or spatial dims")
    amount = c.unary("negate", c.divide(grad, total_weight) if reduction == 1 else grad)
    valid = c.compare("NE", target, ignore_index)
    hit = c.compare(
        "EQ", c.spread(target, x.shape, range(len(target.shape))), c.iota(target.dtype, x.shape, len(x.shape) - 1)
    )
    picked = c.binary("and", hit, c.spread(valid, x.shape, range(len(target.shape))))
    each = c.spread(amount, x.shape, range(len(target.shape))) if amount.shape else c.broadcast(amount, x.shape)
    return c.select(picked, each, 0, dtype=x.dtype)


@lower("aten.cross_entropy_loss")
def cross_entropy_loss(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    if label_smoothing or is_floating(target.dtype) or len(x.shape) > 2:
        raise Unsupported("cross entropy with label smoothing, probabilities or spatial dims")
    return nll_loss(c, log_softmax(c, x, len(x.shape) - 1), target, weight, reduction, ignore_index)


def _loss(c: Context, losses: Tensor, reduction: int) -> Tensor:
    dims = range(len(losses.shape))
    return losses if reduction == 0 else mean_of(c, losses, dims) if reduction == 1 else c.reduce(losses, dims, "sum")


@lower("aten.mse_loss", "aten.l1_loss")
def mse_loss(c: Context, x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    distance = c.subtract(x, target)
    return _loss(c, c.unary("abs", distance) if "l1" in c.target else c.multiply(distance, distance), reduction)


@lower("aten.mse_loss_backward")
def mse_loss_backward(c: Context, grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    count = prod(x.shape)
    factor: Number = Fraction(2, count) if reduction == 1 and count else 2
    return c.multiply(c.multiply(c.subtract(x, target), grad), factor)


@lower("aten.binary_cross_entropy_with_logits")
def bce_with_logits(
    c: Context,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """(1 − target) · x + softplus(−x)"""
    if weight is not None or pos_weight is not None:
        raise Unsupported("binary cross entropy with weights")
    losses = c.add(c.multiply(c.subtract(1, target), x), c.unary("softplus", c.unary("negate", x)))
    return _loss(c, losses, reduction)


# --- the same under other names --------------------------------------------------------------------------------------


@lower("apex.fused_layer_norm_fwd")
def apex_plain_layer_norm(
    c: Context, x: Tensor, normalized: Sequence[int], eps: float, memory_efficient: bool = False
) -> tuple[Tensor, Lazy, Lazy]:
    return apex_layer_norm(c, x, None, None, normalized, eps)


@lower("apex.fused_layer_norm_affine_fwd")
def apex_layer_norm(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, normalized: Sequence[int], eps: float,
    memory_efficient: bool = False,
) -> tuple[Tensor, Lazy, Lazy]:  # fmt: skip
    """Apex's layer norm: (out, mean, reciprocal deviation), the statistics flat. What is kept differs."""
    out, mean, rstd = layer_norm_of(c, x, _last(x, normalized), weight, bias, eps)
    return out, lambda: c.reshape(mean, (prod(mean.shape),)), lambda: c.reshape(rstd, (prod(rstd.shape),))


@lower("apex.fused_rms_norm_affine_fwd")
def apex_rms_norm(
    c: Context, x: Tensor, weight: Tensor, normalized: Sequence[int], eps: float, memory_efficient: bool = False
) -> tuple[Tensor, Lazy]:
    out, rstd = rms_norm_of(c, x, _last(x, normalized), weight, eps)
    return out, lambda: c.reshape(rstd, (prod(rstd.shape),))
