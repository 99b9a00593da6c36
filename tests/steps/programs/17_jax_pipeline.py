"""Pipeline by ppermute and scan: one residual layer per rank, micro-batches enter turn by turn, SGD."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"pp": 4}
BUGS = {
    "wrong1": "outputs are collected one turn late: every micro-batch is in the place of the one before",
    "wrong2": "activations are sent to the rank before, so layers are applied in another order and not all of them",
}
MICROBATCHES, ROWS, DIM, HIDDEN, STAGES = 6, 3, 8, 14, 4


def arguments():
    rng = np.random.default_rng(17)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.4).astype("float32")

    params = {"up": normal(STAGES, DIM, HIDDEN), "bias": normal(STAGES, HIDDEN), "down": normal(STAGES, HIDDEN, DIM)}
    return params, normal(MICROBATCHES * ROWS, DIM), normal(MICROBATCHES * ROWS, DIM)


def layer(p, x):
    return x + jnp.tanh(x @ p["up"] + p["bias"]) @ p["down"]


def all_layers(p, x):
    x, _ = lax.scan(lambda x, p: (layer(p, x), None), x, p)
    return x


def train_step(forward, p, x, y):
    def loss_fn(p):
        return jnp.mean((forward(p, x) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(p)
    return {"loss": loss, "params": jax.tree.map(lambda w, g: w - 0.1 * g, p, grads)}


def base(p, x, y):
    return train_step(all_layers, p, x, y)


def pipelined(mesh, pipeline):
    body = jax.shard_map(pipeline, mesh=mesh, in_specs=(P("pp"), P()), out_specs=P(), check_vma=False)

    def forward(p, x):
        return body(p, x.reshape(MICROBATCHES, ROWS, DIM)).reshape(x.shape)

    return jax.jit(lambda p, x, y: train_step(forward, p, x, y))


def right(mesh):
    def pipeline(p, microbatches):
        p = jax.tree.map(lambda w: w[0], p)
        rank, ranks = lax.axis_index("pp"), lax.axis_size("pp")

        def turn(carry, t):
            received, outputs = carry
            fresh = lax.dynamic_index_in_dim(microbatches, jnp.minimum(t, MICROBATCHES - 1), keepdims=False)
            x = layer(p, jnp.where(rank == 0, fresh, received))
            done = t - (ranks - 1)
            updated = lax.dynamic_update_index_in_dim(outputs, x, jnp.maximum(done, 0), 0)
            outputs = jnp.where((rank == ranks - 1) & (done >= 0), updated, outputs)
            received = lax.ppermute(x, "pp", [(i, (i + 1) % ranks) for i in range(ranks)])
            return (received, outputs), None

        start = (jnp.zeros_like(microbatches[0]), jnp.zeros_like(microbatches))
        (_, outputs), _ = lax.scan(turn, start, jnp.arange(MICROBATCHES + ranks - 1))
        return lax.psum(outputs, "pp")

    return pipelined(mesh, pipeline)


def wrong1(mesh):
    def pipeline(p, microbatches):
        p = jax.tree.map(lambda w: w[0], p)
        rank, ranks = lax.axis_index("pp"), lax.axis_size("pp")

        def turn(carry, t):
            received, outputs = carry
            fresh = lax.dynamic_index_in_dim(microbatches, jnp.minimum(t, MICROBATCHES - 1), keepdims=False)
            x = layer(p, jnp.where(rank == 0, fresh, received))
            done = t - ranks  # BUG wrong1
            updated = lax.dynamic_update_index_in_dim(outputs, x, jnp.maximum(done, 0), 0)
            outputs = jnp.where((rank == ranks - 1) & (done >= 0), updated, outputs)
            received = lax.ppermute(x, "pp", [(i, (i + 1) % ranks) for i in range(ranks)])
            return (received, outputs), None

        start = (jnp.zeros_like(microbatches[0]), jnp.zeros_like(microbatches))
        (_, outputs), _ = lax.scan(turn, start, jnp.arange(MICROBATCHES + ranks))
        return lax.psum(outputs, "pp")

    return pipelined(mesh, pipeline)


def wrong2(mesh):
    def pipeline(p, microbatches):
        p = jax.tree.map(lambda w: w[0], p)
        rank, ranks = lax.axis_index("pp"), lax.axis_size("pp")

        def turn(carry, t):
            received, outputs = carry
            fresh = lax.dynamic_index_in_dim(microbatches, jnp.minimum(t, MICROBATCHES - 1), keepdims=False)
            x = layer(p, jnp.where(rank == 0, fresh, received))
            done = t - (ranks - 1)
            updated = lax.dynamic_update_index_in_dim(outputs, x, jnp.maximum(done, 0), 0)
            outputs = jnp.where((rank == ranks - 1) & (done >= 0), updated, outputs)
            received = lax.ppermute(x, "pp", [(i, (i - 1) % ranks) for i in range(ranks)])  # BUG wrong2
            return (received, outputs), None

        start = (jnp.zeros_like(microbatches[0]), jnp.zeros_like(microbatches))
        (_, outputs), _ = lax.scan(turn, start, jnp.arange(MICROBATCHES + ranks - 1))
        return lax.psum(outputs, "pp")

    return pipelined(mesh, pipeline)
