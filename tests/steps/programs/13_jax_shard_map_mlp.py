"""Megatron MLP by shard_map on a data × tensor mesh, residual and biases, gradients of the whole, SGD."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"dp": 2, "tp": 2}
BUGS = {
    "wrong1": "the output bias is added on every rank before the psum, so it counts tp times",
    "wrong2": "the partial products are averaged (pmean) where they have to be summed",
}
BATCH, DIM, HIDDEN = 8, 12, 20
SPECS = {"w1": P(None, "tp"), "b1": P("tp"), "w2": P("tp", None), "b2": P()}


def arguments():
    rng = np.random.default_rng(13)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.4).astype("float32")

    params = {"w1": normal(DIM, HIDDEN), "b1": normal(HIDDEN), "w2": normal(HIDDEN, DIM), "b2": normal(DIM)}
    return params, normal(BATCH, DIM), normal(BATCH, DIM)


def mlp(p, x):
    return x + jax.nn.gelu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def train_step(mlp, p, x, y):
    def loss_fn(p):
        return jnp.mean((mlp(p, x) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(p)
    return {"loss": loss, "params": jax.tree.map(lambda w, g: w - 0.1 * g, p, grads)}


def base(p, x, y):
    return train_step(mlp, p, x, y)


def sharded(mesh, local_mlp, **options):
    body = jax.shard_map(local_mlp, mesh=mesh, in_specs=(SPECS, P("dp", None)), out_specs=P("dp", None), **options)
    return jax.jit(partial(train_step, body))


def right(mesh):
    def local_mlp(p, x):
        hidden = jax.nn.gelu(x @ p["w1"] + p["b1"])
        return x + lax.psum(hidden @ p["w2"], "tp") + p["b2"]

    return sharded(mesh, local_mlp)


def wrong1(mesh):
    def local_mlp(p, x):
        hidden = jax.nn.gelu(x @ p["w1"] + p["b1"])
        return x + lax.psum(hidden @ p["w2"] + p["b2"], "tp")  # BUG wrong1

    return sharded(mesh, local_mlp)


def wrong2(mesh):
    def local_mlp(p, x):
        hidden = jax.nn.gelu(x @ p["w1"] + p["b1"])
        return x + lax.pmean(hidden @ p["w2"], "tp") + p["b2"]  # BUG wrong2

    return sharded(mesh, local_mlp)
