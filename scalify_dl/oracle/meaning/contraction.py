"""Contractions: dot, convolution, attention."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from ..literals import scalar
from .base import Array, Call, Unsupported, accumulated, meaning
from .structural import padded


def dot_general(
    x: Array, y: Array, batch: tuple[list[int], list[int]], contracted: tuple[list[int], list[int]]
) -> Array:
    """Result dims: batch, free dims of x, free dims of y."""
    x_free = [d for d in range(x.ndim) if d not in batch[0] and d not in contracted[0]]
    y_free = [d for d in range(y.ndim) if d not in batch[1] and d not in contracted[1]]
    batches = [x.shape[d] for d in batch[0]]
    rows, inner = [x.shape[d] for d in x_free], math.prod(x.shape[d] for d in contracted[0])
    columns = [y.shape[d] for d in y_free]
    left = x.transpose([*batch[0], *x_free, *contracted[0]]).reshape([*batches, math.prod(rows), inner])
    right = y.transpose([*batch[1], *contracted[1], *y_free]).reshape([*batches, inner, math.prod(columns)])
    if left.dtype.kind == "b":
        any_product = np.matmul(left.astype(np.int64), right.astype(np.int64)) > 0
        return np.asarray(any_product).reshape([*batches, *rows, *columns])
    return np.asarray(np.matmul(left, right)).reshape([*batches, *rows, *columns])


@meaning("dot")
def dot(call: Call, xs: list[Array]) -> list[Array]:
    """General contraction; the result has the result's element type."""
    batch = call.numbers("lhs_batch_dims", []), call.numbers("rhs_batch_dims", [])
    contracted = call.numbers("lhs_contracting_dims", []), call.numbers("rhs_contracting_dims", [])
    x, y = (accumulated(v, call.results[0].dtype) for v in xs)
    return [dot_general(x, y, batch, contracted)]


@meaning("convolution")
def convolution(call: Call, xs: list[Array]) -> list[Array]:
    """Cross-correlation with padding, strides, both dilations, feature and batch groups."""
    order = (
        ["input_batch", "input_feature"],
        ["kernel_output_feature", "kernel_input_feature"],
        ["output_batch", "output_feature"],
    )
    spatial = [call.numbers(key, []) for key in ("input_spatial", "kernel_spatial", "output_spatial")]
    n = len(spatial[0])
    x, w = (accumulated(v, call.results[0].dtype) for v in xs)
    x = x.transpose([call.number(key) for key in order[0]] + spatial[0])
    w = w.transpose([call.number(key) for key in order[1]] + spatial[1])
    stride, dilation = call.numbers("window_stride", [1] * n), call.numbers("window_dilation", [1] * n)
    low, high = call.numbers("window_pad_low", [0] * n), call.numbers("window_pad_high", [0] * n)
    spread = [d - 1 for d in call.numbers("base_dilation", [1] * n)]
    for dim, turned in enumerate(call.numbers("window_reversal", [0] * n)):
        if turned:
            w = np.flip(w, dim + 2)
    x = padded(x, np.array(0, dtype=x.dtype), [0, 0, *low], [0, 0, *high], [0, 0, *spread])
    features, batches = call.number("feature_group_count", 1), call.number("batch_group_count", 1)
    size = [max((x.shape[2 + d] - (w.shape[2 + d] - 1) * dilation[d] - 1) // stride[d] + 1, 0) for d in range(n)]
    groups = features * batches
    rows = np.split(x, batches, axis=0) if batches > 1 else np.split(x, features, axis=1)
    kernels = np.split(w, groups, axis=0)
    parts = []
    for part, kernel in zip(rows, kernels, strict=True):
        total = np.zeros([part.shape[0], kernel.shape[0], *size], dtype=np.result_type(part, kernel))
        for at in product(*(range(k) for k in kernel.shape[2:])) if 0 not in size else ():
            window: tuple[slice, ...] = tuple(
                slice(a * dil, a * dil + (s - 1) * st + 1, st)
                for a, dil, s, st in zip(at, dilation, size, stride, strict=True)
            )
            every: tuple[slice | int, ...] = (slice(None), slice(None))
            seen = part[every + window]
            total += np.moveaxis(np.tensordot(seen, kernel[every + at], axes=([1], [1])), -1, 1)
        parts.append(total)
    result = np.concatenate(parts, axis=1)
    placed = [call.number(key) for key in order[2]] + spatial[2]
    return [np.moveaxis(result, range(result.ndim), placed)]


def _scores(call: Call, q: Array, k: Array, mask: Array | None) -> tuple[Array, float]:
    if q.shape[:-2] != k.shape[:-2]:
        raise Unsupported(f"attention of op {call.op.id}: query and key heads differ ({q.shape} and {k.shape})")
    text = call.symbol("scale", "")
    scale = float(scalar(text).real) if text else 1 / math.sqrt(q.shape[-1])
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype.kind == "b" else scores + mask
    if call.number("causal", 0):
        rows, columns = np.indices(scores.shape[-2:])
        scores = np.where(columns <= rows, scores, -np.inf)
    return scores, scale


def _log_sum_exp(scores: Array) -> Array:
    top = np.max(scores, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.sum(np.exp(scores - top), axis=-1)) + top[..., 0])


@meaning("attention")
def attention(call: Call, xs: list[Array]) -> list[Array]:
    """softmax(scale · q kᵀ + mask) v, and the log of the sum of exponentials."""
    q, k, v, *mask = xs
    scores, _ = _scores(call, q, k, mask[0] if mask else None)
    total = _log_sum_exp(scores)
    out = np.matmul(np.exp(scores - np.where(np.isfinite(total), total, 0)[..., None]), v)
    return [out, total][: len(call.results)]


@meaning("attention-backward")
def attention_backward(call: Call, xs: list[Array]) -> list[Array]:
    """Gradients of q, k and v from the saved output and log-sum-exp."""
    grad, q, k, v, out, total, *mask = xs
    scores, scale = _scores(call, q, k, mask[0] if mask else None)
    weights = np.exp(scores - np.where(np.isfinite(total), total, 0)[..., None])
    delta = weights * (np.matmul(grad, np.swapaxes(v, -1, -2)) - np.sum(grad * out, axis=-1, keepdims=True))
    return [
        np.matmul(delta, k) * scale,
        np.matmul(np.swapaxes(delta, -1, -2), q) * scale,
        np.matmul(np.swapaxes(weights, -1, -2), grad),
    ][: len(call.results)]
