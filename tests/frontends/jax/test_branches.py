"""Branches of which nobody notices whether they run become selects; others stay."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

import scalify_dl

X, INDEX = jax.ShapeDtypeStruct((8, 4), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
MESH = AbstractMesh((2,), ("tp",))
ROWS = P("tp")


def verdict(base, body, *, out=ROWS) -> str:
    sharded = jax.shard_map(body, mesh=MESH, in_specs=(ROWS, P()), out_specs=out, check_vma=False)
    return scalify_dl.verify(base, sharded, mesh=MESH, args=[X, INDEX]).verdict


def switch(*branches):
    return lambda x, i: lax.switch(i, branches, x)


DOUBLE, TRIPLE, SINE = (lambda x: x * 2), (lambda x: x * 3), jnp.sin


def test_branches_of_shards_are_shards_of_branches() -> None:
    same = switch(DOUBLE, TRIPLE, SINE)
    assert verdict(same, same) == "PROVED"


@pytest.mark.parametrize(
    "other", [switch(TRIPLE, DOUBLE, SINE), switch(DOUBLE, SINE), lambda x, i: switch(DOUBLE, TRIPLE, SINE)(x, i + 1)]
)
def test_other_branches_are_not(other) -> None:
    assert verdict(switch(DOUBLE, TRIPLE, SINE), other) == "REFUTED"


def test_a_truth_chooses_as_where_does() -> None:
    def base(x, i):
        return lax.cond(i > 0, DOUBLE, SINE, x)

    assert verdict(base, lambda x, i: jnp.where(i > 0, x * 2, jnp.sin(x))) == "PROVED"
    assert verdict(base, lambda x, i: jnp.where(i > 0, jnp.sin(x), x * 2)) == "REFUTED"


def test_branches_in_loops_and_in_branches_are_opened() -> None:
    def base(x, i):
        inner = lambda x: lax.cond(i > 3, TRIPLE, SINE, x)  # noqa: E731
        return lax.fori_loop(0, 5, lambda n, x: lax.cond(n == i, DOUBLE, inner, x), x)

    assert verdict(base, base) == "PROVED"


def test_a_collective_in_a_branch_stays_there() -> None:
    def body(x, i):
        return lax.cond(i > 0, lambda x: lax.psum(x, "tp"), lambda x: x * 2, x)

    base = lambda x, i: lax.cond(i > 0, lambda x: x[:4] + x[4:], lambda x: x[:4] * 2, x)  # noqa: E731
    assert verdict(base, body, out=P()) != "PROVED"
