"""Kernels outside of ATen whose meaning is known exactly (vLLM's `_C`), and those that stay opaque.

An opaque op becomes `custom:<namespace>.<name>`: its operands are the tensors it reads, its attributes the numbers and
words it is given; a file in `datalog/ops/custom/` says which dims it treats independently.
"""

from __future__ import annotations

from math import prod
from typing import Any

from scalify_dl.ir.graph import Tensor

from .activations import silu
from .core import Context, Unsupported, kernel, lower
from .dims import axis
from .indexing import take
from .normalise import rms_norm_of


@kernel("_C.rms_norm", "result input weight epsilon", written="result")
def vllm_rms_norm(c: Context, *, result: Tensor, input: Tensor, weight: Tensor, epsilon: float) -> tuple[Any, ...]:
    """Writes `result`."""
    return None, rms_norm_of(c, input, [len(input.shape) - 1], weight, epsilon)[0]


@kernel("_C.fused_add_rms_norm", "input residual weight epsilon", written="input residual")
def vllm_fused_add_rms_norm(
    c: Context, *, input: Tensor, residual: Tensor, weight: Tensor, epsilon: float
) -> tuple[Any, ...]:
    """Writes `input` (normalised sum) and `residual` (the sum)."""
    total = c.add(input, residual)
    return None, rms_norm_of(c, total, [len(input.shape) - 1], weight, epsilon)[0], total


@kernel("_C.silu_and_mul", "result input", written="out result")
def vllm_silu_and_mul(
    c: Context, *, input: Tensor, out: Tensor | None = None, result: Tensor | None = None
) -> tuple[Any, ...]:
    """Writes `out`: silu of the first half of the last dim times the second half."""
    last = len(input.shape) - 1
    half = input.shape[last] // 2
    gate, up = c.slice(input, last, 0, half), c.slice(input, last, half, 2 * half)
    return None, c.multiply(silu(c, gate), up)


@kernel("_C.rotary_embedding", "positions query key head_size cos_sin_cache is_neox", written="query key")
def vllm_rotary_embedding(
    c: Context, *, positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox: bool
) -> tuple[Any, ...]:
    """Writes `query` and `key`: every head rotated by the angles of its position.

    The cache holds [cos | sin] per position. Neox style rotates the two halves of a head into each other, the other
    style neighbouring elements.
    """
    angles = take(c, cos_sin_cache, 0, positions)
    last = len(angles.shape) - 1
    half = angles.shape[last] // 2
    if 2 * half != head_size:
        raise Unsupported("rotary embedding of a part of each head")
    cos, sin = c.slice(angles, last, 0, half), c.slice(angles, last, half, 2 * half)

    def rotated(x: Tensor) -> Tensor:
        heads = (*positions.shape, prod(x.shape[len(positions.shape) :]) // head_size)
        shape = (*heads, half)
        cosine, sine = (c.spread(angle, shape, [*range(last), last + 1]) for angle in (cos, sin))
        if is_neox:
            whole = c.reshape(x, (*heads, head_size))
            first, second = c.slice(whole, last + 1, 0, half), c.slice(whole, last + 1, half, head_size)
        else:
            pairs = c.reshape(x, (*shape, 2))
            first, second = (c.reshape(c.slice(pairs, last + 2, i, i + 1), shape) for i in (0, 1))
        turned = (
            c.subtract(c.multiply(first, cosine), c.multiply(second, sine)),
            c.add(c.multiply(second, cosine), c.multiply(first, sine)),
        )
        if is_neox:
            return c.reshape(c.concatenate(turned, last + 1), x.shape)
        return c.reshape(c.concatenate([c.reshape(part, (*shape, 1)) for part in turned], last + 2), x.shape)

    return None, rotated(query), rotated(key)


@kernel("vllm.unified_attention_with_output", "query key value output layer_name", written="output")
def vllm_attention(
    c: Context, *, query: Tensor, key: Tensor, value: Tensor, output: Tensor, layer_name: str,
    output_scale: Tensor | None = None, output_block_scale: Tensor | None = None,
    kv_cache_dummy_dep: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Writes `output`. Reads the cache and metadata of its layer, which the dump does not show."""
    if output_scale is not None or output_block_scale is not None:
        raise Unsupported("attention with a quantised output")
    return None, _opaque_attention(c, query, key, value, output, layer_name)


@lower("vllm.unified_attention")
def vllm_attention_result(c: Context, query: Tensor, key: Tensor, value: Tensor, layer_name: str) -> Tensor:
    return _opaque_attention(c, query, key, value, query, layer_name)


def _opaque_attention(c: Context, query: Tensor, key: Tensor, value: Tensor, like: Tensor, layer_name: str) -> Tensor:
    result = c.emit(
        "custom:vllm.unified_attention", (query, key, value), like.dtype, like.shape, None, {"layer_name": [layer_name]}
    )
    c.graph.assume(
        result,
        f"the attention cache and metadata of layer `{layer_name}` correspond on both sides",
        "unified_attention reads state that the dump does not show",
    )
    return result


@kernel("_C.gelu_and_mul", "result input", written="out result")
@kernel("_C.gelu_tanh_and_mul", "result input", written="out result")
def vllm_gelu_and_mul(
    c: Context, *, input: Tensor, out: Tensor | None = None, result: Tensor | None = None
) -> tuple[Any, ...]:
    """Writes `out`: gelu of the first half times the second half."""
    last = axis(-1, len(input.shape))
    half = input.shape[last] // 2
    gate = c.unary("gelu-tanh" if "tanh" in c.target else "gelu", c.slice(input, last, 0, half))
    return None, c.multiply(gate, c.slice(input, last, half, 2 * half))
