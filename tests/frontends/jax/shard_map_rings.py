"""`shard_map` programs of rotations and of numbers of ranks: right ones, and wrong ones that differ in one place."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .shard_map_collectives import HD, QKV, H, S, attention
from .shard_map_pairs import IDS, TABLE, TP, B, D, F, W, X, pair, wrong

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
