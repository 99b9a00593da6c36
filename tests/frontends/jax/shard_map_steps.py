"""`shard_map` programs of training and serving steps: right ones, and wrong ones that differ in one place."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .shard_map_pairs import PROGRAMS, Program

# --- a pipeline, and the squares of its gradient ----------------------------------------------------------------------

STAGES, BATCHES = 4, 4
STACK, MICRO = ((STAGES, 8, 8), jnp.float32), ((BATCHES, 2, 8), jnp.float32)


def stage(w, x):
    return x + jnp.tanh(x @ w)


def stages(w, x, y):
    for i in range(STAGES):
        x = stage(w[i], x)
    return jnp.mean((x - y) ** 2)


def moments(loss):
    """What Adam keeps of the gradient of its first argument."""

    def of(w, x, y):
        value, g = jax.value_and_grad(loss)(w, x, y)
        return value, 0.1 * g, 0.1 * (g * g)

    return of


def pipelined(w, x, y, masked=True):
    rank = lax.axis_index("pp")

    def turn(received, t):
        out = stage(w[0], jnp.where(rank == 0, x[jnp.clip(t, 0, BATCHES - 1)], received))
        return lax.ppermute(out, "pp", [(i, (i + 1) % STAGES) for i in range(STAGES)]), out

    _, outs = lax.scan(turn, jnp.zeros_like(x[0]), jnp.arange(BATCHES + STAGES - 1))
    loss = jnp.mean((outs[STAGES - 1 :] - y) ** 2)
    return lax.psum(jnp.where(rank == STAGES - 1, loss, 0.0) if masked else loss / STAGES, "pp")


PROGRAMS += [
    Program(name, right, stages, dist, (P("pp"), P(), P()), P(), (STACK, MICRO, MICRO), {"pp": STAGES}, moments)
    for name, right, dist in (
        ("moments_of_a_pipeline", True, pipelined),
        ("loss_of_every_stage", False, partial(pipelined, masked=False)),
    )
]

# --- decoding with a cache that is cut over the sequence --------------------------------------------------------------

LENGTH, HEADS, WIDTH = 16, 4, 4
CACHE, NEW, PLACE = ((2, LENGTH, HEADS, WIDTH), jnp.float32), ((2, HEADS, WIDTH), jnp.float32), ((), (0, LENGTH))


def decoded(q, k, v, keys, values, pos):
    keys = lax.dynamic_update_slice(keys, k[:, None], (0, pos, 0, 0))
    values = lax.dynamic_update_slice(values, v[:, None], (0, pos, 0, 0))
    scores = jnp.einsum("bhk,bshk->bhs", q, keys) / WIDTH**0.5
    weights = jax.nn.softmax(jnp.where(jnp.arange(LENGTH) <= pos, scores, -1e30), -1)
    return jnp.einsum("bhs,bshk->bhk", weights, values), keys, values


def decoded_in_parts(q, k, v, keys, values, pos, masked=True, rescaled=True):
    size = keys.shape[1]
    first = lax.axis_index("sp") * size
    mine = (pos >= first) & (pos < first + size)
    at = jnp.clip(pos - first, 0, size - 1)

    def written(cache, new):
        there = lax.dynamic_update_slice(cache, new[:, None], (0, at, 0, 0))
        return jnp.where(mine, there, cache) if masked else there

    keys, values = written(keys, k), written(values, v)
    scores = jnp.einsum("bhk,bshk->bhs", q, keys) / WIDTH**0.5
    scores = jnp.where(first + jnp.arange(size) <= pos, scores, -1e30)
    most = scores.max(-1)
    e = jnp.exp(scores - (lax.pmax(most, "sp") if rescaled else most)[..., None])
    total = lax.psum(e.sum(-1), "sp")
    return lax.psum(jnp.einsum("bhs,bshk->bhk", e, values), "sp") / total[..., None], keys, values


PARTS = P(None, "sp", "tp")
OF_HEADS = P(None, "tp")
PROGRAMS += [
    Program(
        name, right, decoded, dist, (OF_HEADS, OF_HEADS, OF_HEADS, PARTS, PARTS, P()), (OF_HEADS, PARTS, PARTS),
        (NEW, NEW, NEW, CACHE, CACHE, PLACE), {"sp": 4, "tp": 2},
    )
    for name, right, dist in (
        ("cache_cut_over_the_sequence", True, decoded_in_parts),
        ("cache_that_every_rank_writes", False, partial(decoded_in_parts, masked=False)),
        ("decoding_by_maxima_of_parts", False, partial(decoded_in_parts, rescaled=False)),
    )
]  # fmt: skip

# --- a loss over a cut vocabulary, some of whose labels are ignored, and its gradient by hand -------------------------

WORDS, ROWS, FEATURES = 32, 8, 4
HIDDEN, HEAD, LABELS = ((ROWS, FEATURES), jnp.float32), ((WORDS, FEATURES), jnp.float32), ((ROWS,), (-5, WORDS))


def loss_of_labels(h, w, labels):
    kept = labels >= 0
    logs = jax.nn.log_softmax(h @ w.T, -1)
    picked = jnp.take_along_axis(logs, jnp.where(kept, labels, 0)[:, None], -1)[:, 0]
    return -jnp.sum(jnp.where(kept, picked, 0.0)) / jnp.maximum(kept.sum(), 1)


def labels_in_blocks(h, w, labels, masked=True):
    logits = h @ w.T
    size, kept = logits.shape[-1], labels >= 0
    first = lax.axis_index("tp") * size
    top = lax.pmax(logits.max(-1), "tp")
    e = jnp.exp(logits - top[:, None])
    total = lax.psum(e.sum(-1), "tp")
    mine = (labels >= first) & (labels < first + size)
    at = jnp.clip(labels - first, 0, size - 1)
    picked = jnp.where(mine, jnp.take_along_axis(logits, at[:, None], -1)[:, 0], 0.0)
    losses = jnp.where(kept, jnp.log(total) + top - lax.psum(picked, "tp"), 0.0)
    count = jnp.maximum(lax.psum(kept.sum(), "dp"), 1)
    hot = jax.nn.one_hot(at, size)
    slope = (e / total[:, None] - (hot * mine[:, None] if masked else hot)) * jnp.where(kept, 1 / count, 0.0)[:, None]
    return lax.psum(losses.sum() / count, "dp"), (lax.psum(slope @ w, "tp"), lax.psum(slope.T @ h, "dp"))


PROGRAMS += [
    Program(
        name, right, jax.value_and_grad(loss_of_labels, (0, 1)), dist, (P("dp"), P("tp"), P("dp")),
        (P(), (P("dp"), P("tp"))), (HIDDEN, HEAD, LABELS),
    )
    for name, right, dist in (
        ("ignored_labels_of_a_cut_vocabulary", True, labels_in_blocks),
        ("labels_of_other_blocks_at_their_ends", False, partial(labels_in_blocks, masked=False)),
    )
]  # fmt: skip
