"""`scalify_dl.verify` on live JAX: `shard_map`, builders of steps."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="needs jax")

import jax.numpy as jnp  # noqa: E402
from jax.sharding import AbstractMesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import scalify_dl  # noqa: E402
from scalify_dl.errors import InputError  # noqa: E402

ARGS = (jax.ShapeDtypeStruct((2, 8), jnp.float32), jax.ShapeDtypeStruct((8, 4), jnp.float32))


def whole(x: Any, w: Any) -> Any:
    return x @ w


def sharded(mesh: Any, reduce: bool) -> Any:
    def local(x: Any, w: Any) -> Any:
        return jax.lax.psum(x @ w, "tp") if reduce else x @ w

    return jax.shard_map(local, mesh=mesh, in_specs=(P(None, "tp"), P("tp")), out_specs=P(), check_vma=False)


@pytest.mark.parametrize(("reduce", "verdict"), [(True, "PROVED"), (False, "REFUTED")])
def test_shard_map_against_a_function(reduce: bool, verdict: str) -> None:
    mesh = AbstractMesh((2,), ("tp",))
    report = scalify_dl.verify(whole, sharded(mesh, reduce), mesh=mesh, args=ARGS)
    assert report.verdict == verdict


def test_a_builder_of_a_step() -> None:
    def build(mesh: Any = None) -> Any:
        return (whole if mesh is None else sharded(mesh, True)), ARGS

    assert scalify_dl.verify(build, mesh={"tp": 2}).verdict == "PROVED"


def test_functions_without_arguments_are_refused() -> None:
    mesh = AbstractMesh((2,), ("tp",))
    with pytest.raises(InputError, match="no arguments"):
        scalify_dl.verify(whole, sharded(mesh, True), mesh=mesh)


def test_a_mapping_will_do_for_the_mesh_of_shard_map() -> None:
    mesh = jax.sharding.AbstractMesh((2,), ("tp",))
    spec = jax.sharding.PartitionSpec
    add = jax.shard_map(lambda x: x + x, mesh=mesh, in_specs=(spec("tp"),), out_specs=spec("tp"))
    x = jax.ShapeDtypeStruct((4, 4), "float32")
    assert scalify_dl.verify(lambda x: 2 * x, add, mesh={"tp": 2}, args=(x,)).verdict == "PROVED"
    with pytest.raises(InputError, match="`args` is a ShapeDtypeStruct"):
        scalify_dl.verify(lambda x: 2 * x, add, mesh={"tp": 2}, args=x)


def boo(x: Any, w: Any) -> Any:
    raise LookupError("no such layer")


def branches(x: Any, w: Any) -> Any:
    return x if x.sum() > 0 else w


@pytest.mark.parametrize(
    ("base", "dist", "said"),
    [
        (boo, whole, r"test_live_jax\.py:\d+: the baseline raises LookupError: no such layer"),
        (whole, boo, r"test_live_jax\.py:\d+: the distributed program raises LookupError"),
        (whole, branches, r"test_live_jax\.py:\d+: the distributed program raises TracerBoolConversionError"),
        (lambda x: x, whole, "the baseline raises TypeError"),
        (whole, 3, "the distributed program raises TypeError"),
    ],
)
def test_errors_of_the_program_are_told_at_their_line(base: Any, dist: Any, said: str) -> None:
    mesh = AbstractMesh((2,), ("tp",))
    if callable(dist):
        dist = jax.shard_map(dist, mesh=mesh, in_specs=(P(), P()), out_specs=P(), check_vma=False)
    with pytest.raises(InputError, match=said) as caught:
        scalify_dl.verify(base, dist, mesh=mesh, args=ARGS)
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    assert "site-packages" not in notes, "only lines of the program"


def test_what_shard_map_refuses_is_told_with_all_that_it_says() -> None:
    mesh = AbstractMesh((3,), ("tp",))
    with pytest.raises(InputError, match="not evenly divisible") as caught:
        scalify_dl.verify(whole, sharded(mesh, True), mesh=mesh, args=ARGS)
    assert "3 does not evenly divide 8" in caught.value.__notes__[0]


def test_arguments_that_are_no_arrays_are_refused() -> None:
    mesh = AbstractMesh((2,), ("tp",))
    with pytest.raises(InputError, match="an argument has a str in it"):
        scalify_dl.verify(whole, sharded(mesh, True), mesh=mesh, args=("x", "w"))
