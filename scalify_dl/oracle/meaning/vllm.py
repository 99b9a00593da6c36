"""Calls of vLLM: attention as on a first prefill of one sequence (an empty cache), one instance of what it may
compute."""

from __future__ import annotations

import math

import numpy as np

from .base import Array, Call, Unsupported, meaning


@meaning("custom:vllm.unified_attention")
def unified_attention(call: Call, xs: list[Array]) -> list[Array]:
    """Query [tokens, heads, d], key and value [tokens, kv heads, d]: causal attention, each kv head with its query
    heads."""
    q, k, v = xs[:3]
    group = q.shape[1] // max(k.shape[1], 1) if q.ndim == 3 else 0
    if q.ndim != 3 or q.shape[1] != group * k.shape[1]:
        raise Unsupported(f"attention of op {call.op.id} on shapes {q.shape}, {k.shape}")
    keys, values = (np.repeat(x, group, axis=1).transpose(1, 0, 2) for x in (k, v))
    scores = np.matmul(q.transpose(1, 0, 2), keys.transpose(0, 2, 1)) / math.sqrt(q.shape[2])
    scores = np.where(np.tril(np.ones(scores.shape[1:], dtype=bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return [np.matmul(weights, values).transpose(1, 0, 2).reshape(call.results[0].shape)]
