"""`shard_map` programs over several axes, whole blocks of models, gradients: right ones, and wrong ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .shard_map_collectives import HD, attention, megatron_mlp, mlp
from .shard_map_pairs import PROGRAMS, D, F, W, X, gradient, pair, wrong

# --- several axes, whole blocks --------------------------------------------------------------------------------------


@pair("psum_over_two_axes", lambda x, w: x @ w, (P(None, ("dp", "tp")), P(("dp", "tp"))), P(), (X, W))
def psum_over_two_axes(x, w):
    return lax.psum(x @ w, ("dp", "tp"))


@wrong("psum_over_one_of_two_axes", "psum_over_two_axes")
def psum_over_one_of_two_axes(x, w):
    return lax.psum(x @ w, "tp")


@wrong("gather_with_axes_crossed", "gather_tiled_then_multiply", in_specs=(P(("dp", "tp")), P(None, "tp")))
def gather_with_axes_crossed(x, w):
    return lax.all_gather(x, ("tp", "dp"), axis=0, tiled=True) @ w


HEADS, KV = 8, 4


def gqa(x, wq, wk, wv, wo):
    q = jnp.einsum("sd,dhk->shk", x, wq)
    k, v = (jnp.repeat(jnp.einsum("sd,dhk->shk", x, w), HEADS // KV, axis=1) for w in (wk, wv))
    return jnp.einsum("shk,hkd->sd", attention(q, k, v), wo)


GQA_ARGS = (
    X,
    ((D, HEADS, HD), jnp.float32),
    ((D, KV, HD), jnp.float32),
    ((D, KV, HD), jnp.float32),
    ((HEADS, HD, D), jnp.float32),
)
GQA_SPECS = (P(), P(None, "tp"), P(None, "tp"), P(None, "tp"), P("tp"))


def gqa_body(x, wq, wk, wv, wo, *, reduce: bool = True):
    q = jnp.einsum("sd,dhk->shk", x, wq)
    k, v = (jnp.repeat(jnp.einsum("sd,dhk->shk", x, w), HEADS // KV, axis=1) for w in (wk, wv))
    out = jnp.einsum("shk,hkd->sd", attention(q, k, v), wo)
    return lax.psum(out, "tp") if reduce else out


pair("gqa_attention", gqa, GQA_SPECS, P(), GQA_ARGS)(gqa_body)
wrong("gqa_attention_without_psum", "gqa_attention")(partial(gqa_body, reduce=False))


@wrong("gqa_attention_keys_as_values", "gqa_attention")
def gqa_attention_keys_as_values(x, wq, wk, wv, wo):
    return gqa_body(x, wq, wk, wk, wo)


LAYERS = 3


def stack(x, w1, w2):
    def layer(carry, weights):
        return carry + mlp(carry, *weights), None

    return lax.scan(layer, x, (w1, w2))[0]


STACK_ARGS = (X, ((LAYERS, D, F), jnp.float32), ((LAYERS, F, D), jnp.float32))


@pair("scanned_layers", stack, (P("dp"), P(None, None, "tp"), P(None, "tp")), P("dp"), STACK_ARGS)
def scanned_layers(x, w1, w2):
    def layer(carry, weights):
        return carry + megatron_mlp(carry, *weights), None

    return lax.scan(layer, x, (w1, w2))[0]


@wrong("scanned_layers_without_psum", "scanned_layers")
def scanned_layers_without_psum(x, w1, w2):
    def layer(carry, weights):
        return carry + mlp(carry, *weights), None

    return lax.scan(layer, x, (w1, w2))[0]


# --- gradients through shard_map -------------------------------------------------------------------------------------


def differentiated(name: str, of: str, **changes: Any) -> None:
    """Registers the gradient of a right program; both sides are differentiated by JAX."""
    model = next(program for program in PROGRAMS if program.name == of)
    PROGRAMS.append(replace(model, name=name, transform=gradient, **changes))


differentiated("megatron_mlp_gradient", "megatron_mlp")
differentiated("sequence_parallel_block_gradient", "sequence_parallel_block")
differentiated("gqa_attention_gradient", "gqa_attention")
differentiated("scanned_layers_gradient", "scanned_layers")
