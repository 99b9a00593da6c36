"""The ways to use shard_map: some axes only, nested, permuted devices, several calls, in loops, under remat, grad."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import verify
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.sdy import Sharding

X, W = jax.ShapeDtypeStruct((8, 16), jnp.float32), jax.ShapeDtypeStruct((16, 16), jnp.float32)
STACK = jax.ShapeDtypeStruct((3, 16, 16), jnp.float32)
SPECS, ROWS = (P("dp", "tp"), P("tp")), P("dp")


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)


def layer(x, w):
    return jnp.tanh(x @ w)


def body(x, w):
    return jnp.tanh(lax.psum(x @ w, "tp"))


def mapped(mesh, in_specs=SPECS, out_specs=ROWS, **more):
    return jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False, **more)


def test_some_axes_only(mesh):
    dist = mapped(mesh, (P(None, "tp"), P("tp")), P(), axis_names={"tp"})
    assert verify(layer, dist, (X, W), mesh).verdict is Verdict.PROVED


def test_one_inside_another(mesh):
    def outer(x, w):
        return jax.shard_map(
            body, in_specs=(P(None, "tp"), P("tp")), out_specs=P(), axis_names={"tp"}, check_vma=False
        )(x, w)

    dist = jax.shard_map(
        outer, mesh=mesh, in_specs=(P("dp"), P()), out_specs=P("dp"), axis_names={"dp"}, check_vma=False
    )
    assert verify(layer, dist, (X, W), mesh).verdict is Verdict.PROVED


def test_devices_in_another_order():
    mesh = Mesh(np.array(jax.devices())[[0, 4, 1, 5, 2, 6, 3, 7]].reshape(2, 4), ("dp", "tp"))
    assert verify(layer, mapped(mesh), (X, W), mesh).verdict is Verdict.PROVED


def test_one_after_another_with_another_sharding(mesh):
    dist = jax.jit(mapped(mesh))
    report = verify(lambda x, w: layer(layer(x, w), w), lambda x, w: dist(dist(x, w), w), (X, W), mesh)
    assert report.verdict is Verdict.PROVED


def test_in_a_scan(mesh):
    def scanned(function):
        return lambda x, ws: lax.scan(lambda carry, w: (function(carry, w), None), x, ws)[0]

    assert verify(scanned(layer), scanned(mapped(mesh)), (X, STACK), mesh).verdict is Verdict.PROVED


def test_under_remat_and_grad(mesh):
    def gradient(function):
        return lambda x, w: jax.grad(lambda w: (jax.checkpoint(function)(x, w) ** 2).sum())(w)

    assert verify(gradient(layer), gradient(mapped(mesh)), (X, W), mesh).verdict is Verdict.PROVED


def test_results_in_a_dict(mesh):
    def both(x, w):
        return {"y": body(x, w), "n": lax.psum((x * x).sum(), ("dp", "tp"))}

    dist = jax.shard_map(both, mesh=mesh, in_specs=SPECS, out_specs={"y": P("dp"), "n": P()}, check_vma=False)
    report = verify(lambda x, w: {"y": layer(x, w), "n": (x * x).sum()}, dist, (X, W), mesh)
    assert report.verdict is Verdict.PROVED
    assert len(report.outputs) == 2


def test_an_output_called_replicated_that_is_not_is_refuted(mesh):
    def first_rows(x, w):
        return lax.psum(x @ w, "tp")[:4] * (1 + lax.axis_index("dp"))

    dist = jax.shard_map(first_rows, mesh=mesh, in_specs=(P(None, "tp"), P("tp")), out_specs=P(), check_vma=False)
    report = verify(lambda x, w: (x @ w)[:4], dist, (X, W), mesh)
    assert report.verdict is Verdict.REFUTED


def test_shardings_of_hundreds_of_operands_are_parsed_once(mesh, monkeypatch):
    parsed = []
    parse = Sharding.parse.__func__
    monkeypatch.setattr(Sharding, "parse", classmethod(lambda cls, *given: parsed.append(1) or parse(cls, *given)))

    def chain(x, ws):
        for w in ws:
            x = lax.psum(x @ w, "tp") @ w.T
        return x

    def single(x, ws):
        for w in ws:
            x = x @ w @ w.T
        return x

    counted = []
    for layers in (3, 30):
        specs = (P("dp", "tp"), [P("tp")] * layers)
        dist = jax.shard_map(chain, mesh=mesh, in_specs=specs, out_specs=P("dp", "tp"), check_vma=False)
        parsed.clear()
        assert verify(single, dist, (X, [W] * layers), mesh).verdict is Verdict.PROVED
        counted.append(len(parsed))
    assert counted[0] == counted[1]
