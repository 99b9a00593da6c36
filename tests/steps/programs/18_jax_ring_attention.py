"""Ring attention: tokens cut over ranks, keys and values go round by ppermute, online softmax, causal; SGD."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"sp": 4}
BUGS = {
    "wrong1": "the causal mask takes the block in hand to come from the ranks ahead, but the ring brings those behind",
    "wrong2": "the accumulated values are not rescaled when the running maximum changes",
}
BATCH, SEQ, DIM, HEADS = 2, 12, 18, 3


def arguments():
    rng = np.random.default_rng(18)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.5).astype("float32")

    params = {name: normal(DIM, DIM) for name in ("wq", "wk", "wv", "wo")}
    return params, normal(BATCH, SEQ, DIM), normal(BATCH, SEQ, DIM)


def whole_attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1), v)


def train_step(attention, p, x, y):
    def loss_fn(p):
        q, k, v = ((x @ p[name]).reshape(BATCH, SEQ, HEADS, DIM // HEADS) for name in ("wq", "wk", "wv"))
        out = x + attention(q, k, v).reshape(x.shape) @ p["wo"]
        return jnp.mean((out - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(p)
    return {"loss": loss, "params": jax.tree.map(lambda w, g: w - 0.3 * g, p, grads)}


def base(p, x, y):
    return train_step(whole_attention, p, x, y)


def sharded(mesh, ring):
    spec = P(None, "sp", None, None)
    attention = jax.shard_map(ring, mesh=mesh, in_specs=(spec, spec, spec), out_specs=spec, check_vma=False)
    return jax.jit(lambda p, x, y: train_step(attention, p, x, y))


def masked_scores(q, k, rank, source):
    length = q.shape[1]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    rows = rank * length + jnp.arange(length)
    columns = source * length + jnp.arange(length)
    return jnp.where(rows[:, None] >= columns[None, :], scores, -1e30)


def start(q):
    b, s, h, _ = q.shape
    return jnp.zeros_like(q), jnp.zeros((b, h, s), q.dtype), jnp.full((b, h, s), -1e30, q.dtype)


def over_heads(x):
    """(batch, heads, tokens) as (batch, tokens, heads, 1)."""
    return jnp.swapaxes(x, 1, 2)[..., None]


def right(mesh):
    def ring(q, k, v):
        rank, ranks = lax.axis_index("sp"), lax.axis_size("sp")
        forward = [(i, (i + 1) % ranks) for i in range(ranks)]

        def turn(carry, i):
            k, v, out, total, largest = carry
            scores = masked_scores(q, k, rank, (rank - i) % ranks)
            new = jnp.maximum(largest, lax.stop_gradient(scores.max(axis=-1)))
            weights = jnp.exp(scores - new[..., None])
            shrink = jnp.exp(largest - new)
            total = total * shrink + weights.sum(axis=-1)
            out = out * over_heads(shrink) + jnp.einsum("bhqk,bkhd->bqhd", weights, v)
            k, v = lax.ppermute((k, v), "sp", forward)
            return (k, v, out, total, new), None

        (_, _, out, total, _), _ = lax.scan(turn, (k, v, *start(q)), jnp.arange(ranks))
        return out / over_heads(total)

    return sharded(mesh, ring)


def wrong1(mesh):
    def ring(q, k, v):
        rank, ranks = lax.axis_index("sp"), lax.axis_size("sp")
        forward = [(i, (i + 1) % ranks) for i in range(ranks)]

        def turn(carry, i):
            k, v, out, total, largest = carry
            scores = masked_scores(q, k, rank, (rank + i) % ranks)  # BUG wrong1
            new = jnp.maximum(largest, lax.stop_gradient(scores.max(axis=-1)))
            weights = jnp.exp(scores - new[..., None])
            shrink = jnp.exp(largest - new)
            total = total * shrink + weights.sum(axis=-1)
            out = out * over_heads(shrink) + jnp.einsum("bhqk,bkhd->bqhd", weights, v)
            k, v = lax.ppermute((k, v), "sp", forward)
            return (k, v, out, total, new), None

        (_, _, out, total, _), _ = lax.scan(turn, (k, v, *start(q)), jnp.arange(ranks))
        return out / over_heads(total)

    return sharded(mesh, ring)


def wrong2(mesh):
    def ring(q, k, v):
        rank, ranks = lax.axis_index("sp"), lax.axis_size("sp")
        forward = [(i, (i + 1) % ranks) for i in range(ranks)]

        def turn(carry, i):
            k, v, out, total, largest = carry
            scores = masked_scores(q, k, rank, (rank - i) % ranks)
            new = jnp.maximum(largest, lax.stop_gradient(scores.max(axis=-1)))
            weights = jnp.exp(scores - new[..., None])
            shrink = jnp.exp(largest - new)
            total = total * shrink + weights.sum(axis=-1)
            out = out + jnp.einsum("bhqk,bkhd->bqhd", weights, v)  # BUG wrong2
            k, v = lax.ppermute((k, v), "sp", forward)
            return (k, v, out, total, new), None

        (_, _, out, total, _), _ = lax.scan(turn, (k, v, *start(q)), jnp.arange(ranks))
        return out / over_heads(total)

    return sharded(mesh, ring)
