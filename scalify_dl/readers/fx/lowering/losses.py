"""Losses, with their backwards, as primitives."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from scalify_dl.ir.graph import Tensor

from ..dtypes import is_floating
from .core import Context, Number, Unsupported, exact, lower
from .indexing import along, take
from .normalise import log_softmax
from .reductions import mean_of
from .views import Lazy


def _class_dim(x: Tensor) -> int:
    """The dim of the classes: [classes], [batch, classes] or [batch, classes, places…]."""
    return min(len(x.shape) - 1, 1)


def _around(x: Tensor) -> list[int]:
    """The other dims: those of the targets."""
    return [d for d in range(len(x.shape)) if d != _class_dim(x)]


def _counted(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(whether a target counts, the target or a class where it does not, how much it counts)."""
    valid = c.compare("NE", target, ignore_index)
    safe = c.select(valid, target, 0, dtype=target.dtype)
    if weight is None:
        return valid, safe, c.convert(valid, x.dtype)
    return valid, safe, c.select(valid, take(c, weight, 0, safe), 0, dtype=x.dtype)


def _reduced(c: Context, losses: Tensor, counted: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """(loss, total weight); reduction 0 none, 1 mean, 2 sum."""
    total = c.reduce(counted, range(len(counted.shape)), "sum")
    if reduction == 0:
        return losses, total
    summed = c.reduce(losses, range(len(losses.shape)), "sum")
    return (c.divide(summed, total) if reduction == 1 else summed), total


@lower("aten.nll_loss_forward", "aten.nll_loss2d_forward")
def nll_loss_forward(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor | Lazy]:
    """−x[target] · weight[target] where the target is not ignored, averaged over those by their weight."""
    valid, safe, counted = _counted(c, x, target, weight, ignore_index)
    rows = c.transpose(x, [*_around(x), _class_dim(x)])
    losses = c.unary("negate", along(c, rows, len(x.shape) - 1, safe))
    losses = losses if weight is None else c.multiply(losses, take(c, weight, 0, safe))
    loss, total = _reduced(c, c.select(valid, losses, 0, dtype=x.dtype), counted, reduction)
    return loss, total if reduction else _no_total


def _no_total() -> Tensor:
    raise Unsupported("the total weight of losses that are not reduced")


@lower("aten.nll_loss", "aten.nll_loss_nd")
def nll_loss(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    return nll_loss_forward(c, x, target, weight, reduction, ignore_index)[0]


@lower("aten.nll_loss_backward", "aten.nll_loss2d_backward")
def nll_loss_backward(
    c: Context, grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int,
    total_weight: Tensor,
) -> Tensor:  # fmt: skip
    """−grad · weight / total at each target that is not ignored, zero elsewhere."""
    amount = c.unary("negate", c.divide(grad, total_weight) if reduction == 1 else grad)
    valid = c.compare("NE", target, ignore_index)
    hit = c.compare("EQ", c.spread(target, x.shape, _around(x)), c.iota(target.dtype, x.shape, _class_dim(x)))
    picked = c.binary("and", hit, c.spread(valid, x.shape, _around(x)))
    each = c.spread(amount, x.shape, _around(x)) if amount.shape else c.broadcast(amount, x.shape)
    each = each if weight is None else c.multiply(each, c.spread(weight, x.shape, [_class_dim(x)]))
    return c.select(picked, each, 0, dtype=x.dtype)


@lower("aten.cross_entropy_loss")
def cross_entropy_loss(
    c: Context, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Of classes or of their probabilities; with smoothing, each class has some of the probability.

    What is below zero smooths nothing; torch refuses more than all of it.
    """
    logs = log_softmax(c, x, _class_dim(x))
    smoothing = exact(max(label_smoothing, 0.0))
    if smoothing is None or smoothing > 1:
        raise Unsupported(f"label smoothing by {label_smoothing}")
    share = smoothing / max(x.shape[_class_dim(x)], 1)
    if is_floating(target.dtype):
        if smoothing:
            target = c.add(c.multiply(target, 1 - smoothing), float(share))
        losses = _of_classes(c, c.multiply(logs, target), weight)
        return reduced_loss(c, losses, reduction)
    loss = nll_loss(c, logs, target, weight, reduction, ignore_index)
    if not smoothing:
        return loss
    valid, _, counted = _counted(c, x, target, weight, ignore_index)
    every = c.select(valid, _of_classes(c, logs, weight), 0, dtype=x.dtype)
    smooth, _ = _reduced(c, every, counted, reduction)
    return c.add(c.multiply(loss, 1 - smoothing), c.multiply(smooth, share))


def _of_classes(c: Context, terms: Tensor, weight: Tensor | None) -> Tensor:
    """−Σ terms · weight over the classes."""
    d = _class_dim(terms)
    terms = terms if weight is None else c.multiply(terms, c.spread(weight, terms.shape, [d]))
    return c.unary("negate", c.reduce(terms, [d], "sum"))


def reduced_loss(c: Context, losses: Tensor, reduction: int) -> Tensor:
    """Losses as they are (reduction 0), their mean (1) or their sum (2)."""
    dims = range(len(losses.shape))
    return losses if reduction == 0 else mean_of(c, losses, dims) if reduction == 1 else c.reduce(losses, dims, "sum")


@lower("aten.mse_loss", "aten.l1_loss")
def mse_loss(c: Context, x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    distance = c.subtract(x, target)
    return reduced_loss(c, c.unary("abs", distance) if "l1" in c.target else c.multiply(distance, distance), reduction)


@lower("aten.mse_loss_backward")
def mse_loss_backward(c: Context, grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    count = prod(x.shape)
    factor: Number = Fraction(2, count) if reduction == 1 and count else 2
    return c.convert(c.multiply(c.multiply(c.subtract(x, target), grad), factor), x.dtype)


@lower("aten.binary_cross_entropy_with_logits")
def bce_with_logits(
    c: Context,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """(1 − target) · x + (1 + (pos_weight − 1) · target) · softplus(−x), all that times weight"""
    soft = c.unary("softplus", c.unary("negate", x))
    if pos_weight is not None:
        soft = c.multiply(soft, c.add(c.multiply(c.subtract(pos_weight, 1), target), 1))
    losses = c.add(c.multiply(c.subtract(1, target), x), soft)
    return reduced_loss(c, losses if weight is None else c.multiply(losses, weight), reduction)
