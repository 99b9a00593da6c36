"""Data parallel step with padded tokens: gradients averaged by pmean, clipped by value, SGD with momentum."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"dp": 4}
BUGS = {
    "wrong1": "the loss is divided by the rank's own number of tokens, and ranks have unequal numbers",
    "wrong2": "gradients are clipped by value before they are averaged",
}
VOCAB, DIM, HIDDEN, BATCH, SEQ = 17, 10, 24, 8, 6


def arguments():
    rng = np.random.default_rng(15)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.3).astype("float32")

    params = {"embed": normal(VOCAB, DIM), "w1": normal(DIM, HIDDEN), "b1": normal(HIDDEN), "w2": normal(HIDDEN, VOCAB)}
    momentum = jax.tree.map(lambda w: (rng.normal(size=w.shape) * 0.01).astype("float32"), params)
    tokens = rng.integers(0, VOCAB, size=(BATCH, SEQ)).astype("int32")
    labels = rng.integers(0, VOCAB, size=(BATCH, SEQ)).astype("int32")
    mask = (np.arange(SEQ) < rng.integers(1, SEQ + 1, size=(BATCH, 1))).astype("float32")
    return params, momentum, tokens, labels, mask


def token_losses(p, tokens, labels):
    hidden = jnp.tanh(p["embed"][tokens] @ p["w1"] + p["b1"])
    log_probs = jax.nn.log_softmax(hidden @ p["w2"])
    return -jnp.take_along_axis(log_probs, labels[..., None], axis=-1)[..., 0]


def clip(grads):
    return jax.tree.map(lambda g: jnp.clip(g, -0.02, 0.02), grads)


def sgd(p, m, grads):
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, grads)
    return jax.tree.map(lambda w, m: w - 0.1 * m, p, m), m


def base(p, m, tokens, labels, mask):
    def loss_fn(p):
        return jnp.sum(token_losses(p, tokens, labels) * mask) / jnp.sum(mask)

    loss, grads = jax.value_and_grad(loss_fn)(p)
    p, m = sgd(p, m, clip(grads))
    return {"loss": loss, "params": p, "momentum": m}


def data_parallel(mesh, local_step):
    specs = (P(), P(), P("dp"), P("dp"), P("dp"))
    return jax.jit(jax.shard_map(local_step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False))


def right(mesh):
    def local_step(p, m, tokens, labels, mask):
        count = lax.pmean(jnp.sum(mask), "dp")

        def loss_fn(p):
            return jnp.sum(token_losses(p, tokens, labels) * mask) / count

        loss, grads = jax.value_and_grad(loss_fn)(p)
        loss, grads = lax.pmean((loss, grads), "dp")
        p, m = sgd(p, m, clip(grads))
        return {"loss": loss, "params": p, "momentum": m}

    return data_parallel(mesh, local_step)


def wrong1(mesh):
    def local_step(p, m, tokens, labels, mask):
        def loss_fn(p):
            return jnp.sum(token_losses(p, tokens, labels) * mask) / jnp.sum(mask)  # BUG wrong1

        loss, grads = jax.value_and_grad(loss_fn)(p)
        loss, grads = lax.pmean((loss, grads), "dp")
        p, m = sgd(p, m, clip(grads))
        return {"loss": loss, "params": p, "momentum": m}

    return data_parallel(mesh, local_step)


def wrong2(mesh):
    def local_step(p, m, tokens, labels, mask):
        count = lax.pmean(jnp.sum(mask), "dp")

        def loss_fn(p):
            return jnp.sum(token_losses(p, tokens, labels) * mask) / count

        loss, grads = jax.value_and_grad(loss_fn)(p)
        loss, grads = lax.pmean((loss, clip(grads)), "dp")  # BUG wrong2
        p, m = sgd(p, m, grads)
        return {"loss": loss, "params": p, "momentum": m}

    return data_parallel(mesh, local_step)
