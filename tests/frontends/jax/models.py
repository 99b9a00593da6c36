"""Language models in plain JAX for tests: Llama (GQA, rotary, RMSNorm, SwiGLU) and a mixture of experts, with grads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


@dataclass(frozen=True)
class Config:
    """Sizes of a model."""

    layers: int = 2
    width: int = 32
    hidden: int = 64
    heads: int = 8
    kv_heads: int = 4
    head: int = 8
    vocabulary: int = 128
    batch: int = 4
    sequence: int = 16
    experts: int = 0
    chosen: int = 2
    scanned: bool = False


def layer_parameters(c: Config) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and partition of the parameters of a layer."""
    parameters = {
        "norm1": ((c.width,), P()),
        "q": ((c.width, c.heads, c.head), P(None, "tp")),
        "k": ((c.width, c.kv_heads, c.head), P(None, "tp")),
        "v": ((c.width, c.kv_heads, c.head), P(None, "tp")),
        "o": ((c.heads, c.head, c.width), P("tp")),
        "norm2": ((c.width,), P()),
    }
    if c.experts:
        parameters["router"] = ((c.width, c.experts), P())
        parameters["gate"] = parameters["up"] = ((c.experts, c.width, c.hidden), P("tp"))
        parameters["down"] = ((c.experts, c.hidden, c.width), P("tp"))
    else:
        parameters["gate"] = parameters["up"] = ((c.width, c.hidden), P(None, "tp"))
        parameters["down"] = ((c.hidden, c.width), P("tp"))
    return parameters


def arguments(c: Config) -> tuple[Any, Any]:
    """Abstract arguments (parameters, tokens) and their partition."""
    layer = layer_parameters(c)
    stacked = [
        {
            name: (jax.ShapeDtypeStruct((c.layers, *shape), jnp.float32), P(None, *spec))
            for name, (shape, spec) in layer.items()
        }
    ]
    each = [
        {name: (jax.ShapeDtypeStruct(shape, jnp.float32), spec) for name, (shape, spec) in layer.items()}
        for _ in range(c.layers)
    ]
    both = {
        "embedding": (jax.ShapeDtypeStruct((c.vocabulary, c.width), jnp.float32), P("tp")),
        "layers": stacked[0] if c.scanned else each,
        "norm": (jax.ShapeDtypeStruct((c.width,), jnp.float32), P()),
        "head": (jax.ShapeDtypeStruct((c.width, c.vocabulary), jnp.float32), P(None, "tp")),
    }
    tokens = (jax.ShapeDtypeStruct((c.batch, c.sequence), jnp.int32), P("dp"))

    def pick(n: int) -> Any:
        return tuple(
            jax.tree.map(lambda pair: pair[n], tree, is_leaf=lambda leaf: isinstance(leaf, tuple))
            for tree in (both, tokens)
        )

    return pick(0), pick(1)


def rms_norm(x, scale):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def rotary(x):
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] / 10000.0 ** (jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(x, w, c: Config):
    q = rotary(jnp.einsum("bsd,dhk->bshk", x, w["q"]))
    k = rotary(jnp.einsum("bsd,dhk->bshk", x, w["k"]))
    v = jnp.einsum("bsd,dhk->bshk", x, w["v"])
    k, v = (jnp.repeat(t, c.heads // c.kv_heads, axis=2) for t in (k, v))
    scores = jnp.einsum("bshk,bthk->bhst", q, k) * c.head**-0.5
    causal = jnp.tril(jnp.ones((c.sequence, c.sequence), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
    return jnp.einsum("bshk,hkd->bsd", jnp.einsum("bhst,bthk->bshk", weights, v), w["o"])


def feed_forward(x, w, c: Config):
    if not c.experts:
        return (jax.nn.silu(x @ w["gate"]) * (x @ w["up"])) @ w["down"]
    scores = jax.nn.softmax(x @ w["router"], -1)
    best, chosen = lax.top_k(scores, c.chosen)
    best = best / best.sum(-1, keepdims=True)
    weight = (jax.nn.one_hot(chosen, c.experts) * best[..., None]).sum(-2)
    hidden = jax.nn.silu(jnp.einsum("bsd,edf->besf", x, w["gate"])) * jnp.einsum("bsd,edf->besf", x, w["up"])
    return jnp.einsum("besf,efd,bse->bsd", hidden, w["down"], weight)


def block(x, w, c: Config):
    x = x + attention(rms_norm(x, w["norm1"]), w, c)
    return x + feed_forward(rms_norm(x, w["norm2"]), w, c)


def forward(c: Config):
    """Logits of tokens."""

    def run(parameters, tokens):
        x = parameters["embedding"][tokens]
        if c.scanned:
            x = lax.scan(lambda x, w: (block(x, w, c), None), x, parameters["layers"])[0]
        else:
            for w in parameters["layers"]:
                x = block(x, w, c)
        return rms_norm(x, parameters["norm"]) @ parameters["head"]

    return run


def gradient(c: Config):
    """Loss (next-token cross-entropy) and gradients of all parameters."""

    def loss(parameters, tokens):
        logits = jax.nn.log_softmax(forward(c)(parameters, tokens)[:, :-1], -1)
        return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()

    return jax.value_and_grad(loss)
