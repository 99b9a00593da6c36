"""Reads of a table that is cut over ranks, by ids that the program itself keeps within some ranks' rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import verify
from scalify_dl.prove.verdict import Verdict


def test_a_rank_whose_rows_nobody_reads_is_no_contradiction() -> None:
    def base(table, ids):
        return table[jnp.clip(ids, 0, 3)]

    def body(table, ids):
        place = jnp.clip(ids, 0, 3) - lax.axis_index("tp") * 4
        own = (place >= 0) & (place < 4)
        return lax.psum(jnp.where(own[:, None], table[jnp.clip(place, 0, 3)], 0.0), "tp")

    mesh = AbstractMesh((2,), ("tp",))
    arguments = jax.ShapeDtypeStruct((8, 4), jnp.float32), jax.ShapeDtypeStruct((6,), jnp.int32)
    dist = jax.shard_map(body, mesh=mesh, in_specs=(P("tp"), P()), out_specs=P())
    assert verify(base, dist, arguments, mesh).verdict is Verdict.PROVED
