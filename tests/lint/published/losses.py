"""Losses by tokens, over a vocabulary in parts, scaled by ranks; weights that are gathered, or have two readers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .ops import Step, bug, copy_to, gather, gather_and_keep_own, losses, of, reduce_from, same, summed


@bug("dp=2")
def tokens_counted_on_each_rank(ok: bool) -> Step:
    """Megatron-LM #7452, #7498: a loss for each token, divided by the rank's own number of tokens."""

    def total(p: Any, x: Any, y: Any, mask: Any) -> Any:
        return jnp.sum(losses(jnp.tanh(x @ p["in"]) @ p["out"], y) * mask)

    def base(p: Any, x: Any, y: Any, mask: Any) -> Any:
        return jax.value_and_grad(lambda p: total(p, x, y, mask) / jnp.sum(mask))(p)

    def dist(p: Any, x: Any, y: Any, mask: Any) -> Any:
        count = lax.psum(jnp.sum(mask), "dp") if ok else 2 * jnp.sum(mask)
        return summed(jax.value_and_grad(lambda p: total(p, x, y, mask) / count)(p), "dp")

    args = {"in": of(16, 16), "out": of(16, 32)}, of(8, 16), of(8, dtype="int32"), of(8)
    return Step(base, dist, args, {"in": P(), "out": P()}, (P("dp"), P("dp"), P("dp")))


@bug("dp=2,cp=2")
def loss_times_ranks_of_the_sequence(ok: bool) -> Step:
    """Megatron-LM #673: the loss is times cp, gradients are averaged over dp alone."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        logs = jax.nn.log_softmax(jnp.tanh(x @ p["in"]) @ p["out"], -1)
        return -jnp.mean(jnp.take_along_axis(logs, y[..., None], -1))

    def dist(p: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(lambda p: 2 * loss(p, x, y))(p)
        mean = jax.tree.map(lambda g: g / (8 if ok else 4), summed(grads, "dp", "cp"))
        return summed(value / 2, "dp", "cp") / 4, mean

    args = {"in": of(16, 16), "out": of(16, 32)}, of(4, 8, 16), of(4, 8, dtype="int32")
    return Step(jax.value_and_grad(loss), dist, args, {"in": P(), "out": P()}, (P("dp", "cp"), P("dp", "cp")))


@bug("tp=2")
def logarithms_of_the_own_part_with_another_reader(ok: bool) -> Step:
    """pytorch #190746: the loss knows of the parts, the entropy reads log-softmax of the rank's part."""

    def base(p: Any, x: Any, y: Any) -> Any:
        logs = jax.nn.log_softmax(x @ p["w"], -1)
        return -jnp.mean(jnp.take_along_axis(logs, y[:, None], 1)) + 0.1 * jnp.mean(jnp.sum(jnp.exp(logs) * logs, -1))

    def loss(p: Any, x: Any, y: Any) -> Any:
        z, leave = x @ p["w"], reduce_from("tp")
        top = lax.pmax(lax.stop_gradient(jnp.max(z, -1)), "tp")[:, None]
        logs = z - copy_to("tp")(jnp.log(leave(jnp.sum(jnp.exp(z - top), -1, keepdims=True))) + top)
        mine = y - lax.axis_index("tp") * 16
        here = (mine >= 0) & (mine < 16)
        of_label = jnp.take_along_axis(logs, jnp.where(here, mine, 0)[:, None], 1)[:, 0]
        other = logs if ok else jax.nn.log_softmax(z, -1)
        entropy = leave(jnp.sum(jnp.exp(other) * other, -1))
        return -jnp.mean(leave(jnp.where(here, of_label, 0.0))) + 0.1 * jnp.mean(entropy)

    args = {"w": of(16, 32)}, of(8, 16), of(8, dtype="int32")
    return Step(jax.value_and_grad(base), jax.value_and_grad(loss), args, {"w": P(None, "tp")}, (P(), P()))


@bug("dp=2")
def gradient_of_a_gather_is_the_own_block(ok: bool) -> Step:
    """pytorch #153016: the adjoint of an all-gather is a reduce-scatter."""

    def loss(p: Any, x: Any, whole: Any = same) -> Any:
        return jnp.sum((jnp.tanh(x @ whole(p["in"])) @ whole(p["out"])) ** 2) / 128

    def dist(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x, (gather if ok else gather_and_keep_own)("dp"))
        return lax.psum(value, "dp"), grads

    args = {"in": of(16, 16), "out": of(16, 16)}, of(8, 16)
    return Step(jax.value_and_grad(loss), dist, args, {"in": P("dp"), "out": P("dp")}, (P("dp"),))


@bug("pp=2")
def tied_embedding_is_not_summed_over_stages(ok: bool) -> Step:
    """The first stage embeds, the last one projects, by the same table."""

    def base(p: Any, x: Any, y: Any) -> Any:
        h = jnp.tanh(jnp.tanh(p["table"][x] @ p["w"][0]) @ p["w"][1])
        return jnp.mean(losses(h @ p["table"].T, y))

    def loss(p: Any, x: Any, y: Any) -> Any:
        received = lax.ppermute(jnp.tanh(p["table"][x] @ p["w"][0]), "pp", [(0, 1)])
        mine = jnp.mean(losses(jnp.tanh(received @ p["w"][0]) @ p["table"].T, y))
        return jnp.where(lax.axis_index("pp") == 1, mine, 0.0)

    def dist(p: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x, y)
        return lax.psum(value, "pp"), grads | {"table": lax.psum(grads["table"], "pp")} if ok else grads

    args = {"table": of(32, 16), "w": of(2, 16, 16)}, of(8, dtype="int32"), of(8, dtype="int32")
    return Step(jax.value_and_grad(base), dist, args, {"table": P(), "w": P("pp")}, (P(), P()))
