"""Mixture of experts by shard_map: tokens and experts over one axis, all_to_all both ways, balance loss, SGD."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"ep": 4}
BUGS = {
    "wrong1": "the way back concatenates on the wrong dim: what comes from (rank, expert) is read as (expert, rank)",
    "wrong2": "the balance loss is computed from each rank's own fractions and then averaged, but it is no mean",
}
EXPERTS, TOKENS, DIM, HIDDEN = 8, 32, 10, 14
SPECS = {"router": P(), "up": P("ep"), "down": P("ep")}


def arguments():
    rng = np.random.default_rng(19)

    def normal(*shape):
        return (rng.normal(size=shape) * 0.5).astype("float32")

    params = {"router": normal(DIM, EXPERTS), "up": normal(EXPERTS, DIM, HIDDEN), "down": normal(EXPERTS, HIDDEN, DIM)}
    return params, normal(TOKENS, DIM), normal(TOKENS, DIM)


def route(router, x):
    """Gates, one-hot dispatch (tokens, experts, slots) with a slot for every token, fractions, mean probabilities."""
    probs = jax.nn.softmax(x @ router)
    chosen = jax.nn.one_hot(jnp.argmax(probs, axis=-1), EXPERTS, dtype=x.dtype)
    slot = jnp.sum((jnp.cumsum(chosen, axis=0) - 1) * chosen, axis=-1).astype("int32")
    dispatch = chosen[:, :, None] * jax.nn.one_hot(slot, x.shape[0], dtype=x.dtype)[:, None, :]
    return jnp.max(probs, axis=-1), dispatch, chosen.mean(axis=0), probs.mean(axis=0)


def experts(p, x):
    return jnp.einsum("ech,ehd->ecd", jax.nn.gelu(jnp.einsum("ecd,edh->ech", x, p["up"])), p["down"])


def dense_moe(p, x):
    gate, dispatch, fraction, mean = route(p["router"], x)
    y = experts(p, jnp.einsum("tec,td->ecd", dispatch, x))
    return gate[:, None] * jnp.einsum("tec,ecd->td", dispatch, y), EXPERTS * jnp.sum(fraction * mean)


def train_step(moe, p, x, target):
    def loss_fn(p):
        y, balance = moe(p, x)
        return jnp.mean((x + y - target) ** 2) + 0.1 * balance, balance

    (loss, balance), grads = jax.value_and_grad(loss_fn, has_aux=True)(p)
    params = jax.tree.map(lambda w, g: w - 0.5 * g, p, grads)
    return {"loss": loss, "balance": balance, "params": params}


def base(p, x, target):
    return train_step(dense_moe, p, x, target)


def sharded(mesh, local_moe):
    moe = jax.shard_map(local_moe, mesh=mesh, in_specs=(SPECS, P("ep")), out_specs=(P("ep"), P()))
    return jax.jit(lambda p, x, target: train_step(moe, p, x, target))


def right(mesh):
    def local_moe(p, x):
        gate, dispatch, fraction, mean = route(p["router"], x)
        sent = jnp.einsum("tec,td->ecd", dispatch, x)
        y = experts(p, lax.all_to_all(sent, "ep", split_axis=0, concat_axis=1, tiled=True))
        back = lax.all_to_all(y, "ep", split_axis=1, concat_axis=0, tiled=True)
        balance = EXPERTS * jnp.sum(lax.pmean(fraction, "ep") * lax.pmean(mean, "ep"))
        return gate[:, None] * jnp.einsum("tec,ecd->td", dispatch, back), balance

    return sharded(mesh, local_moe)


def wrong1(mesh):
    def local_moe(p, x):
        gate, dispatch, fraction, mean = route(p["router"], x)
        sent = jnp.einsum("tec,td->ecd", dispatch, x)
        y = experts(p, lax.all_to_all(sent, "ep", split_axis=0, concat_axis=1, tiled=True))
        y = y.reshape(y.shape[0], lax.axis_size("ep"), *sent.shape[1:])
        back = lax.all_to_all(y, "ep", split_axis=1, concat_axis=1).reshape(sent.shape)  # BUG wrong1
        balance = EXPERTS * jnp.sum(lax.pmean(fraction, "ep") * lax.pmean(mean, "ep"))
        return gate[:, None] * jnp.einsum("tec,ecd->td", dispatch, back), balance

    return sharded(mesh, local_moe)


def wrong2(mesh):
    def local_moe(p, x):
        gate, dispatch, fraction, mean = route(p["router"], x)
        sent = jnp.einsum("tec,td->ecd", dispatch, x)
        y = experts(p, lax.all_to_all(sent, "ep", split_axis=0, concat_axis=1, tiled=True))
        back = lax.all_to_all(y, "ep", split_axis=1, concat_axis=0, tiled=True)
        balance = lax.pmean(EXPERTS * jnp.sum(fraction * mean), "ep")  # BUG wrong2
        return gate[:, None] * jnp.einsum("tec,ecd->td", dispatch, back), balance

    return sharded(mesh, local_moe)
