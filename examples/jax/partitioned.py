"""What XLA's SPMD partitioner makes of `jit` with shardings: a feed-forward network and its training step.

    python examples/jax/partitioned.py                          PROVED: loss and every gradient
    python examples/jax/partitioned.py --bug summed-loss        REFUTED: the step trains on another loss
    python examples/jax/partitioned.py --write dumps            the dumps and the command line, for later

The step is compiled for 8 host devices on the CPU; the module behind the partitioner is verified against the
single-device step.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import capture, verify

BUGS = ("none", "summed-loss", "gate-as-up")
BATCH, WIDTH, HIDDEN = 16, 64, 256


def network(parameters, x, bug):
    """RMSNorm, SwiGLU, residual."""
    norm = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * parameters["norm"]
    up = parameters["gate" if bug == "gate-as-up" else "up"]
    return x + (jax.nn.silu(norm @ parameters["gate"]) * (norm @ up)) @ parameters["down"]


def step(parameters, x, target, *, bug="none"):
    """Loss and gradients."""

    def loss(parameters):
        error = (network(parameters, x, bug) - target) ** 2
        return error.sum() if bug == "summed-loss" else error.mean()

    return jax.value_and_grad(loss)(parameters)


SHAPES = {"norm": (WIDTH,), "gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
SPECS = {"norm": P(), "gate": P(None, "tp"), "up": P(None, "tp"), "down": P("tp")}


def pair(mesh, bug="none"):
    """Both steps, abstract arguments, the mesh and the shardings of the arguments."""
    parameters = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in SHAPES.items()}
    batch = jax.ShapeDtypeStruct((BATCH, WIDTH), jnp.float32)
    return step, partial(step, bug=bug), (parameters, batch, batch), mesh, (SPECS, P("dp"), P("dp"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bug", choices=BUGS, default="none")
    parser.add_argument("--write", metavar="DIR", help="only write the dumps")
    options = parser.parse_args(arguments)
    mesh = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)
    if options.write:
        print(capture(*pair(mesh, options.bug), directory=options.write, name="step").command)
        return 0
    report = verify(*pair(mesh, options.bug))
    report.print()
    return report.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
