"""Sizes that the mesh does not divide, and borders of neighbours, in `shard_map`: a causal convolution over a sharded
sequence, then a softmax over an uneven vocabulary.

    python examples/jax/uneven.py                            PROVED: the loss
    python examples/jax/uneven.py --bug next-neighbour       REFUTED: every rank gets its border from the wrong side

The vocabulary of 50 is padded to 52 over tp=4: padded classes are masked out of maximum and sum. Every rank of sp
convolves its part of the sequence and the last elements of the part in front of it, which the first rank sees as zeros.
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

BUGS = ("none", "next-neighbour", "border-too-short", "no-mask", "mask-off-by-one")
BATCH, LENGTH, WIDTH, TAPS, VOCABULARY = 4, 32, 16, 4, 50


def convolved(x, kernel, padding):
    """Along the sequence, causal where `padding` is in front."""
    return lax.conv_general_dilated(x, kernel, (1,), [padding], dimension_numbers=("NWC", "WIO", "NWC"))


def loss(x, kernel, head):
    """Mean share of the best class."""
    y = jnp.tanh(convolved(x, kernel, (TAPS - 1, 0))) @ head
    return (1 / jnp.exp(y - y.max(-1, keepdims=True)).sum(-1)).mean()


def shard(x, kernel, head, *, ranks, bug):
    """The loss on one rank: x sharded over sp, head padded and sharded over tp."""
    step = -1 if bug == "next-neighbour" else 1
    pairs = [(i, i + step) for i in range(ranks) if 0 <= i + step < ranks]
    border = lax.ppermute(x[:, -(TAPS - 1) :], "sp", pairs)
    if bug == "border-too-short":
        border = jnp.concatenate([jnp.zeros_like(border[:, :1]), border[:, 1:]], axis=1)
    y = jnp.tanh(convolved(jnp.concatenate([border, x], axis=1), kernel, (0, 0))) @ head
    bound = VOCABULARY + 1 if bug == "mask-off-by-one" else VOCABULARY
    index = lax.axis_index("tp") * y.shape[-1] + jnp.arange(y.shape[-1])
    real = jnp.full(index.shape, True) if bug == "no-mask" else index < bound
    top = lax.pmax(jnp.where(real, y, -jnp.inf).max(-1), "tp")
    total = lax.psum(jnp.where(real, jnp.exp(y - top[..., None]), 0.0).sum(-1), "tp")
    return lax.pmean((1 / total).mean(), "sp")


def pair(mesh, bug="none"):
    """Both functions and abstract arguments."""
    ways = mesh.shape["tp"]
    body = jax.shard_map(
        partial(shard, ranks=mesh.shape["sp"], bug=bug), mesh=mesh, in_specs=(P(None, "sp"), P(), P(None, "tp")),
        out_specs=P(), check_vma=False,
    )  # fmt: skip

    def parallel(x, kernel, head):
        return body(x, kernel, jnp.pad(head, ((0, 0), (0, -VOCABULARY % ways))))

    shapes = ((BATCH, LENGTH, WIDTH), (TAPS, WIDTH, WIDTH), (WIDTH, VOCABULARY))
    return loss, parallel, [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bug", choices=BUGS, default="none")
    parser.add_argument("--mesh", default="2,4", help="sizes of sp and tp")
    options = parser.parse_args(arguments)
    mesh = AbstractMesh(tuple(int(n) for n in options.mesh.split(",")), ("sp", "tp"))
    report = verify(*pair(mesh, options.bug), mesh)
    report.print()
    return report.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
