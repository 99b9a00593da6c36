"""`shard_map` programs with one kind of collective each: right ones, and wrong ones that differ in one place."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .shard_map_pairs import DP, TP, W2, B, D, F, W, X, pair, wrong

# --- contractions and psum -------------------------------------------------------------------------------------------


@pair("row_parallel", lambda x, w: x @ w, (P(None, "tp"), P("tp")), P(), (X, W))
def row_parallel(x, w):
    return lax.psum(x @ w, "tp")


@wrong("row_parallel_without_psum", "row_parallel")
def row_parallel_without_psum(x, w):
    return x @ w


@wrong("row_parallel_psum_over_dp", "row_parallel")
def row_parallel_psum_over_dp(x, w):
    return lax.psum(x @ w, "dp")


@wrong("row_parallel_pmean", "row_parallel")
def row_parallel_pmean(x, w):
    return lax.pmean(x @ w, "tp")


@wrong("row_parallel_psum_over_both", "row_parallel")
def row_parallel_psum_over_both(x, w):
    return lax.psum(x @ w, ("dp", "tp"))


@pair("column_parallel", lambda x, w: jnp.tanh(x @ w), (P("dp"), P(None, "tp")), P("dp", "tp"), (X, W))
def column_parallel(x, w):
    return jnp.tanh(x @ w)


@wrong("column_parallel_specs_swapped", "column_parallel", in_specs=(P(None, "dp"), P("dp", "tp")))
def column_parallel_specs_swapped(x, w):
    half = lax.axis_index("dp") * (B // DP)
    return lax.dynamic_slice_in_dim(jnp.tanh(x @ w), half, B // DP)


def mlp(x, w1, w2):
    return jax.nn.gelu(x @ w1) @ w2


@pair("megatron_mlp", mlp, (P("dp"), P(None, "tp"), P("tp")), P("dp"), (X, W, W2))
def megatron_mlp(x, w1, w2):
    return lax.psum(jax.nn.gelu(x @ w1) @ w2, "tp")


@wrong("megatron_mlp_activation_of_partial", "megatron_mlp", in_specs=(P("dp", "tp"), P("tp"), P()))
def megatron_mlp_activation_of_partial(x, w1, w2):
    return lax.psum(jax.nn.gelu(x @ w1), "tp") @ w2


@pair(
    "bias_after_psum",
    lambda x, w, b: x @ w + b,
    (P("dp", "tp"), P("tp"), P()),
    P("dp"),
    (X, W, ((F,), jnp.float32)),
)
def bias_after_psum(x, w, b):
    return lax.psum(x @ w, "tp") + b


@wrong("bias_on_every_rank", "bias_after_psum")
def bias_on_every_rank(x, w, b):
    return lax.psum(x @ w + b, "tp")


@pair(
    "bias_on_one_rank", lambda x, w, b: x @ w + b, (P("dp", "tp"), P("tp"), P()), P("dp"), (X, W, ((F,), jnp.float32))
)
def bias_on_one_rank(x, w, b):
    first = lax.axis_index("tp") == 0
    return lax.psum(x @ w + jnp.where(first, b, 0.0), "tp")


@pair(
    "two_partials_one_psum",
    lambda x, w, v: x @ w + x @ v,
    (P(None, "tp"), P("tp"), P("tp")),
    P(),
    (X, W, W),
)
def two_partials_one_psum(x, w, v):
    return lax.psum(x @ w + x @ v, "tp")


@pair("scaled_residual", lambda x, w: x @ w @ w.T + x, (P(), P(None, "tp")), P(), (X, W))
def scaled_residual(x, w):
    return lax.psum(x @ w @ w.T + x / TP, "tp")


@wrong("unscaled_residual", "scaled_residual")
def unscaled_residual(x, w):
    return lax.psum(x @ w @ w.T + x, "tp")


# --- means -----------------------------------------------------------------------------------------------------------


@pair("mean_over_batch", lambda x, w: (x @ w).mean(0), (P("dp"), P()), P(), (X, W))
def mean_over_batch(x, w):
    return lax.pmean((x @ w).mean(0), "dp")


@wrong("sum_of_means", "mean_over_batch")
def sum_of_means(x, w):
    return lax.psum((x @ w).mean(0), "dp")


def loss(w, x):
    return ((x @ w) ** 2).mean()


@pair("data_parallel_gradient", lambda x, w: jax.grad(loss)(w, x), (P(("dp", "tp")), P()), P(), (X, W))
def data_parallel_gradient(x, w):
    return lax.pmean(jax.grad(loss)(w, x), ("dp", "tp"))


@wrong("gradient_summed_not_averaged", "data_parallel_gradient")
def gradient_summed_not_averaged(x, w):
    return lax.psum(jax.grad(loss)(w, x), ("dp", "tp"))


@wrong("gradient_averaged_over_tp_only", "data_parallel_gradient")
def gradient_averaged_over_tp_only(x, w):
    return lax.pmean(jax.grad(loss)(w, x), "tp")


def layer_norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale


NORM_ARGS = (X, ((D,), jnp.float32))


@pair("layer_norm_on_features", layer_norm, (P("dp", "tp"), P("tp")), P("dp", "tp"), NORM_ARGS)
def layer_norm_on_features(x, scale):
    mean = lax.psum(x.sum(-1, keepdims=True), "tp") / D
    var = lax.psum(((x - mean) ** 2).sum(-1, keepdims=True), "tp") / D
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale


@wrong("layer_norm_local_statistics", "layer_norm_on_features")
def layer_norm_local_statistics(x, scale):
    return layer_norm(x, scale)


@pair("sum_of_blocks", lambda x: x.reshape(TP, B // TP, D).sum(0), (P("tp"),), P(), (X,))
def sum_of_blocks(x):
    return lax.psum(x, "tp")


@wrong("mean_of_blocks", "sum_of_blocks")
def mean_of_blocks(x):
    return lax.pmean(x, "tp")


# --- pmax ------------------------------------------------------------------------------------------------------------


def log_softmax(x, w):
    return jax.nn.log_softmax(x @ w, -1)


@pair("vocab_parallel_log_softmax", log_softmax, (P("dp"), P(None, "tp")), P("dp", "tp"), (X, W))
def vocab_parallel_log_softmax(x, w):
    y = x @ w
    top = lax.pmax(y.max(-1, keepdims=True), "tp")
    shifted = y - top
    return shifted - jnp.log(lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), "tp"))


@wrong("log_softmax_local_maximum", "vocab_parallel_log_softmax")
def log_softmax_local_maximum(x, w):
    y = x @ w
    shifted = y - y.max(-1, keepdims=True)
    return shifted - jnp.log(lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), "tp"))


@wrong("log_softmax_local_sum", "vocab_parallel_log_softmax")
def log_softmax_local_sum(x, w):
    y = x @ w
    shifted = y - lax.pmax(y.max(-1, keepdims=True), "tp")
    return shifted - jnp.log(jnp.exp(shifted).sum(-1, keepdims=True))


@pair("pmax_of_blocks", lambda x: jnp.abs(x).max(0), (P(("dp", "tp")),), P(), (X,))
def pmax_of_blocks(x):
    return lax.pmax(jnp.abs(x).max(0), ("dp", "tp"))


@wrong("psum_of_block_maxima", "pmax_of_blocks")
def psum_of_block_maxima(x):
    return lax.psum(jnp.abs(x).max(0), ("dp", "tp"))


@pair("pmin_of_blocks", lambda x: x.min(1), (P(None, "tp"),), P(), (X,))
def pmin_of_blocks(x):
    return lax.pmin(x.min(1), "tp")


# --- all_gather ------------------------------------------------------------------------------------------------------


@pair("gather_tiled_then_multiply", lambda x, w: x @ w, (P("tp"), P(None, "tp")), P(None, "tp"), (X, W))
def gather_tiled_then_multiply(x, w):
    return lax.all_gather(x, "tp", axis=0, tiled=True) @ w


@wrong("gather_over_the_wrong_axis", "gather_tiled_then_multiply")
def gather_over_the_wrong_axis(x, w):
    return jnp.tile(lax.all_gather(x, "dp", axis=0, tiled=True), (TP // DP, 1)) @ w


@pair("gather_untiled", lambda x: x * 2.0, (P("tp"),), P(), (X,))
def gather_untiled(x):
    return lax.all_gather(x, "tp").reshape(B, D) * 2.0


@wrong("gather_untiled_interleaved", "gather_untiled")
def gather_untiled_interleaved(x):
    return lax.all_gather(x, "tp", axis=1).reshape(B, D) * 2.0


@pair("gather_features", lambda x, w: x @ w, (P(None, "tp"), P()), P(), (X, W))
def gather_features(x, w):
    return lax.all_gather(x, "tp", axis=1, tiled=True) @ w


@wrong("gather_features_in_reverse", "gather_features")
def gather_features_in_reverse(x, w):
    mine = lax.ppermute(x, "tp", [(i, TP - 1 - i) for i in range(TP)])
    return lax.all_gather(mine, "tp", axis=1, tiled=True) @ w


# --- psum_scatter ----------------------------------------------------------------------------------------------------


@pair("scatter_tiled", lambda x, w: x @ w, (P(None, "tp"), P("tp")), P("tp"), (X, W))
def scatter_tiled(x, w):
    return lax.psum_scatter(x @ w, "tp", scatter_dimension=0, tiled=True)


@wrong("scatter_of_a_replicated_value", "scatter_tiled", in_specs=(P(), P()))
def scatter_of_a_replicated_value(x, w):
    return lax.psum_scatter(x @ w, "tp", scatter_dimension=0, tiled=True)


@pair("scatter_untiled", lambda x, w: x @ w, (P(None, "tp"), P("tp")), P(None, "tp"), (X, W))
def scatter_untiled(x, w):
    y = (x @ w).reshape(B, TP, F // TP)
    return lax.psum_scatter(y, "tp", scatter_dimension=1, tiled=False)


@wrong("scatter_untiled_interleaved", "scatter_untiled")
def scatter_untiled_interleaved(x, w):
    y = (x @ w).reshape(B, F // TP, TP)
    return lax.psum_scatter(y, "tp", scatter_dimension=2, tiled=False)


def norm_mlp(x, scale, w1, w2):
    return x + mlp(layer_norm(x, scale), w1, w2)


@pair(
    "sequence_parallel_block",
    norm_mlp,
    (P("tp"), P(), P(None, "tp"), P("tp")),
    P("tp"),
    (X, ((D,), jnp.float32), W, W2),
)
def sequence_parallel_block(x, scale, w1, w2):
    whole = lax.all_gather(layer_norm(x, scale), "tp", axis=0, tiled=True)
    return x + lax.psum_scatter(jax.nn.gelu(whole @ w1) @ w2, "tp", scatter_dimension=0, tiled=True)


@wrong("sequence_parallel_without_reduction", "sequence_parallel_block")
def sequence_parallel_without_reduction(x, scale, w1, w2):
    whole = lax.all_gather(layer_norm(x, scale), "tp", axis=0, tiled=True)
    y = jax.nn.gelu(whole @ w1) @ w2
    return x + lax.dynamic_slice_in_dim(y, lax.axis_index("tp") * (B // TP), B // TP)


# --- all_to_all ------------------------------------------------------------------------------------------------------


@pair("all_to_all_resharding", lambda x: jnp.sin(x), (P("tp"),), P(None, "tp"), (X,))
def all_to_all_resharding(x):
    return lax.all_to_all(jnp.sin(x), "tp", split_axis=1, concat_axis=0, tiled=True)


@wrong("all_to_all_along_one_dim", "all_to_all_resharding", out_specs=P("tp"))
def all_to_all_along_one_dim(x):
    return lax.all_to_all(jnp.sin(x).reshape(TP, D // 2), "tp", split_axis=0, concat_axis=0, tiled=True).reshape(
        x.shape
    )


S, H, HD = 8, 4, 8
"""Sequence, heads, head width."""


def attention(q, k, v):
    scores = jnp.einsum("shd,thd->hst", q, k) * HD**-0.5
    return jnp.einsum("hst,thd->shd", jax.nn.softmax(scores, -1), v)


QKV = (((S, H, HD), jnp.float32),) * 3


@pair("sequence_to_head_attention", attention, (P("tp"),) * 3, P("tp"), QKV)
def sequence_to_head_attention(q, k, v):
    q, k, v = (lax.all_to_all(t, "tp", split_axis=1, concat_axis=0, tiled=True) for t in (q, k, v))
    return lax.all_to_all(attention(q, k, v), "tp", split_axis=0, concat_axis=1, tiled=True)


@wrong("attention_over_the_own_block", "sequence_to_head_attention")
def attention_over_the_own_block(q, k, v):
    return attention(q, k, v)
