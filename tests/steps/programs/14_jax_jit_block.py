"""Transformer block under jit with named shardings, data × tensor mesh; RMS norm by shard_map; SGD."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

MESH = {"dp": 2, "tp": 2}
BUGS = {
    "wrong1": "the fused projection is read head by head (head, qkv), though its columns are (qkv, head)",
    "wrong2": "the norm divides by the mean square of the rank's own features",
}
BATCH, SEQ, DIM, HEADS, HIDDEN = 4, 6, 24, 4, 36
SPECS = {
    "norm1": P("tp"),
    "qkv": P(None, "tp"),
    "out": P("tp", None),
    "norm2": P("tp"),
    "up": P(None, "tp"),
    "down": P("tp", None),
}


def arguments():
    rng = np.random.default_rng(14)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.3).astype("float32")

    params = {
        "norm1": 1 + normal(DIM),
        "qkv": normal(DIM, 3 * DIM),
        "out": normal(DIM, DIM),
        "norm2": 1 + normal(DIM),
        "up": normal(DIM, HIDDEN),
        "down": normal(HIDDEN, DIM),
    }
    return params, normal(BATCH, SEQ, DIM), normal(BATCH, SEQ, DIM)


def rms_norm(x, g):
    return x * lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * g


def split_heads(qkv):
    b, s, _ = qkv.shape
    return jnp.moveaxis(qkv.reshape(b, s, 3, HEADS, DIM // HEADS), 2, 0)


def block(p, x, norm, split):
    q, k, v = split(norm(x, p["norm1"]) @ p["qkv"])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (DIM // HEADS) ** 0.5
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
    x = x + y @ p["out"]
    return x + jax.nn.silu(norm(x, p["norm2"]) @ p["up"]) @ p["down"]


def train_step(p, x, y, norm=rms_norm, split=split_heads):
    def loss_fn(p):
        return jnp.mean((block(p, x, norm, split) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(p)
    return {"loss": loss, "params": jax.tree.map(lambda w, g: w - 0.5 * g, p, grads)}


def base(p, x, y):
    return train_step(p, x, y)


def jitted(mesh, local_norm, split):
    named = partial(NamedSharding, mesh)
    x_spec = P("dp", None, "tp")
    norm = jax.shard_map(local_norm, mesh=mesh, in_specs=(x_spec, P("tp")), out_specs=x_spec)
    params = {name: named(spec) for name, spec in SPECS.items()}
    return jax.jit(
        partial(train_step, norm=norm, split=split),
        in_shardings=(params, named(x_spec), named(x_spec)),
        out_shardings={"loss": named(P()), "params": params},
    )


def sharded_norm(x, g):
    square = lax.pmean(jnp.mean(x**2, axis=-1, keepdims=True), "tp")
    return x * lax.rsqrt(square + 1e-6) * g


def right(mesh):
    return jitted(mesh, sharded_norm, split_heads)


def wrong1(mesh):
    def split(qkv):
        b, s, _ = qkv.shape
        return jnp.moveaxis(qkv.reshape(b, s, HEADS, 3, DIM // HEADS), 3, 0)  # BUG wrong1

    return jitted(mesh, sharded_norm, split)


def wrong2(mesh):
    def local_norm(x, g):
        square = jnp.mean(x**2, axis=-1, keepdims=True)  # BUG wrong2
        return x * lax.rsqrt(square + 1e-6) * g

    return jitted(mesh, local_norm, split_heads)
