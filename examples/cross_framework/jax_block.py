"""The same decoder block in JAX, tensor-parallel in shard_map, verified against the PyTorch one.

    python examples/cross_framework/jax_block.py                          PROVED
    python examples/cross_framework/jax_block.py --bug missing-psum       REFUTED, and where
    python examples/cross_framework/jax_block.py --bug no-causal-mask     REFUTED, and where

The baseline is `dump/block.base.fx.txt`, captured from PyTorch by `torch_block.py`: only JAX is needed here. Arguments
are in the order of the torch parameters, so inputs pair by position; layouts, op sets and source stacks differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude
from scalify_dl.report.terminal import render

BATCH, SEQUENCE, WIDTH, HIDDEN, HEADS, HEAD = 2, 16, 64, 128, 4, 16
BUGS = ("none", "missing-psum", "no-causal-mask", "gate-and-up-swapped", "epsilon")
BASELINE = Path(__file__).parent / "dump" / "block.base.fx.txt"
SHAPES = {
    "norm1": ((WIDTH,), P()),
    "norm2": ((WIDTH,), P()),
    "q": ((HEADS * HEAD, WIDTH), P("tp")),
    "k": ((HEADS * HEAD, WIDTH), P("tp")),
    "v": ((HEADS * HEAD, WIDTH), P("tp")),
    "o": ((WIDTH, HEADS * HEAD), P(None, "tp")),
    "gate": ((HIDDEN, WIDTH), P("tp")),
    "up": ((HIDDEN, WIDTH), P("tp")),
    "down": ((WIDTH, HIDDEN), P(None, "tp")),
    "x": ((BATCH, SEQUENCE, WIDTH), P("dp")),
}
"""Weights as torch has them, [out, in]."""


def norm(x, scale, epsilon=1e-6):
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + epsilon) * scale


def block(norm1, norm2, q, k, v, o, gate, up, down, x, *, bug):
    """What every rank computes with its heads and its part of the hidden dim."""
    reduce = (lambda y: y) if bug == "missing-psum" else partial(lax.psum, axis_name="tp")
    h = norm(x, norm1, 1e-5 if bug == "epsilon" else 1e-6)
    q, k, v = (jnp.einsum("bsd,hkd->bshk", h, w.reshape(-1, HEAD, WIDTH)) for w in (q, k, v))
    scores = jnp.einsum("bshk,bthk->bhst", q, k) * HEAD**-0.5
    if bug != "no-causal-mask":
        position = jnp.arange(SEQUENCE)
        scores = jnp.where(position[:, None] >= position[None, :], scores, -jnp.inf)
    mixed = jnp.einsum("bhst,bthk->bshk", jax.nn.softmax(scores, -1), v)
    x = x + reduce(jnp.einsum("bshk,dhk->bsd", mixed, o.reshape(WIDTH, -1, HEAD)))
    h = norm(x, norm2)
    gate, up = (up, gate) if bug == "gate-and-up-swapped" else (gate, up)
    x = x + reduce((jax.nn.silu(h @ gate.T) * (h @ up.T)) @ down.T)
    return lax.psum(jnp.square(x).sum(), "dp")


def program(bug="none"):
    """StableHLO of the distributed block on a mesh of dp=2, tp=2; nothing is executed."""
    mesh = AbstractMesh((2, 2), ("dp", "tp"))
    specs = tuple(spec for _, spec in SHAPES.values())
    function = jax.shard_map(partial(block, bug=bug), mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape, _ in SHAPES.values()]
    return jax.jit(function, keep_unused=True).trace(*args).lower(lowering_platforms=("cpu",)).as_text(debug_info=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bug", choices=BUGS, default="none")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        dump = Path(directory) / "block.dist.mlir"
        dump.write_text(program(options.bug), "utf-8")
        facts = export(BASELINE, dump, "dp=2,tp=2")
    report = conclude(analyse(facts, Options()))
    render(report)
    return report.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
