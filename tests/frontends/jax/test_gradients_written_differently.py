"""Gradients of layers that are written differently over ranks: residuals differ, and so do the steps behind them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import verify
from scalify_dl.prove.verdict import Verdict

MODEL, HEAD, ROWS = 32, 8, 4
X = jax.ShapeDtypeStruct((2, ROWS, MODEL), jnp.float32)
W = jax.ShapeDtypeStruct((MODEL, MODEL), jnp.float32)
LAYER = {"q": W, "k": W, "v": W, "o": W, "gain": jax.ShapeDtypeStruct((MODEL,), jnp.float32)}
COLUMNS, SPLIT = P(None, "tp"), P("tp")
SPECS = {"q": COLUMNS, "k": COLUMNS, "v": COLUMNS, "o": SPLIT, "gain": P()}


def heads(x):
    return x.reshape(*x.shape[:2], -1, HEAD).transpose(0, 2, 1, 3)


def joined(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def single(x, layers):
    for w in layers:
        y = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w["gain"]
        q, k, v = (heads(y @ w[name]) for name in "qkv")
        weights = jax.nn.softmax(jnp.einsum("bhsd,bhtd->bhst", q, k) * 0.25, -1)
        x = x + joined(weights @ v) @ w["o"]
    return x


def ranks(power):
    def forward(x, layers):
        for w in layers:
            y = x * lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) / MODEL + 1e-6) * w["gain"]
            q, k, v = (heads(y @ w[name]) for name in "qkv")
            scores = jnp.einsum("bhsd,bhtd->bhst", q * 0.25, k)
            shifted = jnp.exp(scores - lax.stop_gradient(scores.max(-1, keepdims=True)))
            x = x + lax.psum(joined(shifted @ v / shifted.sum(-1, keepdims=True) ** power) @ w["o"], "tp")
        return x

    return forward


def gradients(forward):
    return jax.value_and_grad(lambda x, layers: jnp.mean(forward(x, layers) ** 2), argnums=(0, 1))


@pytest.mark.parametrize(("depth", "power", "found"), [(1, 1, True), (4, 1, True), (2, 2, False)])
def test_attention_that_is_divided_behind_its_product(depth, power, found):
    mesh = jax.make_mesh((2,), ("tp",), axis_types=(AxisType.Auto,))
    dist = jax.shard_map(ranks(power), mesh=mesh, in_specs=(P(), [SPECS] * depth), out_specs=P())
    report = verify(gradients(single), gradients(dist), (X, [LAYER] * depth), mesh)
    assert report.verdict is (Verdict.PROVED if found else Verdict.REFUTED)
