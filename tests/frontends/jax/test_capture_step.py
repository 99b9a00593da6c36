"""`capture_step` of JAX: a whole training step as its user writes it."""

from __future__ import annotations

import shlex
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import capture_step
from scalify_dl.errors import InputError
from scalify_dl.prove.verdict import Verdict


def loss_fn(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"] - y) ** 2)


def momentum_step(average, params, velocity, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    loss, grads = average((loss, grads))
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    return {"loss": loss, "params": jax.tree.map(lambda w, v: w - 0.1 * v, params, velocity), "velocity": velocity}


def arguments(rows=16):
    params = {"up": jnp.ones((4, 8)), "down": jnp.ones((8, 4))}
    return params, jax.tree.map(jnp.zeros_like, params), jnp.ones((rows, 4)), jnp.ones((rows, 4))


def base():
    return partial(momentum_step, lambda found: found), arguments()


def data_parallel(mesh, average=lambda found: lax.pmean(found, "dp")):
    body = jax.shard_map(
        partial(momentum_step, average), mesh=mesh, in_specs=(P(), P(), P("dp"), P("dp")), out_specs=P(),
        check_vma=False,
    )  # fmt: skip
    return jax.jit(body, donate_argnums=(0, 1)), arguments()


def partitioned(mesh):
    rows, whole = NamedSharding(mesh, P("dp")), NamedSharding(mesh, P())
    step = partial(momentum_step, lambda found: found)
    return jax.jit(step, in_shardings=(whole, whole, rows, rows)), arguments()


def test_a_step_with_donated_arguments_is_captured_and_proved(tmp_path):
    captured = capture_step(data_parallel, {"dp": 4}, tmp_path / "net", baseline=base)
    assert captured.dist == tmp_path / "net.dist.mlir"
    assert captured.verify().verdict is Verdict.PROVED
    assert shlex.split(captured.command)[-2:] == ["--mesh", "dp=4"]
    assert any("donated" in text for text in captured.outside)


def test_what_the_dump_does_not_say_is_said_first_in_the_report(tmp_path):
    report = capture_step(data_parallel, {"dp": 4}, tmp_path / "net", baseline=base).verify()
    first = report.scope[0]
    assert first.startswith("outside of the capture: what XLA makes of shardings outside of shard_map")
    assert "donated" in first


def test_gradients_that_nobody_averages_are_refuted(tmp_path):
    wrong = partial(data_parallel, average=lambda found: found)
    captured = capture_step(lambda mesh: wrong(mesh), {"dp": 4}, tmp_path / "net", baseline=base)
    assert captured.verify().verdict is Verdict.REFUTED


def test_arguments_are_the_baselines_whatever_the_steps_call_them(tmp_path):
    def build(mesh):
        step, args = data_parallel(mesh, average=lambda found: found)
        return lambda *given: step(*given), args

    found = capture_step(build, {"dp": 4}, tmp_path / "net", baseline=base).verify()
    assert found.verdict is Verdict.REFUTED
    assert not any("paired by their order" in note for note in found.found.notes)


def test_shardings_of_a_jitted_step_go_to_the_partitioner(tmp_path):
    captured = capture_step(partitioned, {"dp": 4}, tmp_path / "net", baseline=base)
    assert captured.dist == tmp_path / "net.dist.hlo"
    assert "all-reduce" in captured.dist.read_text()
    report = captured.verify()
    assert report.verdict is Verdict.PROVED
    assert report.scope[0] == "outside of the capture: what XLA's compiler does behind its partitioner"


def test_arrays_that_are_placed_say_their_shardings(tmp_path):
    def build(mesh=None):
        step, args = base()
        if mesh is None:
            return step, args
        rows = NamedSharding(mesh, P("dp"))
        return step, (*args[:2], *(jax.device_put(x, rows) for x in args[2:]))

    captured = capture_step(build, {"dp": 4}, tmp_path / "net")
    assert captured.dist.suffix == ".hlo"
    assert captured.verify().verdict is Verdict.PROVED


def test_a_mesh_of_more_ranks_than_devices_is_abstract(tmp_path):
    captured = capture_step(
        lambda mesh: (data_parallel(mesh)[0], arguments(64)), {"dp": 64}, tmp_path / "net",
        baseline=lambda: (base()[0], arguments(64)),
    )  # fmt: skip
    assert captured.verify().verdict is Verdict.PROVED


def test_an_optimiser_of_optax_is_part_of_the_step(tmp_path):
    optax = pytest.importorskip("optax")
    optimiser = optax.adamw(1e-2)

    def step(average, params, state, x, y):
        loss, grads = average(jax.value_and_grad(loss_fn)(params, x, y))
        updates, state = optimiser.update(grads, state, params)
        return {"loss": loss, "params": optax.apply_updates(params, updates), "state": state}

    def build(mesh=None):
        params, _, x, y = arguments()
        args = params, optimiser.init(params), x, y
        if mesh is None:
            return partial(step, lambda found: found), args
        body = partial(step, lambda found: lax.pmean(found, "dp"))
        specs = (P(), P(), P("dp"), P("dp"))
        return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False), args

    report = capture_step(build, {"dp": 4}, tmp_path / "net").verify()
    assert report.verdict is Verdict.PROVED
    assert len(report.outputs) == 8  # loss, two weights, the count, two moments of two weights


def test_steps_of_other_arguments_or_results_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match=r"arguments differ at `\[2\]`: float32\[16, 4\] .* float32\[8, 4\]"):
        capture_step(data_parallel, {"dp": 4}, tmp_path / "net", baseline=lambda: (base()[0], arguments(8)))

    def forgetful():
        step, args = base()
        return (lambda *given: {"loss": step(*given)["loss"]}), args

    with pytest.raises(InputError, match=r"results differ at `\['params'\]\['down'\]`: .* nothing in the baseline"):
        capture_step(data_parallel, {"dp": 4}, tmp_path / "net", baseline=forgetful)
    with pytest.raises(InputError, match="expected: the step, a function, and the tuple of its arguments"):
        capture_step(lambda mesh: data_parallel(mesh)[0], {"dp": 4}, tmp_path / "net", baseline=base)
    assert list(tmp_path.iterdir()) == []


@jax.custom_vjp
def gathered(shard):
    return lax.all_gather(shard, "dp", tiled=True)


def scattered(_, gradient):
    return (lax.psum_scatter(gradient, "dp", tiled=True),)


gathered.defvjp(lambda shard: (gathered(shard), None), scattered)


def test_ops_of_a_backward_written_by_hand_are_at_their_own_line(tmp_path):
    def build(mesh=None):
        def step(get, w, x):
            return jax.grad(lambda w: jnp.mean(jnp.tanh(x @ get(w))))(w)

        args = jnp.arange(8.0).reshape(4, 2), jnp.ones((8, 4))
        if mesh is None:
            return partial(step, lambda w: w), args
        body, specs = partial(step, gathered), (P("dp"), P("dp"))
        return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("dp"), check_vma=False), args

    report = capture_step(build, {"dp": 2}, tmp_path / "net").verify()
    assert report.verdict is Verdict.REFUTED  # the mean of the whole batch, and the sum of means of parts
    assert report.frontier[0].source[0].line == scattered.__code__.co_firstlineno + 1
