"""Custom calls of Transformers-NeuronX dumps."""

from __future__ import annotations

import numpy as np

from .base import Array, Call, Unsupported, meaning


@meaning("custom:AwsNeuronTransferWithStaticRing")
def transfer(call: Call, xs: list[Array]) -> list[Array]:
    """Moves a value between memories: the identity."""
    return [xs[0]]


@meaning("custom:AwsNeuronRmsNorm")
def rms_norm(call: Call, xs: list[Array]) -> list[Array]:
    """x / sqrt(mean(x²) + epsilon) · weight along the dim that `config` names."""
    x, weight, epsilon = xs
    text = call.symbol("config", "0").strip('"')
    if not text.isdigit() or int(text) >= x.ndim:
        raise Unsupported(f"AwsNeuronRmsNorm of op {call.op.id} has the config `{text}`, not a dim")
    dim = int(text)
    shape = [1] * x.ndim
    shape[dim] = x.shape[dim]
    return [x / np.sqrt(np.mean(x * x, axis=dim, keepdims=True) + epsilon) * weight.reshape(shape)]
