"""shard_map programs with their single-device functions: right ones, and wrong ones that differ in one place.

Every program is a function of whole arrays (`base`) and one of shards (`dist`) with in and out specs, over a mesh of 8
devices: dp=2, tp=4 (or one axis of 8). Right and wrong are measured by `test_shard_map_programs.py`, which runs both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

B, D, F, V = 8, 16, 32, 64
"""Batch (or sequence), model width, hidden width, vocabulary."""
DP, TP = 2, 4


@dataclass(frozen=True)
class Program:
    """One pair. `args` are (shape, dtype) or (shape, (lo, hi)) for integers below hi."""

    name: str
    right: bool
    base: Callable[..., Any]
    dist: Callable[..., Any]
    in_specs: Any
    out_specs: Any
    args: tuple[Any, ...]
    mesh: dict[str, int] = field(default_factory=lambda: {"dp": DP, "tp": TP})
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The single-device function and the one over the mesh, both of whole arrays, compiled when called."""
        mesh = jax.make_mesh(tuple(self.mesh.values()), tuple(self.mesh), axis_types=(AxisType.Auto,) * len(self.mesh))
        # replication of outputs is what is verified: JAX's own conservative check is off where no gradient needs it
        check = self.transform is gradient
        dist = jax.shard_map(self.dist, mesh=mesh, in_specs=self.in_specs, out_specs=self.out_specs, check_vma=check)
        return jax.jit(self.transform(self.base)), jax.jit(self.transform(dist))

    def abstract(self) -> list[jax.ShapeDtypeStruct]:
        """Arguments without data."""
        return [
            jax.ShapeDtypeStruct(shape, jnp.int32 if isinstance(kind, tuple) else kind) for shape, kind in self.args
        ]


PROGRAMS: list[Program] = []
X, W, W2 = ((B, D), jnp.float32), ((D, F), jnp.float32), ((F, D), jnp.float32)
IDS, TABLE = ((B,), (0, V)), ((V, D), jnp.float32)


def pair(
    name: str, base: Callable[..., Any], in_specs: Any, out_specs: Any, args: tuple[Any, ...], **mesh: int
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a right program; `wrong_…` ones are registered with `wrong`."""

    def register(dist: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(Program(name, True, base, dist, in_specs, out_specs, args, **({"mesh": mesh} if mesh else {})))
        return dist

    return register


def wrong(name: str, right: str, *, in_specs: Any = None, out_specs: Any = None) -> Callable[..., Any]:
    """Registers a wrong variant of a right program: same baseline, inputs and specs unless others are given."""

    def register(dist: Callable[..., Any]) -> Callable[..., Any]:
        model = next(program for program in PROGRAMS if program.name == right)
        PROGRAMS.append(
            Program(
                name,
                False,
                model.base,
                dist,
                model.in_specs if in_specs is None else in_specs,
                model.out_specs if out_specs is None else out_specs,
                model.args,
                model.mesh,
            )
        )
        return dist

    return register


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


# --- ppermute --------------------------------------------------------------------------------------------------------

RING = [(i, (i + 1) % TP) for i in range(TP)]


@pair("roll_by_a_block", lambda x: jnp.roll(x, B // TP, 0), (P("tp"),), P("tp"), (X,))
def roll_by_a_block(x):
    return lax.ppermute(x, "tp", RING)


@wrong("roll_the_other_way", "roll_by_a_block")
def roll_the_other_way(x):
    return lax.ppermute(x, "tp", [(j, i) for i, j in RING])


@pair("ring_reduction", lambda x: x.reshape(TP, B // TP, D).sum(0), (P("tp"),), P(), (X,))
def ring_reduction(x):
    total, moving = x, x
    for _ in range(TP - 1):
        moving = lax.ppermute(moving, "tp", RING)
        total = total + moving
    return total


@wrong("ring_with_a_rotation_missing", "ring_reduction")
def ring_with_a_rotation_missing(x):
    total, moving = x, x
    for _ in range(TP - 2):
        moving = lax.ppermute(moving, "tp", RING)
        total = total + moving
    return total


BACK = [(j, i) for i, j in RING]


@pair("shift_and_back", jnp.sin, (P("tp"),), P("tp"), (X,))
def shift_and_back(x):
    return jnp.sin(lax.ppermute(lax.ppermute(x, "tp", RING), "tp", BACK))


@pair("op_while_shifted", jnp.sin, (P("tp"),), P("tp"), (X,))
def op_while_shifted(x):
    return lax.ppermute(jnp.sin(lax.ppermute(x, "tp", RING)), "tp", BACK)


@wrong("shift_twice_one_way", "shift_and_back")
def shift_twice_one_way(x):
    return lax.ppermute(jnp.sin(lax.ppermute(x, "tp", RING)), "tp", RING)


@pair("roll_backwards_after_an_op", lambda x: jnp.roll(jnp.sin(x), -B // TP, 0) + x, (P("tp"),), P("tp"), (X,))
def roll_backwards_after_an_op(x):
    return lax.ppermute(jnp.sin(x), "tp", BACK) + x


def ring_sum(value, rounds: int = TP):
    total = moving = value
    for _ in range(rounds - 1):
        moving = lax.ppermute(moving, "tp", RING)
        total = total + moving
    return total


@pair("ring_sum_of_partials", lambda x, w: x @ w, (P(None, "tp"), P("tp")), P(), (X, W))
def ring_sum_of_partials(x, w):
    return ring_sum(x @ w)


@wrong("ring_sum_one_round_too_many", "ring_sum_of_partials")
def ring_sum_one_round_too_many(x, w):
    return ring_sum(x @ w, TP + 1)


@wrong("ring_sum_of_the_same_partial", "ring_sum_of_partials")
def ring_sum_of_the_same_partial(x, w):
    y = x @ w
    return y + lax.ppermute(y, "tp", RING) * (TP - 1)


def collective_multiply(x, w, direction: int = -1):
    rows, me = x.shape[1], lax.axis_index("tp")
    total = jnp.zeros((x.shape[0], w.shape[1]), x.dtype)
    for step in range(TP):
        owner = (me + direction * step) % TP
        total = total + x @ lax.dynamic_slice_in_dim(w, owner * rows, rows)
        x = lax.ppermute(x, "tp", RING)
    return total


pair("collective_multiply", lambda x, w: x @ w, (P(None, "tp"), P()), P(), (X, W))(collective_multiply)
wrong("collective_multiply_wrong_owner", "collective_multiply")(partial(collective_multiply, direction=1))


def ring_gather(x, direction: int = -1, rounds: int = TP):
    rows, me = x.shape[0], lax.axis_index("tp")
    out = jnp.zeros((rows * TP, x.shape[1]), x.dtype)
    for step in range(rounds):
        out = lax.dynamic_update_slice_in_dim(out, x, (me + direction * step) % TP * rows, 0)
        x = lax.ppermute(x, "tp", RING)
    return jnp.tanh(out)


pair("ring_gather", jnp.tanh, (P("tp"),), P(), (X,))(ring_gather)
wrong("ring_gather_wrong_owner", "ring_gather")(partial(ring_gather, direction=1))
wrong("ring_gather_too_few_rounds", "ring_gather")(partial(ring_gather, rounds=TP - 1))


@pair("ring_gather_multiply", lambda x, w: x @ w, (P("tp"), P(None, "tp")), P(None, "tp"), (X, W))
def ring_gather_multiply(x, w):
    n, rows, me = TP, x.shape[0], lax.axis_index("tp")
    out = jnp.zeros((rows * n, w.shape[1]), x.dtype)
    for step in range(n):
        owner = (me - step) % n
        out = lax.dynamic_update_slice_in_dim(out, x @ w, owner * rows, 0)
        if step < n - 1:
            x = lax.ppermute(x, "tp", RING)
    return out


@wrong("ring_gather_multiply_wrong_owner", "ring_gather_multiply")
def ring_gather_multiply_wrong_owner(x, w):
    n, rows, me = TP, x.shape[0], lax.axis_index("tp")
    out = jnp.zeros((rows * n, w.shape[1]), x.dtype)
    for step in range(n):
        owner = (me + step) % n
        out = lax.dynamic_update_slice_in_dim(out, x @ w, owner * rows, 0)
        if step < n - 1:
            x = lax.ppermute(x, "tp", RING)
    return out


def ring_attention_body(q, k, v, *, rotate_v: bool = True, rounds: int = TP, rescale: bool = True):
    top = jnp.full((H, q.shape[0], 1), -jnp.inf)
    norm = jnp.zeros((H, q.shape[0], 1))
    out = jnp.zeros((H, q.shape[0], HD))
    for step in range(rounds):
        scores = jnp.einsum("shd,thd->hst", q, k) * HD**-0.5
        higher = jnp.maximum(top, scores.max(-1, keepdims=True))
        weight = jnp.exp(scores - higher)
        shrink = jnp.exp(top - higher) if rescale else 1.0
        norm = norm * shrink + weight.sum(-1, keepdims=True)
        out = out * shrink + jnp.einsum("hst,thd->hsd", weight, v)
        top = higher
        if step < rounds - 1:
            k = lax.ppermute(k, "tp", RING)
            v = lax.ppermute(v, "tp", RING) if rotate_v else v
    return (out / norm).transpose(1, 0, 2)


pair("ring_attention", attention, (P("tp"),) * 3, P("tp"), QKV)(ring_attention_body)
wrong("ring_attention_v_not_rotated", "ring_attention")(partial(ring_attention_body, rotate_v=False))
wrong("ring_attention_too_few_rounds", "ring_attention")(partial(ring_attention_body, rounds=TP - 1))
wrong("ring_attention_not_rescaled", "ring_attention")(partial(ring_attention_body, rescale=False))


# --- axis_index ------------------------------------------------------------------------------------------------------


@pair("vocab_parallel_embedding", lambda ids, t: t[ids], (P("dp"), P("tp")), P("dp"), (IDS, TABLE))
def vocab_parallel_embedding(ids, table):
    rows = table.shape[0]
    local = ids - lax.axis_index("tp") * rows
    mine = (local >= 0) & (local < rows)
    found = table[jnp.where(mine, local, 0)]
    return lax.psum(jnp.where(mine[:, None], found, 0.0), "tp")


@wrong("embedding_without_mask", "vocab_parallel_embedding")
def embedding_without_mask(ids, table):
    rows = table.shape[0]
    local = ids - lax.axis_index("tp") * rows
    return lax.psum(table[jnp.clip(local, 0, rows - 1)], "tp")


@wrong("embedding_mask_off_by_one", "vocab_parallel_embedding")
def embedding_mask_off_by_one(ids, table):
    rows = table.shape[0]
    local = ids - lax.axis_index("tp") * rows
    mine = (local >= 0) & (local <= rows)
    found = table[jnp.clip(jnp.where(mine, local, 0), 0, rows - 1)]
    return lax.psum(jnp.where(mine[:, None], found, 0.0), "tp")


@pair("slice_at_own_offset", lambda x, w: x @ w, (P(), P()), P(None, "tp"), (X, W))
def slice_at_own_offset(x, w):
    block = F // TP
    return x @ lax.dynamic_slice_in_dim(w, lax.axis_index("tp") * block, block, 1)


@wrong("slice_at_the_mirrored_offset", "slice_at_own_offset")
def slice_at_the_mirrored_offset(x, w):
    block = F // TP
    return x @ lax.dynamic_slice_in_dim(w, (TP - 1 - lax.axis_index("tp")) * block, block, 1)


@wrong("slice_at_half_the_offset", "slice_at_own_offset")
def slice_at_half_the_offset(x, w):
    block = F // TP
    return x @ lax.dynamic_slice_in_dim(w, lax.axis_index("tp") * (block // 2), block, 1)


@wrong("slice_at_the_offset_of_dp", "slice_at_own_offset")
def slice_at_the_offset_of_dp(x, w):
    block = F // TP
    return x @ lax.dynamic_slice_in_dim(w, lax.axis_index("dp") * block, block, 1)


def causal(x):
    position = jnp.arange(S)
    scores = x @ x.T
    return jnp.where(position[:, None] >= position[None, :], scores, 0.0)


@pair("causal_mask_on_a_block", causal, (P("tp"),), P("tp"), (X,))
def causal_mask_on_a_block(x):
    rows = x.shape[0]
    keys = lax.all_gather(x, "tp", axis=0, tiled=True)
    position = lax.axis_index("tp") * rows + jnp.arange(rows)
    return jnp.where(position[:, None] >= jnp.arange(S)[None, :], x @ keys.T, 0.0)


@wrong("causal_mask_without_offset", "causal_mask_on_a_block")
def causal_mask_without_offset(x):
    keys = lax.all_gather(x, "tp", axis=0, tiled=True)
    return jnp.where(jnp.arange(x.shape[0])[:, None] >= jnp.arange(S)[None, :], x @ keys.T, 0.0)


E = 8
"""Experts."""


def experts(x, gate, w):
    weights = jax.nn.softmax(x @ gate, -1)
    return jnp.einsum("be,edf,bd->bf", weights, w, x)


MOE = (X, ((D, E), jnp.float32), ((E, D, F), jnp.float32))


@pair("expert_parallel", experts, (P("dp"), P(), P("tp")), P("dp"), MOE)
def expert_parallel(x, gate, w):
    weights = jax.nn.softmax(x @ gate, -1)
    mine = lax.dynamic_slice_in_dim(weights, lax.axis_index("tp") * (E // TP), E // TP, 1)
    return lax.psum(jnp.einsum("be,edf,bd->bf", mine, w, x), "tp")


@wrong("expert_parallel_first_gates", "expert_parallel")
def expert_parallel_first_gates(x, gate, w):
    weights = jax.nn.softmax(x @ gate, -1)
    return lax.psum(jnp.einsum("be,edf,bd->bf", weights[:, : E // TP], w, x), "tp")


@wrong("expert_parallel_gates_unused", "expert_parallel")
def expert_parallel_gates_unused(x, gate, w):
    return lax.psum(jnp.einsum("edf,bd->bf", w, x), "tp") / E


# --- several axes, whole blocks --------------------------------------------------------------------------------------


@pair("psum_over_two_axes", lambda x, w: x @ w, (P(None, ("dp", "tp")), P(("dp", "tp"))), P(), (X, W))
def psum_over_two_axes(x, w):
    return lax.psum(x @ w, ("dp", "tp"))


@wrong("psum_over_one_of_two_axes", "psum_over_two_axes")
def psum_over_one_of_two_axes(x, w):
    return lax.psum(x @ w, "tp")


@wrong("gather_with_axes_crossed", "gather_tiled_then_multiply", in_specs=(P(("dp", "tp")), P(None, "tp")))
def gather_with_axes_crossed(x, w):
    return lax.all_gather(x, ("tp", "dp"), axis=0, tiled=True) @ w


HEADS, KV = 8, 4


def gqa(x, wq, wk, wv, wo):
    q = jnp.einsum("sd,dhk->shk", x, wq)
    k, v = (jnp.repeat(jnp.einsum("sd,dhk->shk", x, w), HEADS // KV, axis=1) for w in (wk, wv))
    return jnp.einsum("shk,hkd->sd", attention(q, k, v), wo)


GQA_ARGS = (
    X,
    ((D, HEADS, HD), jnp.float32),
    ((D, KV, HD), jnp.float32),
    ((D, KV, HD), jnp.float32),
    ((HEADS, HD, D), jnp.float32),
)
GQA_SPECS = (P(), P(None, "tp"), P(None, "tp"), P(None, "tp"), P("tp"))


def gqa_body(x, wq, wk, wv, wo, *, reduce: bool = True):
    q = jnp.einsum("sd,dhk->shk", x, wq)
    k, v = (jnp.repeat(jnp.einsum("sd,dhk->shk", x, w), HEADS // KV, axis=1) for w in (wk, wv))
    out = jnp.einsum("shk,hkd->sd", attention(q, k, v), wo)
    return lax.psum(out, "tp") if reduce else out


pair("gqa_attention", gqa, GQA_SPECS, P(), GQA_ARGS)(gqa_body)
wrong("gqa_attention_without_psum", "gqa_attention")(partial(gqa_body, reduce=False))


@wrong("gqa_attention_keys_as_values", "gqa_attention")
def gqa_attention_keys_as_values(x, wq, wk, wv, wo):
    return gqa_body(x, wq, wk, wk, wo)


LAYERS = 3


def stack(x, w1, w2):
    def layer(carry, weights):
        return carry + mlp(carry, *weights), None

    return lax.scan(layer, x, (w1, w2))[0]


STACK_ARGS = (X, ((LAYERS, D, F), jnp.float32), ((LAYERS, F, D), jnp.float32))


@pair("scanned_layers", stack, (P("dp"), P(None, None, "tp"), P(None, "tp")), P("dp"), STACK_ARGS)
def scanned_layers(x, w1, w2):
    def layer(carry, weights):
        return carry + megatron_mlp(carry, *weights), None

    return lax.scan(layer, x, (w1, w2))[0]


@wrong("scanned_layers_without_psum", "scanned_layers")
def scanned_layers_without_psum(x, w1, w2):
    def layer(carry, weights):
        return carry + mlp(carry, *weights), None

    return lax.scan(layer, x, (w1, w2))[0]


# --- gradients through shard_map -------------------------------------------------------------------------------------


def gradient(function):
    """Value and gradients of the sum of squares."""

    def of(*args):
        return jax.value_and_grad(lambda *a: (function(*a) ** 2).sum(), tuple(range(len(args))))(*args)

    return of


def differentiated(name: str, of: str, **changes: Any) -> None:
    """Registers the gradient of a right program; both sides are differentiated by JAX."""
    model = next(program for program in PROGRAMS if program.name == of)
    PROGRAMS.append(replace(model, name=name, transform=gradient, **changes))


differentiated("megatron_mlp_gradient", "megatron_mlp")
differentiated("sequence_parallel_block_gradient", "sequence_parallel_block")
differentiated("gqa_attention_gradient", "gqa_attention")
differentiated("scanned_layers_gradient", "scanned_layers")
