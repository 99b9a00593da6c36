"""HLO lowered and run by the oracle gives what JAX gives: as traced, and as compiled with fusions and bitcasts."""
# ruff: noqa: E501 (tables of functions)

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax", reason="JAX writes the HLO text of these tests; the `jax` extra is not installed")
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

from scalify_dl.ir.mesh import Mesh  # noqa: E402
from scalify_dl.oracle import load_program, run_trial  # noqa: E402
from scalify_dl.oracle.inputs import baseline_inputs  # noqa: E402
from scalify_dl.pairing.export import tables  # noqa: E402
from scalify_dl.readers import hlo  # noqa: E402

X = jax.ShapeDtypeStruct((6, 8), jnp.float32)
Y = jax.ShapeDtypeStruct((8, 5), jnp.float32)
I = jax.ShapeDtypeStruct((4,), jnp.int32)  # noqa: E741
S = jax.ShapeDtypeStruct((), jnp.int32)
IMAGE = jax.ShapeDtypeStruct((2, 6, 7, 4), jnp.float32)
KERNEL = jax.ShapeDtypeStruct((3, 2, 4, 6), jnp.float32)
NHWC = ("NHWC", "HWIO", "NHWC")

PROGRAMS = {
    "elementwise": (lambda x: jnp.tanh(x) * jnp.exp(-x) + jnp.sign(x) - jnp.clip(x, -0.5, 0.5) + lax.erf(x), X),
    "casts": (lambda x: x.astype(jnp.bfloat16).astype(jnp.float32) + lax.reduce_precision(x, 8, 7), X),
    "logic": (lambda x: jnp.where((x > 0) & ~(x > 1) | jnp.isinf(x), x, -x), X),
    "bits": (lambda i: (i << 2) ^ (i >> 1) | lax.population_count(i) + lax.clz(i), I),
    "structure": (lambda x: jnp.concatenate([x.T.reshape(4, 12)[::-1, 1:9:2], jnp.pad(x, ((0, 0), (1, 2)))[:4, ::3]], 1), X),
    "interior padding": (lambda x: lax.pad(x, 0.5, ((-1, 0, 1), (2, -1, 0))), X),
    "broadcast in another order": (lambda x: lax.broadcast_in_dim(x, (8, 3, 6), (2, 0)), X),
    "reductions": (lambda x: jax.nn.softmax(x, 0) + x.max(1, keepdims=True) * x.prod(0) - jnp.var(x), X),
    "reduction from a value": (lambda x: x.max(1, initial=0.25) + lax.reduce(x, np.float32(0.5), lax.add, (1,)), X),
    "index reductions": (lambda x: x.argmax(1) * 10 + x.argmin(1), X),
    "running reductions": (lambda x: jnp.cumsum(x, 1) + lax.cummax(x, 0, reverse=True), X),
    "order": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), -jnp.sort(-x, 0), lax.top_k(x, 3)), X),
    "contractions": (lambda x, y: (x @ y, jnp.einsum("ab,bc->ca", x, y), jnp.outer(x[0], y[0])), X, Y),
    "convolution": (lambda x, w: lax.conv_general_dilated(x, w, (2, 1), ((1, 0), (2, 2)), rhs_dilation=(2, 1), dimension_numbers=NHWC), IMAGE, KERNEL),
    "gradient of a convolution": (jax.grad(lambda x, w: (lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=NHWC) ** 2).sum(), (0, 1)), IMAGE, KERNEL),
    "pooling": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"), X),
    "indexing": (lambda x, i, s: x[i] + x[:, i][:4, :1] + lax.dynamic_slice(x, (s, s), (4, 8)), X, I, S),
    "updates": (lambda x, i, s: x.at[i].add(0.5) + lax.dynamic_update_slice(x, x[:2, :2] * 3, (s, s)), X, I, S),
    "embedding and its gradient": (jax.value_and_grad(lambda t, i: (t[i] ** 2).sum()), X, I),
    "branches": (lambda x, s: lax.switch(s, [jnp.sin, jnp.cos, lambda y: y + x[0, 0]], x) + lax.cond(s > 1, jnp.exp, jnp.abs, x), X, S),
    "loops": (lambda x, s: lax.scan(lambda c, row: (c + row, c * row), x[0], x), X, S),
    "loops with a limit": (lambda x, s: lax.while_loop(lambda c: c[0] < s, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1], X, S),
    "calls": (lambda x: jax.jit(jnp.sin)(jax.jit(jnp.cos)(x)) + jax.jit(jnp.cos)(x), X),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True], ids=["traced", "compiled"])
@pytest.mark.parametrize("case", PROGRAMS)
def test_lowered_programs_compute_what_jax_computes(case: str, compiled: bool) -> None:
    function, *abstract = PROGRAMS[case]
    lowered = jax.jit(function, keep_unused=True).lower(*abstract)
    text = lowered.compile().as_text() if compiled else lowered.compiler_ir("hlo").as_hlo_text()
    graph = hlo.read_text(text)
    assert not [op for op in graph.ops if op.kind.startswith(("unknown:", "custom:"))]
    assert not [op for op in graph.ops if any("region" in values for values in op.symbols.values())]
    mesh = Mesh((("r", 1),))
    program = load_program(tables(graph, [hlo.read_text(text, mesh)], mesh).tables)
    (base,) = program.top("base")
    trial = run_trial(program, 0, "reals", only="base", rounding=True)
    drawn = baseline_inputs(program, "reals", 0)
    arguments = [jnp.asarray(drawn[t][0].astype(a.dtype)) for t, a in zip(base.inputs, abstract, strict=True)]
    expected = jax.tree.leaves(function(*arguments))
    assert len(expected) == len(base.outputs)
    for tensor, want in zip(base.outputs, expected, strict=True):
        got = trial.baseline[tensor]
        assert got.shape == want.shape
        np.testing.assert_allclose(got.astype(want.dtype), np.asarray(want), rtol=5e-4, atol=5e-4)
