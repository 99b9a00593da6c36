"""Optimiser state cut over the data axis: gradients scattered, clipped, optax AdamW, weights gathered."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"dp": 4}
BUGS = {
    "wrong1": "optax clips by the norm of the rank's shard of the gradients, not of all of them",
    "wrong2": "every rank takes the first shard of the weights, whatever its index",
}
BATCH, DIM, HIDDEN, CLASSES, MAX_NORM = 16, 12, 20, 8, 0.3
optimizer = optax.adamw(3e-2, b1=0.9, b2=0.98, weight_decay=0.1)


def arguments():
    rng = np.random.default_rng(20)

    def normal(*shape, scale=0.4):
        return (rng.normal(size=shape) * scale).astype("float32")

    params = {"w1": normal(DIM, HIDDEN), "b1": normal(HIDDEN), "w2": normal(HIDDEN, CLASSES), "b2": normal(CLASSES)}
    adam, *rest = optimizer.init(params)
    adam = adam._replace(
        count=np.int32(3),
        mu=jax.tree.map(lambda w: normal(*w.shape, scale=0.05), params),
        nu=jax.tree.map(lambda w: normal(*w.shape, scale=0.05) ** 2, params),
    )
    return params, (adam, *rest), normal(BATCH, DIM), rng.integers(0, CLASSES, size=(BATCH,)).astype("int32")


def loss_fn(p, x, y):
    logits = jax.nn.gelu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def base(p, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(p, x, y)
    norm = optax.global_norm(grads)
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, MAX_NORM / norm), grads)
    updates, state = optimizer.update(grads, state, p)
    return {"loss": loss, "params": optax.apply_updates(p, updates), "state": state}


def sharded(mesh, local_step):
    def step(p, state, x, y):
        state_specs = jax.tree.map(lambda leaf: P("dp") if jnp.ndim(leaf) else P(), state)
        out_specs = {"loss": P(), "params": P(), "state": state_specs}
        in_specs = (P(), state_specs, P("dp"), P("dp"))
        body = jax.shard_map(local_step, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        return body(p, state, x, y)

    return jax.jit(step, donate_argnums=(0, 1))


def scattered(grads):
    """The rank's shard of the mean gradients."""
    total = jax.tree.map(lambda g: lax.psum_scatter(g, "dp", scatter_dimension=0, tiled=True), grads)
    return jax.tree.map(lambda g: g / lax.axis_size("dp"), total)


def own_shard(w):
    size = w.shape[0] // lax.axis_size("dp")
    return lax.dynamic_slice_in_dim(w, lax.axis_index("dp") * size, size)


def first_shard(w):
    return w[: w.shape[0] // lax.axis_size("dp")]  # BUG wrong2


def clip_globally(grads):
    squares = sum(jnp.sum(g**2) for g in jax.tree.leaves(grads))
    norm = jnp.sqrt(lax.psum(squares, "dp"))
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, MAX_NORM / norm), grads)


def clip_locally(grads):
    norm = optax.global_norm(grads)  # BUG wrong1
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, MAX_NORM / norm), grads)


def zero_step(mesh, clip, shard):
    def local_step(p, state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(p, x, y)
        grads = clip(scattered(grads))
        shards = jax.tree.map(shard, p)
        updates, state = optimizer.update(grads, state, shards)
        shards = optax.apply_updates(shards, updates)
        p = jax.tree.map(lambda w: lax.all_gather(w, "dp", axis=0, tiled=True), shards)
        return {"loss": lax.pmean(loss, "dp"), "params": p, "state": state}

    return sharded(mesh, local_step)


def right(mesh):
    return zero_step(mesh, clip_globally, own_shard)


def wrong1(mesh):
    return zero_step(mesh, clip_locally, own_shard)


def wrong2(mesh):
    return zero_step(mesh, clip_globally, first_shard)
