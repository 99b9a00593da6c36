"""Functions without an op of XLA's, which its partitioner writes as polynomials."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import capture, verify
from scalify_dl.capture.jax.expanded import expanded
from scalify_dl.prove.verdict import Verdict

FUNCTIONS = {
    "the exact GELU": lambda x: jax.nn.gelu(x, approximate=False),
    "several, beside such as XLA has": lambda x: lax.lgamma(jnp.abs(x) + 1) + lax.erf(x) + jnp.arcsin(jnp.tanh(x)),
}
SPLIT = ({"w1": P(None, "tp"), "w2": P("tp")}, P("dp"))


def step(function, *, factor=1.0):
    def loss(weights, x):
        return (lax.top_k(function(x @ weights["w1"]) @ weights["w2"], 3)[0] * factor).sum()

    return jax.value_and_grad(loss)


@pytest.fixture
def mesh():
    return jax.make_mesh((2, 2), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)


@pytest.fixture
def arguments():
    def of(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    return {"w1": of(16, 32), "w2": of(32, 16)}, of(8, 16)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_is_expanded_on_one_side_is_on_the_other(name, mesh, arguments):
    one = step(FUNCTIONS[name])
    assert verify(one, one, arguments, mesh, SPLIT).verdict is Verdict.PROVED
    assert verify(one, step(FUNCTIONS[name], factor=2.0), arguments, mesh, SPLIT).verdict is Verdict.REFUTED


def test_what_the_partitioner_keeps_is_kept(mesh, arguments, tmp_path):
    one = step(FUNCTIONS["several, beside such as XLA has"])
    text = capture(one, one, arguments, mesh, SPLIT, directory=tmp_path).base.read_text("utf-8")
    assert "chlo.lgamma" not in text
    assert "chlo.erf " in text
    assert "chlo.top_k" in text


OF_EIGHT_BITS = """module @m {
  func.func public @main(%arg0: tensor<4xf8E8M0FNU>) -> tensor<4xf8E8M0FNU> {
    %0 = chlo.erfc %arg0 : tensor<4xf8E8M0FNU> -> tensor<4xf8E8M0FNU>
    return %0 : tensor<4xf8E8M0FNU>
  }
}
"""


@pytest.mark.parametrize("text", [OF_EIGHT_BITS, OF_EIGHT_BITS.replace("chlo.erfc", "chlo.of_a_later_version")])
def test_what_cannot_be_expanded_stays_as_it_is(text):
    assert expanded(text, "HloModule") == text
