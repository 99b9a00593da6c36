"""Activations in pieces or with gates, with their backwards."""

from __future__ import annotations

from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from ..dtypes import category, result_type
from .core import Context, Number, Unsupported, exact, lower
from .dims import axis
from .slices import cat


def alike(c: Context, *xs: Tensor) -> list[Tensor]:
    """Operands in the dtype of the result, which is computed in."""
    dtype = result_type(xs)
    if category(dtype) != 2:
        raise Unsupported(f"activations of {dtype}")
    return [c.convert(x, dtype) for x in xs]


def _between(c: Context, x: Tensor, low: Number, high: Number, ends: bool) -> Tensor:
    """Whether x is between two numbers, the ends included or not."""
    above, below = ("GE", "LE") if ends else ("GT", "LT")
    return c.binary("and", c.compare(above, x, low), c.compare(below, x, high))


@lower("aten.leaky_relu_backward")
def leaky_relu_backward(c: Context, grad: Tensor, x: Tensor, negative_slope: float, self_is_result: bool) -> Tensor:
    """Of x or of the result: both have the sign that decides."""
    if self_is_result and negative_slope < 0:
        raise Unsupported("a negative slope, whose result does not tell where x was negative")
    grad, x = alike(c, grad, x)
    return c.select(c.compare("GT", x, 0), grad, c.multiply(grad, negative_slope))


@lower("aten.elu_backward")
def elu_backward(
    c: Context, grad: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor
) -> Tensor:
    """With y = scale · alpha · (exp(input_scale · x) − 1) below zero: grad · input_scale · (y + scale · alpha)."""
    if is_result and alpha < 0:
        raise Unsupported("a negative alpha, whose result does not tell where x was negative")
    grad, x = alike(c, grad, x)
    first, positive, inner = exact(alpha), exact(scale), exact(input_scale)
    if first is None or positive is None or inner is None:
        raise Unsupported("factors that are not finite")
    negative = first * positive
    if is_result:
        grown = c.add(x, c.scalar(negative, x.dtype))
    else:
        grown = c.multiply(c.unary("exponential", c.multiply(x, inner)), negative)
    below = c.multiply(c.multiply(grad, inner), grown)
    return c.select(c.compare("LE", x, 0), below, c.multiply(grad, positive))


@lower("aten.hardtanh_backward")
def hardtanh_backward(c: Context, grad: Tensor, x: Tensor, min_val: Number, max_val: Number) -> Tensor:
    grad, x = alike(c, grad, x)
    return c.select(_between(c, x, min_val, max_val, ends=False), grad, 0, dtype=grad.dtype)


@lower("aten.hardsigmoid", "aten.hardswish")
def hardsigmoid(c: Context, x: Tensor) -> Tensor:
    """min(max(x + 3, 0), 6) / 6, in the other case times x"""
    (x,) = alike(c, x)
    gate = c.binary("minimum", c.binary("maximum", c.add(x, 3), 0), 6)
    return c.divide(c.multiply(x, gate) if "hardswish" in c.target else gate, 6)


@lower("aten.hardsigmoid_backward")
def hardsigmoid_backward(c: Context, grad: Tensor, x: Tensor) -> Tensor:
    grad, x = alike(c, grad, x)
    return c.select(_between(c, x, -3, 3, ends=False), c.divide(grad, 6), 0, dtype=grad.dtype)


@lower("aten.hardswish_backward")
def hardswish_backward(c: Context, grad: Tensor, x: Tensor) -> Tensor:
    """grad · (x / 3 + 1/2) between −3 and 3, above that grad, below 0"""
    grad, x = alike(c, grad, x)
    inner = c.multiply(grad, c.add(c.divide(x, 3), 0.5))
    above = c.select(c.compare("GE", x, 3), grad, inner)
    return c.select(c.compare("LE", x, -3), 0, above, dtype=grad.dtype)


@lower("aten.mish")
def mish(c: Context, x: Tensor) -> Tensor:
    """x · tanh(softplus(x))"""
    (x,) = alike(c, x)
    return c.multiply(x, c.unary("tanh", c.unary("softplus", x)))


@lower("aten.mish_backward")
def mish_backward(c: Context, grad: Tensor, x: Tensor) -> Tensor:
    """grad · (t + x · s · (1 − t²)), t = tanh(softplus(x)), s = logistic(x)"""
    if grad.dtype != x.dtype:
        raise Unsupported("gradients of another type")
    grad, x = alike(c, grad, x)
    t, s = c.unary("tanh", c.unary("softplus", x)), c.unary("logistic", x)
    steep = c.multiply(c.multiply(x, s), c.subtract(1, c.multiply(t, t)))
    return c.multiply(grad, c.add(t, steep))


@lower("aten.hardshrink")
def hardshrink(c: Context, x: Tensor, lambd: Number = 0.5) -> Tensor:
    (x,) = alike(c, x)
    return c.select(_between(c, x, -lambd, lambd, ends=True), 0, x, dtype=x.dtype)


@lower("aten.hardshrink_backward", "aten.softshrink_backward")
def shrink_backward(c: Context, grad: Tensor, x: Tensor, lambd: Number) -> Tensor:
    """The gradient where x is beyond −lambd or lambd."""
    grad, x = alike(c, grad, x)
    beyond = c.binary("or", c.compare("LT", x, -lambd), c.compare("GT", x, lambd))
    return c.select(beyond, grad, 0, dtype=grad.dtype)


def _halves(c: Context, x: Tensor, dim: int) -> tuple[Tensor, Tensor, int]:
    d = axis(dim, len(x.shape))
    if not x.shape or x.shape[d] % 2:
        raise Unsupported(f"halves of {x.type}")
    half = x.shape[d] // 2
    return c.slice(x, d, 0, half), c.slice(x, d, half, 2 * half), d


@lower("aten.glu")
def glu(c: Context, x: Tensor, dim: int = -1) -> Tensor:
    """The first half times the logistic function of the second."""
    (x,) = alike(c, x)
    left, right, _ = _halves(c, x, dim)
    return c.multiply(left, c.unary("logistic", right))


@lower("aten.glu_backward")
def glu_backward(c: Context, grad: Tensor, x: Tensor, dim: int) -> Tensor:
    grad, x = alike(c, grad, x)
    left, right, d = _halves(c, x, dim)
    s = c.unary("logistic", right)
    through = c.multiply(grad, s)
    return cat(c, [through, c.multiply(c.multiply(through, left), c.subtract(1, s))], d)


@lower("aten.softshrink")
def softshrink(c: Context, x: Tensor, lambd: Number = 0.5) -> Tensor:
    (x,) = alike(c, x)
    kept = c.select(c.compare("GT", x, lambd), c.subtract(x, lambd), c.add(x, lambd))
    return c.select(_between(c, x, -lambd, lambd, ends=True), 0, kept, dtype=x.dtype)


@lower("aten.threshold")
def threshold(c: Context, x: Tensor, threshold: Number, value: Number) -> Tensor:
    (x,) = alike(c, x)
    return c.select(c.compare("LE", x, threshold), value, x, dtype=x.dtype)


@lower("aten.log_sigmoid_backward")
def log_sigmoid_backward(c: Context, grad: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    """grad · logistic(−x); with the forward's buffer b = exp(−|x|), b / (1 + b) or 1 / (1 + b)."""
    if buffer.shape == (0,) != x.shape:
        grad, x = alike(c, grad, x)
        return c.multiply(grad, c.unary("logistic", c.unary("negate", x)))
    grad, x, buffer = alike(c, grad, x, buffer)
    if not grad.shape == x.shape == buffer.shape:
        raise Unsupported("a buffer of another shape")
    share = c.divide(buffer, c.add(buffer, 1))
    return c.multiply(grad, c.select(c.compare("LT", x, 0), c.subtract(1, share), share))


@lower("aten.prelu")
def prelu(c: Context, x: Tensor, weight: Tensor) -> Tensor:
    """One weight, or one for each channel."""
    if prod(weight.shape) == 1:
        return prelu_kernel(c, x, c.spread(c.reshape(weight, ()), x.shape, []))
    if len(x.shape) < 2 or weight.shape != x.shape[1:2]:
        raise InputError(f"{prod(weight.shape)} weights for a tensor of shape {list(x.shape)}")
    return prelu_kernel(c, x, c.spread(weight, x.shape, [1]))


@lower("aten._prelu_kernel")
def prelu_kernel(c: Context, x: Tensor, weight: Tensor) -> Tensor:
    x, weight = alike(c, x, weight)
    return c.select(c.compare("GT", x, 0), x, c.multiply(weight, x))


@lower("aten._prelu_kernel_backward")
def prelu_backward(c: Context, grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and, not summed yet, of the weight."""
    grad, x, weight = alike(c, grad, x, weight)
    above = c.compare("GT", x, 0)
    return c.select(above, grad, c.multiply(weight, grad)), c.select(above, 0, c.multiply(x, grad), dtype=x.dtype)
