"""Ranks that draw with keys of their own: made of one key and of the rank's number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from scalify_dl.capture.jax import capture_step  # noqa: E402

Draw = Callable[[Any, int], Any]
ROWS, DIM = 4, 3


def arguments() -> tuple[object, ...]:
    rng = np.random.default_rng(5)
    return np.asarray([7, 11], "uint32"), *(rng.normal(size=s).astype("float32") for s in ((ROWS, DIM), (DIM, DIM)))


def mask(key: Any, rows: int) -> Any:
    return jax.random.bernoulli(key, 0.75, (rows, DIM)).astype("float32")


def noise(key: Any, rows: int) -> Any:
    return jax.random.normal(key, (rows, DIM))


def loss(w: Any, x: Any, drawn: Any) -> Any:
    return ((x @ w) ** 2 * drawn).sum()


def folded(key: Any, rank: Any) -> Any:
    return jax.random.fold_in(key, rank)


def split(key: Any, rank: Any) -> Any:
    return jax.random.split(key, 2)[rank]


def baseline(own: Callable[[Any, Any], Any], draw: Draw) -> Callable[..., Any]:
    def base(key: Any, x: Any, w: Any) -> Any:
        drawn = jnp.concatenate([draw(own(key, i), ROWS // 2) for i in range(2)])
        return jax.value_and_grad(loss)(w, x, drawn)

    return base


def distributed(mesh: Any, own: Callable[[Any, Any], Any], draw: Draw, number: Callable[[], Any]) -> Any:
    def local(key: Any, x: Any, w: Any) -> Any:
        return lax.psum(jax.value_and_grad(loss)(w, x, draw(own(key, number()), x.shape[0])), "dp")

    specs = (P(), P("dp"), P())
    return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False))


def verdict(folder: Path, own: Callable[[Any, Any], Any], draw: Draw, number: Callable[[], Any]) -> str:
    captured = capture_step(
        lambda mesh: (distributed(mesh, own, draw, number), arguments()), {"dp": 2, "tp": 2}, folder / "step",
        baseline=lambda: (baseline(own, draw), arguments()),
    )  # fmt: skip
    return str(captured.verify().verdict.value)


@pytest.mark.parametrize("own", [folded, split])
@pytest.mark.parametrize("draw", [mask, noise])
def test_each_rank_draws_its_rows_with_its_own_key(tmp_path: Path, own: Callable[[Any, Any], Any], draw: Draw) -> None:
    assert verdict(tmp_path, own, draw, lambda: lax.axis_index("dp")) == "PROVED"


@pytest.mark.parametrize(
    "number", [lambda: 1 - lax.axis_index("dp"), lambda: lax.axis_index("tp"), lambda: 0 * lax.axis_index("dp")]
)
def test_another_number_draws_other_rows(tmp_path: Path, number: Callable[[], Any]) -> None:
    assert verdict(tmp_path, folded, mask, number) == "REFUTED"


@pytest.mark.parametrize(("sign", "expected"), [(1, "PROVED"), (-1, "REFUTED")])
def test_what_is_made_of_a_number_meets_what_each_rank_has(tmp_path: Path, sign: int, expected: str) -> None:
    key, ids = np.asarray([7, 11], "uint32"), np.arange(3, 9, dtype="uint32")

    def salt(key: Any, rank: Any) -> Any:
        return jnp.full((3,), key[0] ^ rank.astype("uint32"))

    def base(key: Any, ids: Any) -> Any:
        return jnp.concatenate([salt(key, jnp.int32(i)) for i in range(2)]) ^ ids

    def build(mesh: Any) -> Any:
        def local(key: Any, ids: Any) -> Any:
            rank = lax.axis_index("dp")
            return salt(key, rank if sign > 0 else 1 - rank) ^ ids

        specs = (P(), P("dp"))
        return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P("dp"), check_vma=False)), (key, ids)

    captured = capture_step(build, {"dp": 2}, tmp_path / "step", baseline=lambda: (base, (key, ids)))
    assert captured.verify().verdict.value == expected
