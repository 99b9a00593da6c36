"""A Megatron MLP written with shard_map, verified against the single-device one.

    python examples/jax/mlp.py                        PROVED
    python examples/jax/mlp.py --bug missing-psum     REFUTED, and where

Weights are split over `tp`, the batch over `dp`. Nothing is executed: the mesh is abstract, of any size (--mesh 16,8).
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

BUGS = ("none", "missing-psum", "psum-over-dp", "bias-on-every-rank", "activation-of-partial", "mean-not-sum")


def mlp(x, w1, w2, b):
    """What one device computes."""
    return jax.nn.gelu(x @ w1) @ w2 + b


def shard(x, w1, w2, b, *, bug):
    """What every rank computes on its shards."""
    if bug == "activation-of-partial":
        # w1 split on rows: x @ w1 is a partial sum, and gelu is not linear
        width = x.shape[1] // lax.axis_size("tp")
        mine = lax.dynamic_slice_in_dim(x, lax.axis_index("tp") * width, width, 1)
        return lax.psum(jax.nn.gelu(mine @ w1), "tp") @ w2 + b
    y = jax.nn.gelu(x @ w1) @ w2
    if bug == "missing-psum":
        return y + b
    if bug == "bias-on-every-rank":
        return lax.psum(y + b, "tp")
    if bug == "mean-not-sum":
        return lax.pmean(y, "tp") + b
    return lax.psum(y, "dp" if bug == "psum-over-dp" else "tp") + b


def pair(mesh, bug="none", batch=64, width=256, hidden=1024):
    """Both functions and abstract arguments."""
    specs = (P("dp"), P(None, "tp"), P("tp"), P())
    if bug == "activation-of-partial":
        specs = (P("dp"), P("tp"), P(), P())
    body = partial(shard, bug=bug)
    # JAX's own replication check is off: what it would refuse is what is shown here
    dist = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("dp"), check_vma=False)
    shapes = ((batch, width), (width, hidden), (hidden, width), (width,))
    return mlp, dist, [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bug", choices=BUGS, default="none")
    parser.add_argument("--mesh", default="2,4", help="sizes of dp and tp")
    options = parser.parse_args(arguments)
    mesh = AbstractMesh(tuple(int(n) for n in options.mesh.split(",")), ("dp", "tp"))
    report = verify(*pair(mesh, options.bug), mesh)
    report.print()
    return report.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
