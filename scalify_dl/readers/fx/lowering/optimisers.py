"""Fused optimiser steps, as the elementwise ops that they are: lists of parameters with their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalify_dl.ir.graph import Tensor

from .core import Context, Number, Unsupported, lower
from .elementwise import lerp

Tensors = Sequence[Tensor]
Steps = tuple[Any, ...]
"""One list of new values for each list of tensors that a step writes."""


def _alike(c: Context, x: Tensor, *others: Tensor) -> None:
    """What belongs to a parameter is of its type, and lies in memory as it does: kernels go by that."""
    if any((other.dtype, other.shape) != (x.dtype, x.shape) for other in others):
        raise Unsupported("state of another type than its parameter")
    if not all(each in c.dense for each in (x, *others)):
        c.graph.assume(x, f"`{x.name}`, its gradient and its state lie alike in memory", "a fused step goes by memory")


def _unscaled(c: Context, grads: Tensors, scale: Tensor | None) -> list[Tensor]:
    """The gradients without their scale, which are written back."""
    return [g if scale is None else c.divide(g, c.reshape(c.convert(scale, g.dtype), ())) for g in grads]


def _kept(c: Context, found_inf: Tensor | None, before: Sequence[Tensors], after: Sequence[Tensors]) -> Steps:
    """The new values, or where the scaler found an infinity the old ones."""
    if found_inf is None:
        return tuple(list(each) for each in after)
    stays = c.compare("EQ", c.reshape(found_inf, ()), 1)
    pairs = [list(zip(old, new, strict=True)) for old, new in zip(before, after, strict=True)]
    return tuple([c.select(stays, old, new, dtype=old.dtype) for old, new in each] for each in pairs)


def _rate(c: Context, lr: Tensor | Number, x: Tensor) -> Tensor | Number:
    return c.convert(lr, x.dtype) if isinstance(lr, Tensor) else lr


@lower("aten._fused_adam", "aten._fused_adamw")
def adam(
    c: Context, xs: Tensors, grads: Tensors, firsts: Tensors, seconds: Tensors, tops: Tensors, steps: Tensors, *,
    lr: Tensor | Number, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
) -> Steps:  # fmt: skip
    """x − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε), with the moments m and v of the gradient moved on."""
    plain = _unscaled(c, grads, grad_scale)
    new: tuple[list[Tensor], ...] = ([], plain, [], [], [] if amsgrad else list(tops))
    for n, (x, g, m, v, step) in enumerate(zip(xs, plain, firsts, seconds, steps, strict=True)):
        _alike(c, x, g, m, v, *tops[n : n + 1])
        rate = _rate(c, lr, x)
        g = c.unary("negate", g) if maximize else g
        if weight_decay and "adamw" in c.target:
            decay = c.multiply(rate, weight_decay) if isinstance(rate, Tensor) else rate * weight_decay
            x = c.subtract(x, c.multiply(x, decay))
        elif weight_decay:
            g = c.add(g, c.multiply(x, weight_decay))
        m = lerp(c, m, g, 1 - beta1)
        v = c.add(c.multiply(v, beta2), c.multiply(c.multiply(g, g), 1 - beta2))
        top = c.binary("maximum", tops[n], v) if amsgrad else v
        left1, left2 = (c.subtract(1, c.binary("power", beta, c.convert(step, x.dtype))) for beta in (beta1, beta2))
        below = c.add(c.divide(c.unary("sqrt", top), c.unary("sqrt", left2)), eps)
        x = c.subtract(x, c.multiply(c.divide(rate, left1), c.divide(m, below)))
        new[0].append(x)
        new[2].append(m)
        new[3].append(v)
        if amsgrad:
            new[4].append(top)
    return _kept(c, found_inf, (xs, grads, firsts, seconds, tops), new)


@lower("aten._fused_sgd")
def sgd(
    c: Context, xs: Tensors, grads: Tensors, buffers: Tensors, *, weight_decay: float, momentum: float,
    lr: Tensor | Number, dampening: float, nesterov: bool, maximize: bool, is_first_step: bool,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
) -> Steps:  # fmt: skip
    """x − lr · b, with b = momentum · b + (1 − dampening) · g; at the first step it is g."""
    if any(x.dtype in ("bf16", "f16") for x in xs):
        raise Unsupported("parameters of a narrow type, which the kernel on a CPU leaves as they are")
    plain = _unscaled(c, grads, grad_scale)
    new: tuple[list[Tensor], ...] = ([], plain, [] if momentum else list(buffers))
    for n, (x, g) in enumerate(zip(xs, plain, strict=True)):
        _alike(c, x, g, *buffers[n : n + 1])
        g = c.unary("negate", g) if maximize else g
        g = c.add(g, c.multiply(x, weight_decay)) if weight_decay else g
        if momentum:
            held = c.add(c.multiply(buffers[n], momentum), c.multiply(g, 1 - dampening))
            held = g if is_first_step else held
            g = c.add(g, c.multiply(held, momentum)) if nesterov else held
            new[2].append(held)
        rate = _rate(c, lr, x)
        new[0].append(
            c.subtract(x, c.multiply(g, rate)) if isinstance(rate, Tensor) else c.add(x, c.multiply(g, -rate))
        )
    return _kept(c, found_inf, (xs, grads, buffers), new)
