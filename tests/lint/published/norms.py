"""Norm weights, clipping by the global norm, values that are used rank by rank."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .ops import Step, attention, bug, clipped, copy_to, gather, of, reduce_from, rms, same, square, summed


@bug("tp=2")
def query_norm_weight_is_not_summed(ok: bool) -> Step:
    """Megatron-LM #7452: one weight for all heads, which lie over tp; summed under sequence parallelism only."""

    def loss(p: Any, x: Any, enter: Any = same, leave: Any = same) -> Any:
        q, k, v = ((enter(x) @ p[n]).reshape(8, -1, 8) for n in ("wq", "wk", "wv"))
        y = leave(attention(rms(q, p["norm"]), k, v).reshape(8, -1) @ p["wo"])
        return jnp.mean(y * y)

    def dist(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x, copy_to("tp"), reduce_from("tp"))
        return value, grads | {"norm": lax.psum(grads["norm"], "tp")} if ok else grads

    args = {"wq": of(16, 32), "wk": of(16, 32), "wv": of(16, 32), "norm": of(8), "wo": of(32, 16)}
    columns = P(None, "tp")
    lie = {"wq": columns, "wk": columns, "wv": columns, "norm": P(), "wo": P("tp")}
    return Step(jax.value_and_grad(loss), dist, (args, of(8, 16)), lie, (P(),))


@bug("tp=2")
def final_norm_weight_is_not_summed(ok: bool) -> Step:
    """Megatron-LM #1446: each rank has rows of its own; the loss is over a vocabulary in parts."""

    def base(p: Any, x: Any, y: Any) -> Any:
        z = rms(x, p["norm"]) @ p["w"]
        return jnp.mean(jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, y[:, None], 1)[:, 0])

    def loss(p: Any, x: Any, y: Any) -> Any:
        z = gather("tp")(rms(x, p["norm"])) @ p["w"]
        top = lax.stop_gradient(lax.pmax(lax.stop_gradient(jnp.max(z, -1)), "tp"))
        total = reduce_from("tp")(jnp.sum(jnp.exp(z - top[:, None]), -1))
        mine = y - lax.axis_index("tp") * 16
        here = (mine >= 0) & (mine < 16)
        of_label = jnp.take_along_axis(z, jnp.where(here, mine, 0)[:, None], 1)[:, 0]
        return jnp.mean(jnp.log(total) + top - reduce_from("tp")(jnp.where(here, of_label, 0.0)))

    def dist(p: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x, y)
        return value, grads | {"norm": lax.psum(grads["norm"], "tp")} if ok else grads

    args = {"norm": of(16), "w": of(16, 32)}, of(8, 16), of(8, dtype="int32")
    return Step(jax.value_and_grad(base), dist, args, {"norm": P(), "w": P(None, "tp")}, (P("tp"), P()))


@bug("tp=2")
def local_use_of_a_whole_value_without_its_gradient(ok: bool) -> Step:
    """torchtitan #1805: what all ranks have is used rank by rank, and its gradient taken for whole."""

    def loss(p: Any, x: Any, enter: Any = same, leave: Any = same) -> Any:
        h = jnp.tanh(x @ p["in"])
        return jnp.mean((h + leave(jax.nn.silu(enter(h) @ p["up"]) @ p["down"])) ** 2)

    def dist(p: Any, x: Any) -> Any:
        return jax.value_and_grad(loss)(p, x, copy_to("tp") if ok else same, reduce_from("tp"))

    args = {"in": of(16, 16), "up": of(16, 32), "down": of(32, 16)}
    lie = {"in": P(), "up": P(None, "tp"), "down": P("tp")}
    return Step(jax.value_and_grad(loss), dist, (args, of(8, 16)), lie, (P(),))


def clipping(total: Any) -> Step:
    """An MLP with a norm (whole on all ranks) and a vector in blocks; gradients are clipped by `total` of squares."""

    def loss(p: Any, x: Any, enter: Any = same, leave: Any = same) -> Any:
        y = leave(jax.nn.silu(enter(rms(x, p["norm"])) @ p["up"] + p["sink"]) @ p["down"])
        return jnp.mean(y * y)

    def base(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x)
        return value, clipped(grads, sum(map(square, grads.values())))

    def dist(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x, copy_to("tp"), reduce_from("tp"))
        return value, clipped(grads, total({name: square(g) for name, g in grads.items()}))

    args = {"norm": of(16), "up": of(16, 32), "sink": of(32), "down": of(32, 16)}
    lie = {"norm": P(), "up": P(None, "tp"), "sink": P("tp"), "down": P("tp")}
    return Step(base, dist, (args, of(8, 16)), lie, (P(),))


def on_the_first(x: Any) -> Any:
    """Counted on one rank."""
    return jnp.where(lax.axis_index("tp") == 0, x, 0.0)


@bug("tp=2")
def sink_in_blocks_counted_on_one_rank(ok: bool) -> Step:
    """Megatron-LM #7452: a vector in blocks is taken for one that all ranks have."""

    def total(s: dict[str, Any]) -> Any:
        sink = s["sink"] if ok else on_the_first(s["sink"])
        return lax.psum(s["up"] + s["down"] + sink + on_the_first(s["norm"]), "tp")

    return clipping(total)


@bug("tp=2")
def whole_weight_counted_on_every_rank(ok: bool) -> Step:
    """Megatron-LM #5916: squares of what all ranks have are summed with those of blocks."""

    def total(s: dict[str, Any]) -> Any:
        split = s["up"] + s["down"] + s["sink"]
        return lax.psum(split, "tp") + s["norm"] if ok else lax.psum(split + s["norm"], "tp")

    return clipping(total)


@bug("dp=2,ep=2")
def experts_counted_over_the_other_axis(ok: bool) -> Step:
    """Megatron-LM #7452, TransformerEngine #715: squares of a rank's experts only."""

    def loss(p: Any, x: Any) -> Any:
        return square(jnp.tanh(jnp.einsum("etd,edf->etf", jnp.tanh(x @ p["in"]), p["experts"]))) / 256

    def base(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x)
        return value, clipped(grads, square(grads["in"]) + square(grads["experts"]))

    def dist(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x)
        grads = {"in": summed(grads["in"], "dp", "ep"), "experts": summed(grads["experts"], "dp")}
        mine = square(grads["experts"])
        return summed(value, "dp", "ep"), clipped(grads, square(grads["in"]) + (lax.psum(mine, "ep") if ok else mine))

    args = {"in": of(8, 8), "experts": of(4, 8, 8)}, of(4, 8, 8)
    return Step(base, dist, args, {"in": P(), "experts": P("ep")}, (P("ep", "dp"),))
