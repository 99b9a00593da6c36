"""Fully sharded data parallel by shard_map: weights gathered, gradients scattered, SGD on shards."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"fsdp": 4}
BUGS = {
    "wrong1": "gradients are summed by the transposed gather and not divided by the number of ranks",
    "wrong2": "a weight cut on its second dim is gathered on a new first dim and reshaped: its columns are mixed up",
}
BATCH, DIM, HIDDEN, CLASSES, RATE = 16, 12, 20, 8, 0.2
SPECS = {"w1": P("fsdp", None), "b1": P("fsdp"), "w2": P(None, "fsdp"), "b2": P("fsdp")}


def arguments():
    rng = np.random.default_rng(16)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.4).astype("float32")

    params = {"w1": normal(DIM, HIDDEN), "b1": normal(HIDDEN), "w2": normal(HIDDEN, CLASSES), "b2": normal(CLASSES)}
    return params, normal(BATCH, DIM), rng.integers(0, CLASSES, size=(BATCH,)).astype("int32")


def classify(w1, b1, w2, b2, x, y):
    logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(log_probs, y[:, None], axis=1))


def base(p, x, y):
    loss, grads = jax.value_and_grad(lambda p: classify(p["w1"], p["b1"], p["w2"], p["b2"], x, y))(p)
    return {"loss": loss, "params": jax.tree.map(lambda w, g: w - RATE * g, p, grads)}


def gather(w, dim):
    return lax.all_gather(w, "fsdp", axis=dim, tiled=True)


def local_loss(p, x, y):
    return classify(gather(p["w1"], 0), gather(p["b1"], 0), gather(p["w2"], 1), gather(p["b2"], 0), x, y)


def sharded(mesh, local_step):
    specs = (SPECS, P("fsdp"), P("fsdp"))
    out_specs = {"loss": P(), "params": SPECS}
    return jax.jit(jax.shard_map(local_step, mesh=mesh, in_specs=specs, out_specs=out_specs))


def right(mesh):
    def local_step(p, x, y):
        loss, grads = jax.value_and_grad(local_loss)(p, x, y)
        ranks = lax.axis_size("fsdp")
        params = jax.tree.map(lambda w, g: w - RATE * g / ranks, p, grads)
        return {"loss": lax.pmean(loss, "fsdp"), "params": params}

    return sharded(mesh, local_step)


def wrong1(mesh):
    def local_step(p, x, y):
        loss, grads = jax.value_and_grad(local_loss)(p, x, y)
        params = jax.tree.map(lambda w, g: w - RATE * g, p, grads)  # BUG wrong1
        return {"loss": lax.pmean(loss, "fsdp"), "params": params}

    return sharded(mesh, local_step)


def wrong2(mesh):
    def mixed_loss(p, x, y):
        w2 = lax.all_gather(p["w2"], "fsdp").reshape(HIDDEN, CLASSES)  # BUG wrong2
        return classify(gather(p["w1"], 0), gather(p["b1"], 0), w2, gather(p["b2"], 0), x, y)

    def local_step(p, x, y):
        loss, grads = jax.value_and_grad(mixed_loss)(p, x, y)
        ranks = lax.axis_size("fsdp")
        params = jax.tree.map(lambda w, g: w - RATE * g / ranks, p, grads)
        return {"loss": lax.pmean(loss, "fsdp"), "params": params}

    return sharded(mesh, local_step)
