"""Losses element by element, with their backwards: of distances, of signs, of probabilities, of margins."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from scalify_dl.ir.graph import Tensor

from .core import Context, Number, Unsupported, exact, lower
from .elementwise import clamp
from .losses import reduced_loss
from .piecewise import alike

LEAST_DIVISOR = 9.999999960041972e-13
"""1e-12 as torch's kernels have it, in all types: rounded to f32."""


def _each(c: Context, grad: Tensor, x: Tensor, reduction: int) -> Tensor:
    """What the gradient of a loss gives to each element: a share of it where the loss is a mean."""
    count = prod(x.shape)
    return c.multiply(grad, Fraction(1, count)) if reduction == 1 and count else grad


def _half(c: Context, x: Tensor, over: Fraction = Fraction(1)) -> Tensor:
    """x² / 2, divided by a number."""
    return c.multiply(c.multiply(x, x), Fraction(1, 2) / over)


def _positive(value: float, name: str) -> Fraction:
    number = exact(value)
    if number is None or number <= 0:
        raise Unsupported(f"{name} {value}")
    return number


@lower("aten.smooth_l1_loss")
def smooth_l1_loss(c: Context, x: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    """|d| below beta: d² / (2 · beta), else |d| − beta / 2"""
    bound = _positive(beta, "beta")
    x, target = alike(c, x, target)
    distance = c.unary("abs", c.subtract(x, target))
    far = c.subtract(distance, c.scalar(bound / 2, x.dtype))
    near = _half(c, distance, bound)
    return reduced_loss(c, c.select(c.compare("LT", distance, beta), near, far), reduction)


@lower("aten.smooth_l1_loss_backward")
def smooth_l1_loss_backward(c: Context, grad: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """d / beta between −beta and beta, else the sign of d"""
    return _clipped(c, grad, x, target, reduction, beta, 1 / _positive(beta, "beta"))


@lower("aten.huber_loss")
def huber_loss(c: Context, x: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    """|d| up to delta: d² / 2, else delta · (|d| − delta / 2)"""
    bound, dtype = _positive(delta, "delta"), x.dtype
    x, target = alike(c, x, target)
    distance = c.unary("abs", c.subtract(x, target))
    far = c.multiply(c.subtract(distance, c.scalar(bound / 2, x.dtype)), bound)
    losses = c.select(c.compare("LE", distance, delta), _half(c, distance), far)
    return c.convert(reduced_loss(c, losses, reduction), dtype)


@lower("aten.huber_loss_backward")
def huber_loss_backward(c: Context, grad: Tensor, x: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """d between −delta and delta, else delta times its sign"""
    _positive(delta, "delta")
    return _clipped(c, grad, x, target, reduction, delta, Fraction(1))


def _clipped(
    c: Context, grad: Tensor, x: Tensor, target: Tensor, reduction: int, bound: float, factor: Fraction
) -> Tensor:
    dtype = x.dtype
    x, target, grad = alike(c, x, target, grad)
    distance = clamp(c, c.subtract(x, target), -bound, bound)
    return c.convert(c.multiply(c.multiply(distance, factor), _each(c, grad, x, reduction)), dtype)


@lower("aten.soft_margin_loss")
def soft_margin_loss(c: Context, x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """log(1 + exp(−target · x))"""
    dtype = x.dtype
    x, target = alike(c, x, target)
    losses = c.unary("softplus", c.unary("negate", c.multiply(target, x)))
    return c.convert(reduced_loss(c, losses, reduction), dtype)


@lower("aten.soft_margin_loss_backward")
def soft_margin_loss_backward(c: Context, grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    dtype = x.dtype
    x, target, grad = alike(c, x, target, grad)
    steep = c.unary("logistic", c.unary("negate", c.multiply(target, x)))
    return c.convert(c.multiply(c.unary("negate", c.multiply(target, steep)), _each(c, grad, x, reduction)), dtype)


@lower("aten.binary_cross_entropy")
def binary_cross_entropy(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """−target · log(x) − (1 − target) · log(1 − x), logarithms from −100 on, times the weight"""
    x, target = alike(c, x, target)
    yes = c.binary("maximum", c.unary("log", x), -100)
    no = c.binary("maximum", c.unary("log-plus-one", c.unary("negate", x)), -100)
    losses = c.subtract(c.multiply(c.subtract(target, 1), no), c.multiply(target, yes))
    return reduced_loss(c, _weighted(c, losses, weight), reduction)


def _weighted(c: Context, x: Tensor, weight: Tensor | None) -> Tensor:
    """x times a weight, in place."""
    return x if weight is None else c.convert(c.multiply(x, weight), x.dtype)


@lower("aten.binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    c: Context, grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """grad · (x − target) / (x · (1 − x)), the divisor at least LEAST_DIVISOR"""
    if target.shape != x.shape or grad.shape not in ((), x.shape):
        raise Unsupported("gradients of another shape")
    x, target, grad = alike(c, x, target, grad)
    divisor = c.binary("maximum", c.multiply(c.subtract(1, x), x), LEAST_DIVISOR)
    found = c.divide(c.multiply(_each(c, grad, x, reduction), c.subtract(x, target)), divisor)
    return _weighted(c, found, weight)


@lower("aten.xlogy")
def xlogy(c: Context, x: Tensor | Number, y: Tensor | Number) -> Tensor:
    """x · log(y), 0 where x is 0 unless y is no number"""
    if not isinstance(y, Tensor):
        raise Unsupported("the logarithm of a number")
    (other,) = alike(c, y)
    product = c.multiply(x, c.unary("log", other)) if isinstance(x, Tensor) else c.multiply(c.unary("log", other), x)
    zero = c.compare("EQ", x, 0) if isinstance(x, Tensor) else c.compare("EQ", c.splat(x, other.dtype, other.shape), 0)
    known = c.compare("EQ", other, other)
    return c.select(c.binary("and", zero, known), 0, product, dtype=product.dtype)


def _margins(
    c: Context, x: Tensor, target: Tensor, p: Number, margin: Number, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """(which class is the target's, margin − x[target] + x) of [batch, classes]."""
    if len(x.shape) != 2 or not target.shape or p not in (1, 2) or weight is not None or not prod(x.shape):
        raise Unsupported("margins of one row, weighted, or to another power than 1 or 2")
    hit = c.compare("EQ", c.spread(target, x.shape, [0]), c.iota(target.dtype, x.shape, 1))
    own = c.reduce(c.select(hit, x, 0, dtype=x.dtype), [1], "sum")
    return hit, c.add(c.subtract(x, c.spread(own, x.shape, [0])), c.scalar(margin, x.dtype))


@lower("aten.multi_margin_loss")
def multi_margin_loss(
    c: Context, x: Tensor, target: Tensor, p: Number = 1, margin: Number = 1, weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    """Σ max(0, margin − x[target] + x[other])^p / classes over the other classes"""
    (x,) = alike(c, x)
    hit, z = _margins(c, x, target, p, margin, weight)
    over = c.binary("and", c.unary("not", hit, floating=False), c.compare("GT", z, 0))
    losses = c.select(over, z if p == 1 else c.multiply(z, z), 0, dtype=x.dtype)
    return reduced_loss(c, c.divide(c.reduce(losses, [1], "sum"), x.shape[1]), reduction)


@lower("aten.multi_margin_loss_backward")
def multi_margin_loss_backward(
    c: Context, grad: Tensor, x: Tensor, target: Tensor, p: Number, margin: Number, weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    x, grad = alike(c, x, grad)
    hit, z = _margins(c, x, target, p, margin, weight)
    over = c.binary("and", c.unary("not", hit, floating=False), c.compare("GT", z, 0))
    steep = c.select(over, 1 if p == 1 else c.multiply(z, 2), 0, dtype=x.dtype)
    own = c.unary("negate", c.spread(c.reduce(steep, [1], "sum"), x.shape, [0]))
    rows = Fraction(1, x.shape[1] * (x.shape[0] if reduction == 1 else 1))
    grad = c.spread(grad, x.shape, [0]) if grad.shape and reduction == 0 else grad
    return c.multiply(c.select(hit, own, steep), c.multiply(grad, rows))
