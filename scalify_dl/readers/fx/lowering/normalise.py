"""Softmax and normalisations, with their backwards, as primitives."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from scalify_dl.ir.graph import Tensor

from ..dtypes import is_floating
from .casts import dtype_of
from .core import Context, Unsupported, lower
from .dims import axis
from .reductions import mean_of
from .views import Lazy

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
        return c.convert(c.multiply(inner, rstd), x.dtype)

    def added(value: Tensor) -> Tensor:
        return c.convert(c.reduce(value, outer, "sum"), (x if weight is None else weight).dtype)

    return grad_x, lambda: added(c.multiply(grad, normal())), lambda: added(grad)


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


@lower("aten.group_norm")
def group_norm(
    c: Context, x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`cudnn_enabled` chooses a kernel."""
    batch, channels, *image = x.shape
    return native_group_norm(c, x, weight, bias, batch, channels, prod(image), groups, eps)[0]


@lower("aten.instance_norm")
def instance_norm(
    c: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, _momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Each channel by itself, where nothing is kept of the batch."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise Unsupported("running statistics of instances")
    return group_norm(c, x, x.shape[1], weight, bias, eps)


@lower("aten._weight_norm_interface")
def weight_norm(c: Context, v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """A weight as a direction times a length for each row (or column): (weight, norms of the directions)."""
    norms = _norms(c, v, dim)
    return c.multiply(v, c.divide(g, norms)), norms


@lower("aten._weight_norm_interface_backward")
def weight_norm_backward(
    c: Context, grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Lazy, Lazy]:
    """(gradient of v, of g)"""
    others = _but(v, dim)
    along = c.reduce(c.multiply(grad, v), others, "sum", keepdim=True)

    def of_direction() -> Tensor:
        back = c.multiply(v, c.divide(along, c.multiply(norms, norms)))
        return c.multiply(c.divide(g, norms), c.subtract(grad, back))

    return of_direction, lambda: c.divide(along, norms)


def _but(v: Tensor, dim: int) -> list[int]:
    return [d for d in range(len(v.shape)) if d != axis(dim, len(v.shape))]


def _norms(c: Context, v: Tensor, dim: int) -> Tensor:
    if v.dtype not in ("f32", "f64"):
        raise Unsupported(f"weight norm of {v.dtype}")
    return c.unary("sqrt", c.reduce(c.multiply(v, v), _but(v, dim), "sum", keepdim=True))


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
