"""Grouped-query attention with heads split over `tp`, written with shard_map, and its gradient.

python examples/jax/gqa.py                           PROVED
python examples/jax/gqa.py --gradient                PROVED, value and all gradients
python examples/jax/gqa.py --bug neighbour-kv-head   REFUTED, and where
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import verify

BUGS = ("none", "missing-psum", "keys-as-values", "neighbour-kv-head", "scale-by-local-heads")
BATCH, SEQUENCE, WIDTH, HEADS, KV_HEADS, HEAD = 4, 32, 128, 16, 8, 16


def attention(q, k, v, scale):
    """Causal attention; every kv head serves HEADS // KV_HEADS query heads."""
    k, v = (jnp.repeat(t, HEADS // KV_HEADS, axis=2) for t in (k, v))
    scores = jnp.einsum("bshk,bthk->bhst", q, k) * scale
    causal = jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
    return jnp.einsum("bhst,bthk->bshk", weights, v)


def project(x, wq, wk, wv):
    """Queries, keys and values."""
    return (jnp.einsum("bsd,dhk->bshk", x, w) for w in (wq, wk, wv))


def gqa(x, wq, wk, wv, wo):
    """What one device computes."""
    q, k, v = project(x, wq, wk, wv)
    return jnp.einsum("bshk,hkd->bsd", attention(q, k, v, HEAD**-0.5), wo)


def shard(x, wq, wk, wv, wo, *, bug):
    """What every rank computes with its heads."""
    q, k, v = project(x, wq, wk, wk if bug == "keys-as-values" else wv)
    if bug == "neighbour-kv-head":
        ranks = lax.axis_size("tp")
        k = lax.ppermute(k, "tp", [(i, (i + 1) % ranks) for i in range(ranks)])
    scale = wq.shape[1] ** -0.5 if bug == "scale-by-local-heads" else HEAD**-0.5
    out = jnp.einsum("bshk,hkd->bsd", attention(q, k, v, scale), wo)
    return out if bug == "missing-psum" else lax.psum(out, "tp")


def value_and_gradients(function):
    """Value of the sum of squares, and its gradients by all arguments."""
    return lambda *args: jax.value_and_grad(lambda *a: (function(*a) ** 2).sum(), range(len(args)))(*args)


def pair(mesh, bug="none", gradient=False):
    """Both functions and abstract arguments."""
    specs = (P("dp"), P(None, "tp"), P(None, "tp"), P(None, "tp"), P("tp"))
    body = partial(shard, bug=bug)
    dist = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("dp"), check_vma=bug == "none")
    shapes = (
        (BATCH, SEQUENCE, WIDTH),
        (WIDTH, HEADS, HEAD),
        (WIDTH, KV_HEADS, HEAD),
        (WIDTH, KV_HEADS, HEAD),
        (HEADS, HEAD, WIDTH),
    )
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return (value_and_gradients(gqa), value_and_gradients(dist), args) if gradient else (gqa, dist, args)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bug", choices=BUGS, default="none")
    parser.add_argument("--gradient", action="store_true")
    options = parser.parse_args(arguments)
    mesh = AbstractMesh((2, 4), ("dp", "tp"))
    report = verify(*pair(mesh, options.bug, options.gradient), mesh)
    report.print()
    return report.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
