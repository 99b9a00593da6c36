"""Recurrences whose gates are split over a mesh axis, behind XLA's partitioner."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import verify
from scalify_dl.prove.verdict import Verdict


def lstm(weights, xs, ys):
    def cell(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ weights["x"] + h @ weights["h"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((xs.shape[1], 16))
    return ((lax.scan(cell, (zeros, zeros), xs)[1] - ys) ** 2).mean()


def test_a_recurrence_of_gates_that_are_split_and_its_gradient() -> None:
    mesh = jax.make_mesh((2, 2), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)

    def of(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    arguments = ({"x": of(12, 64), "h": of(16, 64)}, of(6, 8, 12), of(6, 8, 16))
    split = ({"x": P(None, "tp"), "h": P(None, "tp")}, P(None, "dp"), P(None, "dp"))
    step = jax.value_and_grad(lstm)
    assert verify(step, step, arguments, mesh, split).verdict is Verdict.PROVED
