"""What a library computes in PyTorch, against the same written by hand in JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pytest.importorskip("transformers.models.llama.modeling_llama")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import scalify_dl  # noqa: E402

from .test_models_of_libraries import QKV, eager, written  # noqa: E402


def scanned(q: Any, k: Any, v: Any, *, rescaled: bool = True) -> Any:
    """Attention over two blocks of keys, by a scan."""
    k, v = (jnp.repeat(x, 2, 1) for x in (k, v))

    def step(carry: Any, j: Any) -> Any:
        top, total, out = carry
        keys, values = (lax.dynamic_slice_in_dim(x, 2 * j, 2, 2) for x in (k, v))
        later = (jnp.arange(2) + 2 * j)[None] > jnp.arange(4)[:, None]
        scores = jnp.where(later, -jnp.inf, jnp.einsum("bhqd,bhkd->bhqk", q, keys) * 0.5)
        higher = jnp.maximum(top, scores.max(-1, keepdims=True))
        weights, old = jnp.exp(scores - higher), jnp.exp(top - higher)
        out = (out * old if rescaled else out) + weights @ values
        return (higher, total * old + weights.sum(-1, keepdims=True), out), None

    start = jnp.full((1, 2, 4, 1), -jnp.inf), jnp.zeros((1, 2, 4, 1)), jnp.zeros((1, 2, 4, 2))
    (_, total, out), _ = lax.scan(step, start, jnp.arange(2))
    return (out / total).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("rescaled", [True, False])
def test_a_scan_in_jax_is_what_the_library_computes(rescaled: bool, tmp_path: Path) -> None:
    base = written(tmp_path / "base.fx.txt", eager, *map(torch.rand, QKV))
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in QKV]
    dist, relate = tmp_path / "dist.mlir", tmp_path / "relate.yaml"
    dist.write_text(jax.jit(lambda *a: scanned(*a, rescaled=rescaled)).lower(*arrays).as_text(debug_info=True))
    relate.write_text("{}")
    found = scalify_dl.verify(base, str(dist), mesh="x=1", relate=str(relate)).verdict
    assert found == ("PROVED" if rescaled else "REFUTED")
