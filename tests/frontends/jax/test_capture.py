"""Live functions: traced without data, verified at once or written as dumps."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import capture, verify
from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.read import read
from scalify_dl.report.conclude import conclude

from .models import Config, arguments, forward, gradient

X = jax.ShapeDtypeStruct((8, 16), jnp.float32)
W1 = jax.ShapeDtypeStruct((16, 32), jnp.float32)
W2 = jax.ShapeDtypeStruct((32, 16), jnp.float32)
SPECS = (P("dp"), P(None, "tp"), P("tp"))


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)


def mlp(x, w1, w2):
    return jnp.tanh(x @ w1) @ w2


def parallel(mesh, reduce=True):
    def body(x, w1, w2):
        y = jnp.tanh(x @ w1) @ w2
        return lax.psum(y, "tp") if reduce else y

    return jax.shard_map(body, mesh=mesh, in_specs=SPECS, out_specs=P("dp"), check_vma=False)


def test_a_shard_map_function_is_verified(mesh):
    assert verify(mlp, parallel(mesh), (X, W1, W2), mesh).verdict is Verdict.PROVED


def test_a_missing_psum_is_refuted(mesh):
    report = verify(mlp, parallel(mesh, reduce=False), (X, W1, W2), mesh)
    assert report.verdict is Verdict.REFUTED


def test_gradients_of_both_sides_are_verified(mesh):
    def loss(function):
        return jax.grad(lambda *args: (function(*args) ** 2).sum(), (0, 1, 2))

    body = jax.shard_map(
        lambda x, w1, w2: lax.psum(jnp.tanh(x @ w1) @ w2, "tp"), mesh=mesh, in_specs=SPECS, out_specs=P("dp")
    )
    report = verify(loss(mlp), loss(body), (X, W1, W2), mesh)
    assert report.verdict is Verdict.PROVED
    assert len(report.outputs) == 3


def test_what_the_partitioner_makes_of_a_function_is_verified(mesh):
    report = verify(mlp, mlp, (X, W1, W2), mesh, SPECS)
    assert report.verdict is Verdict.PROVED


def test_arguments_may_be_arrays_of_which_only_the_type_is_used(mesh):
    arrays = [jnp.zeros(a.shape, a.dtype) for a in (X, W1, W2)]
    assert verify(mlp, parallel(mesh), arrays, mesh).verdict is Verdict.PROVED


def test_an_abstract_mesh_of_any_size_traces_without_devices():
    mesh = AbstractMesh((16, 8), ("dp", "tp"))
    large = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((8192, 16384), (16384, 53248), (53248, 16384))]
    report = verify(mlp, parallel(mesh), large, mesh)
    assert report.verdict is Verdict.PROVED


def test_capture_writes_dumps_that_the_command_line_reads(mesh, tmp_path):
    found = capture(mlp, mlp, (X, W1, W2), mesh, SPECS, directory=tmp_path, name="mlp")
    assert found.mesh == Mesh((("dp", 2), ("tp", 4)))
    assert found.command == f"dlverify verify {tmp_path}/mlp.base.mlir {tmp_path}/mlp.dist.hlo --mesh dp=2,tp=4"
    assert {op.kind for op in read(found.base).ops} == {"dot", "tanh"}
    assert "all-reduce" in {op.kind for op in read(found.dist, found.mesh).ops}
    assert not [path for path in tmp_path.iterdir() if path not in (found.base, found.dist)]


@pytest.mark.parametrize("config", [Config(), Config(experts=8), Config(scanned=True)], ids=["llama", "moe", "scan"])
@pytest.mark.parametrize("kind", [forward, gradient])
def test_whole_models_read_without_unknown_ops(config, kind, mesh, tmp_path):
    args, specs = arguments(config)
    found = capture(kind(config), kind(config), args, mesh, specs, directory=tmp_path)
    for graph in (read(found.base), read(found.dist, found.mesh)):
        assert not [op.kind for op in graph.ops if op.kind.startswith("unknown:")]


def test_a_function_without_any_sharding_is_told(mesh, tmp_path):
    with pytest.raises(InputError, match="in_shardings"):
        capture(mlp, mlp, (X, W1, W2), mesh, directory=tmp_path)
    assert not list(tmp_path.iterdir())


def test_too_few_devices_are_told(tmp_path):
    with pytest.raises(InputError, match="xla_force_host_platform_device_count=64"):
        capture(mlp, mlp, (X, W1, W2), AbstractMesh((8, 8), ("dp", "tp")), SPECS, directory=tmp_path)


def test_without_jax_the_error_says_which_extra_to_install():
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "from scalify_dl.capture.jax import capture\n"
        "from scalify_dl.errors import InputError\n"
        "try: capture(abs, abs, (1,), {'tp': 2}, directory='x')\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "scalify-dl[jax]" in done.stdout


def pair_of(f):
    """A function in shard_map on two ranks, everything replicated."""
    mesh = AbstractMesh((2,), ("tp",))
    return mesh, jax.shard_map(f, mesh=mesh, in_specs=(P(), P()), out_specs=P(), check_vma=False)


def minus(a, b):
    return a - b


def minus_swapped(b, a):
    return b - a


@pytest.mark.parametrize(("wrong", "verdict"), [(False, Verdict.PROVED), (True, Verdict.REFUTED)])
def test_calls_pair_by_position_whatever_the_names(tmp_path, wrong, verdict):
    """Both get (x, y): the names of parameters say nothing."""

    def dist(b, a):
        return mapped(b, a)

    mesh, mapped = pair_of((lambda b, a: a - b) if wrong else minus_swapped)
    assert verify(minus, dist, (X, X), mesh).verdict is verdict
    found = capture(minus, dist, (X, X), mesh, directory=tmp_path)
    facts = export(found.base, found.dist, found.mesh)
    assert conclude(analyse(facts, Options())).verdict is verdict


def test_relations_may_use_the_names_of_either_function(tmp_path):
    def dist(b, a):
        return mapped(b, a)

    mesh, mapped = pair_of(minus_swapped)
    (tmp_path / "r.yaml").write_text("inputs: {a: {dims: {}}, b: {dims: {}}}")
    assert verify(minus, dist, (X, X), mesh, relate=tmp_path / "r.yaml").verdict is Verdict.PROVED


def test_results_of_another_structure_are_bad_input(mesh):
    """XLA's partitioner forgets what results are called."""
    with pytest.raises(InputError, match="results"):
        verify(lambda x: {"a": x + 1, "b": x - 1}, lambda x: (x - 1, x + 1), (X,), mesh, in_shardings=(P("dp"),))


def test_gradients_through_loops_that_gather_are_written_out_live_too():
    """Fully sharded weights that each turn of a loop gathers: the gradient is proved by its turns, as from dumps."""
    mesh = AbstractMesh((2,), ("dp",))
    w, x = jax.ShapeDtypeStruct((3, 8, 8), jnp.float32), jax.ShapeDtypeStruct((4, 8), jnp.float32)

    def base(w, x):
        def loss(w):
            return (lax.scan(lambda h, one: (h + jnp.tanh(h @ one), None), x, w)[0] ** 2).mean()

        return jax.value_and_grad(loss)(w)

    def body(w, x):
        @jax.checkpoint
        def turn(h, one):
            return h + jnp.tanh(h @ lax.all_gather(one, "dp", tiled=True))

        def loss(w):
            return (lax.scan(lambda h, one: (turn(h, one), None), x, w)[0] ** 2).mean() / 2

        mine, gradient = jax.value_and_grad(loss)(w)
        return lax.psum(mine, "dp"), gradient

    specs = (P(None, "dp"), P("dp"))
    dist = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=(P(), specs[0]))
    assert verify(base, dist, (w, x), mesh).verdict is Verdict.PROVED
