"""Scaled dot-product attention in its many spellings: all become `attention` and `attention-backward`.

Operands have the dims [batch…, heads, seq, head dim]; the mask, if any, is added to the scores and has their shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .core import Context, Unsupported, lower
from .views import Lazy, repeat_interleave


def _bias(c: Context, mask: Tensor | None, q: Tensor, k: Tensor) -> list[Tensor]:
    """The mask as numbers added to the scores: booleans say which stay."""
    if mask is None:
        return []
    shape = (*q.shape[:-1], k.shape[-2])
    if mask.dtype == "pred":
        mask = c.select(mask, 0.0, float("-inf"), dtype=q.dtype)
    return [c.broadcast(c.convert(mask, q.dtype), shape)]


def _repeated(c: Context, x: Tensor, q: Tensor) -> Tensor:
    """Keys or values with as many heads as there are queries: each is shared by neighbouring query heads."""
    if len(q.shape) < 4 or len(x.shape) != len(q.shape) or x.shape[-3] == q.shape[-3]:
        return x
    if not x.shape[-3] or q.shape[-3] % x.shape[-3]:
        raise InputError(f"{q.shape[-3]} query heads over {x.shape[-3]} key heads")
    return repeat_interleave(c, x, q.shape[-3] // x.shape[-3], len(x.shape) - 3)


def _added_up(c: Context, grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of keys or values: those of the query heads that share them."""
    if grad.shape == x.shape:
        return grad
    heads = x.shape[-3]
    shape = (*x.shape[:-3], heads, grad.shape[-3] // heads, *x.shape[-2:])
    return c.reduce(c.reshape(grad, shape), (len(x.shape) - 2,), "sum")


def _symbols(q: Tensor, scale: float | None) -> dict[str, list[str]]:
    return {"scale": [repr(float(scale) if scale is not None else 1 / sqrt(q.shape[-1]))]}


def forward(
    c: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """(out, logsumexp)"""
    if dropout_p:
        raise Unsupported("attention with dropout inside")
    if k.shape[:-2] != q.shape[:-2] or v.shape[:-2] != q.shape[:-2]:
        k, v, lead = _repeated(c, k, q), _repeated(c, v, q), q.shape[:-2]
        k, v = c.broadcast(k, (*lead, *k.shape[-2:])), c.broadcast(v, (*lead, *v.shape[-2:]))
    operands = [q, k, v, *_bias(c, mask, q, k)]
    types = ((q.dtype, (*q.shape[:-1], v.shape[-1])), ("f64" if q.dtype == "f64" else "f32", q.shape[:-1]))
    op = c.op("attention", operands, types, {"causal": [int(is_causal)]}, _symbols(q, scale))
    return op.results[0], op.results[1]


def backward(
    c: Context,
    grad: Tensor,
    saved: Sequence[Tensor],
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv); `saved` is q, k, v, out, logsumexp"""
    if dropout_p:
        raise Unsupported("attention with dropout inside")
    q, *shared = saved[:3]
    k, v = (_repeated(c, x, q) for x in shared)
    if any(x.shape[:-2] != q.shape[:-2] for x in (k, v)):
        raise Unsupported("attention backward whose keys are broadcast")
    operands = [grad, q, k, v, *saved[3:], *_bias(c, mask, q, k)]
    types = [(x.dtype, x.shape) for x in (q, k, v)]
    op = c.op("attention-backward", operands, types, {"causal": [int(is_causal)]}, _symbols(q, scale))
    dk, dv = (_added_up(c, g, x) for g, x in zip(op.results[1:3], shared, strict=True))
    return op.results[0], dk, dv


def _nothing() -> Tensor:
    raise Unsupported("the random state or debug output of an attention kernel")


@lower("aten.scaled_dot_product_attention")
def sdpa(
    c: Context, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    if enable_gqa:
        k, v = _repeated(c, k, q), _repeated(c, v, q)
    return forward(c, q, k, v, attn_mask, dropout_p, is_causal, scale)[0]


@lower("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_cpu(
    c: Context, q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return forward(c, q, k, v, attn_mask, dropout_p, is_causal, scale)


@lower("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def flash_cpu_backward(
    c: Context, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: float,
    is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    return backward(c, grad, (q, k, v, out, logsumexp), attn_mask, dropout_p, is_causal, scale)


@lower("aten._scaled_dot_product_flash_attention")
def flash(
    c: Context, q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> tuple[Tensor | Lazy | int | None, ...]:  # fmt: skip
    out, logsumexp = forward(c, q, k, v, None, dropout_p, is_causal, scale)
    return out, logsumexp, None, None, q.shape[-2], k.shape[-2], None, None, _nothing


@lower("aten._scaled_dot_product_flash_attention_backward")
def flash_backward(
    c: Context, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, _cum_q: object,
    _cum_k: object, _max_q: object, _max_k: object, dropout_p: float, is_causal: bool, _seed: object,
    _offset: object, *, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    return backward(c, grad, (q, k, v, out, logsumexp), None, dropout_p, is_causal, scale)


@lower("aten._scaled_dot_product_cudnn_attention")
def cudnn(
    c: Context, q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, *, scale: float | None = None,
) -> tuple[Tensor | Lazy | int | None, ...]:  # fmt: skip
    out, logsumexp = forward(c, q, k, v, attn_bias, dropout_p, is_causal, scale)
    return (
        out,
        lambda: c.reshape(logsumexp, (*logsumexp.shape, 1)),
        None,
        None,
        q.shape[-2],
        k.shape[-2],
        None,
        None,
        _nothing,
    )


@lower("aten._scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(
    c: Context, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, _seed: object,
    _offset: object, attn_bias: Tensor | None, _cum_q: object, _cum_k: object, _max_q: object, _max_k: object,
    dropout_p: float, is_causal: bool, *, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    saved = (q, k, v, out, c.reshape(logsumexp, q.shape[:-1]))
    return backward(c, grad, saved, attn_bias, dropout_p, is_causal, scale)


@lower("aten._scaled_dot_product_efficient_attention")
def efficient(
    c: Context, q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
) -> tuple[Tensor | Lazy | None, ...]:  # fmt: skip
    out, logsumexp = forward(c, q, k, v, attn_bias, dropout_p, is_causal, scale)
    return out, logsumexp, None, None


@lower("aten._scaled_dot_product_efficient_attention_backward")
def efficient_backward(
    c: Context, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor | None, out: Tensor, logsumexp: Tensor,
    _seed: object, _offset: object, dropout_p: float, grad_input_mask: Sequence[bool], is_causal: bool = False, *,
    scale: float | None = None,
) -> tuple[Tensor | Lazy, ...]:  # fmt: skip
    if grad_input_mask[3]:
        return (*backward(c, grad, (q, k, v, out, logsumexp), attn_bias, dropout_p, is_causal, scale), _bias_gradient)
    return (*backward(c, grad, (q, k, v, out, logsumexp), attn_bias, dropout_p, is_causal, scale), None)  # type: ignore[return-value]


def _bias_gradient() -> Tensor:
    raise Unsupported("the gradient of an attention bias")
