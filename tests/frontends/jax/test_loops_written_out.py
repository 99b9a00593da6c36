"""Loops that both programs have, and whose carried values differ by a factor that is there at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from scalify_dl.capture.jax import capture_step  # noqa: E402


def arguments() -> tuple[object, ...]:
    rng = np.random.default_rng(3)
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]], "float32")
    return (*(rng.normal(size=s).astype("float32") for s in ((2, 4, 4), (4, 3, 4))), mask)


def losses(w, x, mask):  # type: ignore[no-untyped-def]
    h, _ = lax.scan(lambda h, w: (h + jnp.tanh(h @ w), None), x, w)
    return ((h**2).sum(-1) * mask).sum()


def base(w, x, mask):  # type: ignore[no-untyped-def]
    return jax.grad(lambda w: losses(w, x, mask) / jnp.maximum(mask.sum(), 1))(w)


def distributed(mesh, late: bool = True):  # type: ignore[no-untyped-def]
    def local(w, x, mask):  # type: ignore[no-untyped-def]
        count = jnp.maximum(lax.psum(mask.sum(), "dp") if late else mask.sum(), 1)
        return lax.psum(jax.grad(losses)(w, x, mask), "dp") / count

    return jax.jit(jax.shard_map(
        local, mesh=mesh, in_specs=(P(), P("dp"), P("dp")), out_specs=P(), check_vma=False
    ))  # fmt: skip


@pytest.mark.parametrize(("late", "verdict"), [(True, "PROVED"), (False, "REFUTED")])
def test_a_gradient_through_layers_is_divided_by_the_count_at_the_end(
    tmp_path: Path, late: bool, verdict: str
) -> None:
    captured = capture_step(
        lambda mesh: (distributed(mesh, late), arguments()), {"dp": 2}, tmp_path / "step",
        baseline=lambda: (base, arguments()),
    )  # fmt: skip
    assert captured.verify().verdict.value == verdict


def recurrent(w, x):  # type: ignore[no-untyped-def]
    def cell(h, x):  # type: ignore[no-untyped-def]
        h = jnp.tanh(h @ w + x)
        return h, h

    _, hs = lax.scan(cell, jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1))
    return (hs**2).mean()


def accumulated(mesh, factor: float = 0.5):  # type: ignore[no-untyped-def]
    """Two micro-batches on each rank, each through a loop of its own."""

    def local(w, x):  # type: ignore[no-untyped-def]
        def micro(total, x):  # type: ignore[no-untyped-def]
            return total + jax.grad(recurrent)(w, x), None

        total, _ = lax.scan(micro, jnp.zeros_like(w), x.reshape(2, -1, *x.shape[1:]))
        return lax.pmean(total * factor, "dp")

    return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(P(), P("dp")), out_specs=P(), check_vma=False))


@pytest.mark.parametrize(("factor", "verdict"), [(0.5, "PROVED"), (1.0, "REFUTED")])
def test_loops_inside_of_a_loop_over_micro_batches_are_written_out_with_it(
    tmp_path: Path, factor: float, verdict: str
) -> None:
    rng = np.random.default_rng(5)
    given = tuple(rng.normal(size=s).astype("float32") for s in ((4, 4), (8, 3, 4)))
    captured = capture_step(
        lambda mesh: (accumulated(mesh, factor), given), {"dp": 2}, tmp_path / "step",
        baseline=lambda: (jax.grad(recurrent), given),
    )  # fmt: skip
    assert captured.verify().verdict.value == verdict
