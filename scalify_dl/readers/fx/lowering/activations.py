"""Activations and their backwards."""

from __future__ import annotations

from typing import Any

from scalify_dl.ir.graph import Tensor

from ..dtypes import category, result_type
from .core import Context, Number, Unsupported, lower, whole
from .elementwise import clamp
from .emitter import integer


@lower("aten.silu")
def silu(c: Context, x: Tensor) -> Tensor:
    return c.multiply(x, c.unary("logistic", x))


@lower("aten.silu_backward")
def silu_backward(c: Context, grad: Tensor, x: Tensor) -> Tensor:
    """grad · s · (1 + x · (1 − s)), s = logistic(x)"""
    grad, x = _alike(c, grad, x)
    s = c.unary("logistic", x)
    inner = c.add(c.multiply(x, c.subtract(1, s)), 1)
    return c.multiply(c.multiply(grad, s), inner)


@lower("aten.gelu")
def gelu(c: Context, x: Tensor, *, approximate: str = "none") -> Tensor:
    return c.unary("gelu-tanh" if approximate == "tanh" else "gelu", x)


@lower("aten.gelu_backward")
def gelu_backward(c: Context, grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    return c.binary("gelu-tanh-backward" if approximate == "tanh" else "gelu-backward", grad, x)


def _alike(c: Context, *xs: Tensor) -> list[Tensor]:
    """Operands in the dtype of the result, which is computed in."""
    dtype = result_type(xs)
    if dtype[0] == "c":
        raise Unsupported("gradients of complex numbers")
    return [c.convert(x, dtype) for x in xs]


@lower("aten.sigmoid_backward")
def sigmoid_backward(c: Context, grad: Tensor, out: Tensor) -> Tensor:
    grad, out = _alike(c, grad, out)
    return c.multiply(grad, c.multiply(c.subtract(1, out), out))


@lower("aten.tanh_backward")
def tanh_backward(c: Context, grad: Tensor, out: Tensor) -> Tensor:
    grad, out = _alike(c, grad, out)
    return c.multiply(grad, c.subtract(1, c.multiply(out, out)))


@lower("aten.threshold_backward")
def threshold_backward(c: Context, grad: Tensor, x: Tensor, threshold: Number) -> Tensor:
    """A gradient where x is above the threshold, all in one type."""
    dtype = result_type((grad, x))
    return c.select(c.compare("LE", c.convert(x, dtype), whole(threshold, dtype)), 0, grad, dtype=dtype)


@lower("aten.leaky_relu")
def leaky_relu(c: Context, x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return c.select(c.compare("GT", x, 0), x, c.multiply(x, negative_slope))


@lower("aten.hardtanh")
def hardtanh(c: Context, x: Tensor, min_val: Number = -1.0, max_val: Number = 1.0) -> Tensor:
    """Between bounds, in the dtype of x."""
    if category(x.dtype) < 2:
        min_val, max_val = integer(min_val), integer(max_val)
    return clamp(c, x, min_val, max_val)


@lower("aten.relu6")
def relu6(c: Context, x: Tensor) -> Tensor:
    return clamp(c, x, 0, 6)


@lower("aten.elu")
def elu(c: Context, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    grown = c.multiply(c.unary("exponential-minus-one", _scaled_tensor(c, x, input_scale)), alpha)
    return _scaled_tensor(c, c.select(c.compare("LT", x, 0), grown, x), scale)


@lower("aten.selu")
def selu(c: Context, x: Tensor) -> Tensor:
    return elu(c, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@lower("aten.celu")
def celu(c: Context, x: Tensor, alpha: float = 1.0) -> Tensor:
    """alpha · (exp(x / alpha) − 1) below zero"""
    if not alpha:
        raise Unsupported("celu of nothing")
    grown = c.multiply(c.unary("exponential-minus-one", c.divide(x, alpha)), alpha)
    return c.select(c.compare("LT", x, 0), grown, x)


def _scaled_tensor(c: Context, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else c.multiply(x, factor)


@lower("aten.softplus")
def softplus(c: Context, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Linear above the threshold, as torch computes it."""
    scaled = _scaled_tensor(c, x, beta)
    soft = c.unary("softplus", scaled)
    return c.select(c.compare("GT", scaled, threshold), x, soft if beta == 1 else c.divide(soft, beta))


@lower("aten.log_sigmoid_forward")
def log_sigmoid_forward(c: Context, x: Tensor) -> tuple[Any, ...]:
    """The buffer is exp(−|x|), on devices that have one."""

    def buffer() -> Tensor:
        if c.printed_shape(1) not in (None, x.shape):
            return c.splat(0, x.dtype, (0,))
        return c.unary("exponential", c.unary("negate", c.unary("abs", x)))

    return log_sigmoid(c, x), buffer


@lower("aten.log_sigmoid")
def log_sigmoid(c: Context, x: Tensor) -> Tensor:
    return c.unary("negate", c.unary("softplus", c.unary("negate", x)))


@lower("aten.softplus_backward")
def softplus_backward(c: Context, grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = _scaled_tensor(c, c.convert(x, result_type((grad, x))), beta)
    grown = c.unary("exponential", scaled)
    soft = c.divide(c.multiply(grad, grown), c.add(grown, 1))
    return c.select(c.compare("GT", scaled, threshold), grad, soft)
