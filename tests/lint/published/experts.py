"""Attention with shared keys or keys of other ranks; experts and their auxiliary loss."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .ops import Step, attention, bug, copy_to, gather, gather_and_keep_own, of, reduce_from, same, scatter, summed

COLUMNS = P(None, "tp")


def latent(ok: bool, *, rows: bool) -> Step:
    """Attention with one rotary key for all heads; with `rows`, in sequence parallel."""

    def loss(p: Any, x: Any, enter: Any = same, leave: Any = same, shared: Any = same) -> Any:
        key = shared(x @ p["rotary"])
        q, k, v = ((enter(x) @ p[n]).reshape(8, -1, n_dims) for n, n_dims in (("wq", 12), ("wk", 8), ("wv", 8)))
        k = jnp.concatenate([k, jnp.broadcast_to(key[:, None], (*k.shape[:2], 4))], -1)
        y = leave(attention(q, k, v).reshape(8, -1) @ p["wo"])
        return jnp.sum(y * y) / 128

    def whole(p: Any, x: Any) -> Any:
        """Heads over tp."""
        return jax.value_and_grad(loss)(p, x, copy_to("tp"), reduce_from("tp"), copy_to("tp") if ok else same)

    def in_rows(p: Any, x: Any) -> Any:
        """Rows and heads over tp."""
        value, grads = jax.value_and_grad(loss)(p, x, gather("tp"), scatter("tp"), gather("tp"))
        rotary = lax.psum(grads["rotary"], "tp")
        return lax.psum(value, "tp"), grads | {"rotary": rotary if ok else lax.psum(rotary, "tp")}

    args = {"wq": of(16, 48), "wk": of(16, 32), "wv": of(16, 32), "rotary": of(16, 4), "wo": of(32, 16)}
    lie = {"wq": COLUMNS, "wk": COLUMNS, "wv": COLUMNS, "rotary": P(), "wo": P("tp")}
    step = in_rows if rows else whole
    return Step(jax.value_and_grad(loss), step, (args, of(8, 16)), lie, (P("tp") if rows else P(),))


@bug("tp=2")
def shared_key_is_not_summed(ok: bool) -> Step:
    """Megatron-LM #6839, without sequence parallelism."""
    return latent(ok, rows=False)


@bug("tp=2")
def shared_key_is_summed_twice(ok: bool) -> Step:
    """Megatron-LM #6839, with sequence parallelism."""
    return latent(ok, rows=True)


@bug("tp=4")
def shared_key_of_one_head_on_each_rank(ok: bool) -> Step:
    """The same where a rank has one head."""
    return latent(ok, rows=False)


@bug("tp=4")
def key_and_value_of_one_head_are_not_summed(ok: bool) -> Step:
    """bigcode-project/Megatron-LM #35: one head of keys and values on all ranks."""

    def loss(p: Any, x: Any, enter: Any = same, leave: Any = same) -> Any:
        q, k, v = (enter(x) @ p["wq"]).reshape(8, -1, 8), x @ p["wk"], x @ p["wv"]
        weights = jax.nn.softmax(jnp.einsum("thd,sd->hts", q, k) / 8**0.5, -1)
        y = leave(jnp.einsum("hts,sd->thd", weights, v).reshape(8, -1) @ p["wo"])
        return jnp.mean(y * y)

    def dist(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(p, x, copy_to("tp"), reduce_from("tp"))
        return value, grads | {n: lax.psum(grads[n], "tp") for n in ("wk", "wv")} if ok else grads

    args = {"wq": of(16, 32), "wk": of(16, 8), "wv": of(16, 8), "wo": of(32, 16)}, of(8, 16)
    return Step(jax.value_and_grad(loss), dist, args, {"wq": COLUMNS, "wk": P(), "wv": P(), "wo": P("tp")}, (P(),))


@bug("cp=2")
def gradients_of_keys_stay_where_they_are(ok: bool) -> Step:
    """Megatron-LM #1464: what a rank has for other ranks' keys and values is dropped."""

    def loss(p: Any, x: Any, whole: Any = same) -> Any:
        q, k, v = x @ p["wq"], whole(x @ p["wk"]), whole(x @ p["wv"])
        return jnp.sum(jnp.tanh(jax.nn.softmax(q @ k.T / 8**0.5, -1) @ v))

    def dist(p: Any, x: Any) -> Any:
        return summed(jax.value_and_grad(loss)(p, x, (gather if ok else gather_and_keep_own)("cp")), "cp")

    args = {"wq": of(8, 8), "wk": of(8, 8), "wv": of(8, 8)}, of(8, 8)
    return Step(jax.value_and_grad(loss), dist, args, {"wq": P(), "wk": P(), "wv": P()}, (P("cp"),))


@bug("tp=2,cp=2")
def auxiliary_loss_is_summed_over_too_many(ok: bool) -> Step:
    """Megatron-LM #5047: all ranks of tp have the gradient of the router, which is summed over tp, too."""

    def loads(p: Any, x: Any) -> Any:
        return jnp.sum(jax.nn.softmax(x @ p["router"], -1), 0) / 8

    def main(p: Any, x: Any, enter: Any = same, leave: Any = same) -> Any:
        return jnp.sum(leave(jax.nn.gelu(enter(x) @ p["up"]) @ p["down"]) ** 2) / 128

    def base(p: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda p: main(p, x) + 0.04 * jnp.sum(loads(p, x) ** 2))(p)

    def dist(p: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(main)(p, x, copy_to("tp"), reduce_from("tp"))
        load = lax.stop_gradient(lax.psum(loads(p, x), "cp"))
        router = jax.grad(lambda p: 0.08 * jnp.sum(load * loads(p, x)))(p)["router"]
        both = summed(grads, "cp") | {"router": lax.psum(router, "cp" if ok else ("tp", "cp"))}
        return lax.psum(value, "cp") + 0.04 * jnp.sum(load * load), both

    args = {"router": of(16, 4), "up": of(16, 32), "down": of(32, 16)}, of(8, 16)
    return Step(base, dist, args, {"router": P(), "up": COLUMNS, "down": P("tp")}, (P("cp"),))


@bug("dp=2")
def auxiliary_loss_is_not_averaged_over_micro_batches(ok: bool) -> Step:
    """Megatron-LM #5798: the main loss is divided by their number, the auxiliary one is not."""

    def parts(p: Any, x: Any) -> Any:
        chosen = jax.nn.softmax(x @ p["router"], -1)
        y = jnp.einsum("te,td,edf->tf", chosen, x, p["experts"])
        return jnp.sum(y * y) / 128, jnp.sum(chosen * chosen) / 8

    def base(p: Any, xs: Any) -> Any:
        return jax.value_and_grad(lambda p: sum(a + b for a, b in (parts(p, x) for x in xs)) / 2)(p)

    def one(p: Any, x: Any) -> Any:
        main, auxiliary = parts(p, x)
        return main / 2 + auxiliary / (2 if ok else 1)

    def dist(p: Any, xs: Any) -> Any:
        first, second = (jax.value_and_grad(one)(p, x) for x in xs)
        return summed(jax.tree.map(jnp.add, first, second), "dp")

    args = {"router": of(16, 4), "experts": of(4, 16, 16)}, of(2, 8, 16)
    return Step(base, dist, args, {"router": P(), "experts": P()}, (P(None, "dp"),))


@bug("ep=2")
def gradients_of_experts_are_summed_again(ok: bool) -> Step:
    """pytorch #160285: tokens of all ranks have come to the expert already."""

    def loss(p: Any, x: Any, there: Any = same, back: Any = same) -> Any:
        h = there(jnp.tanh(x @ p["in"]))
        return jnp.sum(back(jnp.tanh(jnp.einsum("etd,edf->etf", h, p["experts"]))) * x) / 256

    def dist(p: Any, x: Any) -> Any:
        def moved(split: int, concat: int) -> Any:
            return lambda t: lax.all_to_all(t, "ep", split, concat, tiled=True)

        value, grads = jax.value_and_grad(loss)(p, x, moved(0, 1), moved(1, 0))
        experts = grads["experts"] if ok else lax.psum(grads["experts"], "ep")
        return lax.psum(value, "ep"), {"in": lax.psum(grads["in"], "ep"), "experts": experts}

    args = {"in": of(8, 8), "experts": of(4, 8, 8)}, of(4, 8, 8)
    return Step(jax.value_and_grad(loss), dist, args, {"in": P(), "experts": P("ep")}, (P(None, "ep"),))
