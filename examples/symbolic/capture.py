"""Captures of one program at several sizes: what `dlverify family` and `dlverify verify --symbolic` read.

    python examples/symbolic/capture.py mlp DIRECTORY                    # at0.base.mlir, at0.dist.mlir, …, family.yaml
    python examples/symbolic/capture.py embedding DIRECTORY --bug mask-bound
    dlverify family DIRECTORY/family.yaml

Needs JAX, but no devices: the programs are traced for an abstract mesh.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import Program, capture_family

Sizes = dict[str, int]
Pair = tuple[Callable[..., Any], Callable[..., Any], Any, Any, list[jax.ShapeDtypeStruct]]
"""Baseline, what every rank does, placement of inputs and outputs, abstract arguments."""


def real(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def all_ranks(x: jax.Array, bug: str) -> jax.Array:
    """The sum over tp; with the bug `pairs` over neighbours only."""
    if bug == "no-reduction":
        return x
    groups = [[i, i + 1] for i in range(0, lax.axis_size("tp"), 2)] if bug == "pairs" else None
    return lax.psum(x, "tp", axis_index_groups=groups)


# ---- Megatron MLP: column-parallel, then row-parallel; the loss is a mean over the tokens ----


def mlp(sizes: Sizes, bug: str) -> Pair:
    batch, seq, hidden, inner, tp = (sizes[name] for name in ("batch", "seq", "hidden", "inner", "tp"))

    def base(x, w1, b1, w2, b2):
        return jax.nn.gelu(x @ w1 + b1) @ w2 + b2

    def dist(x, w1, b1, w2, b2):
        y = all_ranks(jax.nn.gelu(x @ w1 + b1) @ w2, bug)
        if bug == "bias-per-rank":
            y = all_ranks(jax.nn.gelu(x @ w1 + b1) @ w2 + b2, "")
            return y
        if bug == "half":  # right at tp=2 only
            return all_ranks(jax.nn.gelu(x @ w1 + b1) @ w2 + b2 / 2, "")
        return y + b2

    def share(x, w1, b1, w2, b2):
        """The bias comes in 1/tp on every rank."""
        return all_ranks(jax.nn.gelu(x @ w1 + b1) @ w2 + b2 / tp, "")

    specs = (P(), P(None, "tp"), P("tp"), P("tp"), P())
    args = [real(batch, seq, hidden), real(hidden, inner), real(inner), real(inner, hidden), real(hidden)]
    return base, share if bug == "right-share" else dist, specs, P(), args


# ---- the mean of squares over all tokens, the batch split over dp ----


def loss(sizes: Sizes, bug: str) -> Pair:
    batch, seq, hidden = (sizes[name] for name in ("batch", "seq", "hidden"))

    def base(x, w):
        return ((x @ w) ** 2).mean()

    def dist(x, w):
        squares = (x @ w) ** 2
        if bug == "frozen-mean":  # right at batch 2, seq 4 only
            return lax.psum(squares.sum() / (2 * 4 * 32), "tp")
        if bug == "sum":
            return lax.psum(squares.mean(), "tp")
        if bug == "half":
            return lax.psum(squares.mean() / 2, "tp")
        return lax.pmean(squares.mean(), "tp")

    return base, dist, (P("tp"), P()), P(), [real(batch, seq, hidden), real(hidden, 32)]


# ---- grouped-query attention with rotary positions: heads over tp ----


def rotary(x: jax.Array) -> jax.Array:
    """Rotary position embedding of [batch, seq, heads, head]."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(sizes: Sizes, bug: str) -> Pair:
    batch, seq, kv, tp = (sizes[name] for name in ("batch", "seq", "kv_heads", "tp"))
    width, head, share = 48, 8, 2

    def block(x, wq, wk, wv, wo):
        q, k, v = (jnp.einsum("bsd,dhk->bshk", x, w) for w in (wq, wk, wv))
        q, k = rotary(q), rotary(k)
        k, v = (jnp.repeat(t, share, axis=2) for t in (k, v))
        scores = jnp.einsum("bshk,bthk->bhst", q, k) * head**-0.5
        causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
        return jnp.einsum("bshk,hkd->bsd", jnp.einsum("bhst,bthk->bshk", weights, v), wo)

    def dist(x, wq, wk, wv, wo):
        if bug == "frozen-shard":  # the shard size of tp=2, of which a rank at tp=4 only has half
            wo = lax.dynamic_slice_in_dim(
                lax.all_gather(wo, "tp", axis=0, tiled=True),
                lax.axis_index("tp") * (share * kv // tp),
                share * kv // tp,
            )
            wo = jnp.concatenate([wo[:2], wo[2:] * 0]) if tp > 2 else wo
        return all_ranks(block(x, wq, wk, wv, wo), bug)

    specs = (P(), P(None, "tp"), P(None, "tp"), P(None, "tp"), P("tp"))
    shapes = (
        (batch, seq, width),
        (width, share * kv, head),
        (width, kv, head),
        (width, kv, head),
        (share * kv, head, width),
    )
    return block, dist, specs, P(), [real(*shape) for shape in shapes]


# ---- vocabulary-parallel embedding: every rank has a block of the rows ----


def embedding(sizes: Sizes, bug: str) -> Pair:
    batch, seq, vocab = (sizes[name] for name in ("batch", "seq", "vocab"))
    frozen = 20  # vocab / tp of the first capture

    def base(ids, table):
        return table[ids]

    def dist(ids, table):
        rows = table.shape[0]
        first = lax.axis_index("tp") * (frozen if bug == "frozen-offset" else rows)
        local = ids - first
        bound = {"mask-bound": rows + 1, "frozen-bound": frozen}.get(bug, rows)
        mine = (local >= 0) & (local < bound)
        out = jnp.where(mine[..., None], table[jnp.clip(local, 0, rows - 1)], 0)
        return all_ranks(out, bug)

    ids = jax.ShapeDtypeStruct((batch, seq), jnp.int32)
    return base, dist, (P(), P("tp")), P(), [ids, real(vocab, 16)]


PROGRAMS: dict[str, tuple[Callable[[Sizes, str], Pair], tuple[Sizes, ...], dict[str, str], tuple[str, ...]]] = {
    "mlp": (
        mlp,
        (
            {"tp": 2, "batch": 2, "seq": 4, "hidden": 32, "inner": 64},
            {"tp": 4, "batch": 6, "seq": 20, "hidden": 32, "inner": 64},
        ),
        {"batch": "0:0", "seq": "0:1"},
        ("pairs", "no-reduction", "bias-per-rank", "half", "right-share"),
    ),
    "loss": (
        loss,
        ({"tp": 2, "batch": 8, "seq": 5, "hidden": 32}, {"tp": 4, "batch": 24, "seq": 25, "hidden": 32}),
        {"batch": "0:0", "seq": "0:1"},
        ("frozen-mean", "sum", "half"),
    ),
    "attention": (
        attention,
        ({"tp": 2, "batch": 2, "seq": 5, "kv_heads": 4}, {"tp": 4, "batch": 6, "seq": 25, "kv_heads": 28}),
        {"batch": "0:0", "seq": "0:1", "kv_heads": "2:1"},
        ("pairs", "no-reduction", "frozen-shard"),
    ),
    "embedding": (
        embedding,
        ({"tp": 2, "batch": 2, "seq": 5, "vocab": 40}, {"tp": 4, "batch": 6, "seq": 25, "vocab": 280}),
        {"batch": "0:0", "seq": "0:1", "vocab": "1:0"},
        ("mask-bound", "frozen-bound", "frozen-offset", "pairs", "no-reduction"),
    ),
}


def write(name: str, bug: str, folder: Path) -> Path:
    """All captures of a program, and the family file, whose path it returns."""
    program, points, places, _ = PROGRAMS[name]

    def at(sizes: Mapping[str, int]) -> Program:
        base, dist, specs, out, args = program(dict(sizes), bug)
        mesh = AbstractMesh((sizes["tp"],), ("tp",))
        return base, jax.shard_map(dist, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False), args, mesh

    return capture_family(at, points, {"tp": None, **places}, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--bug", default="")
    options = parser.parse_args()
    bugs = PROGRAMS[options.program][3]
    if options.bug and options.bug not in bugs:
        parser.error(f"--bug {options.bug}: {options.program} has {', '.join(bugs)}")
    print("dlverify family", write(options.program, options.bug, options.directory))


if __name__ == "__main__":
    main()
