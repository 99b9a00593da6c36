"""What XLA's partitioner makes of dims that the mesh does not divide, and of windows and shifts along sharded dims."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import verify
from scalify_dl.prove.verdict import Verdict

CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")
SEQUENCE = ("NWC", "WIO", "NWC")
ROWS = P(None, "tp")


def at(x, *spec):
    """Placed by the partitioner; as it is without a mesh."""
    mesh = at.mesh
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec))) if mesh else x


at.mesh = None


def classifier(x, w):
    return jax.nn.softmax(at(x @ w, None, "tp"), axis=-1)


def feed_forward(x, up, down):
    return at(jnp.tanh(x @ at(up, None, "tp")), None, "tp") @ down


def feed_forward_gradient(x, up, down):
    return jax.grad(lambda up, down: jnp.sum(feed_forward(x, up, down)), argnums=(0, 1))(up, down)


def normalised(x, w):
    y = at(x @ w, None, "tp")
    return (y - y.mean(1, keepdims=True)) * lax.rsqrt(y.var(1, keepdims=True) + 1e-5)


def language_model(table, w, ids, labels):
    """An embedding, a layer, and the loss over an uneven vocabulary."""
    table = at(table, "tp", None)
    logits = at(jax.nn.relu(table[ids] @ w) @ table.T, "dp", None, "tp")
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[..., None], -1).mean()


def language_model_gradient(table, w, ids, labels):
    return jax.grad(language_model, argnums=(0, 1))(table, w, ids, labels)


def network(x, first, second):
    y = jax.nn.relu(at(lax.conv_general_dilated(x, first, (1, 1), "SAME", dimension_numbers=CHANNELS_LAST), *ROWS))
    y = jax.nn.relu(lax.conv_general_dilated(y, second, (2, 2), "SAME", dimension_numbers=CHANNELS_LAST))
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").mean((1, 2))


def fewer(x, w):
    return lax.conv_general_dilated(x, w, (1,), "VALID", dimension_numbers=SEQUENCE)


def uneven_convolution(x, w):
    return lax.conv_general_dilated(at(x, None, "tp"), w, (1,), "SAME", dimension_numbers=SEQUENCE)


def pooled(x):
    return at(lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 1), (1, 1, 1), "SAME"), *ROWS)


def token_shift(x, w):
    return at((x + jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]) @ w, *ROWS)


def two_back(x, w):
    return at((x + jnp.pad(x, ((0, 0), (2, 0), (0, 0)))[:, :-2]) @ w, *ROWS)


def differences(x):
    return jnp.sum((x[:, 1:] - x[:, :-1]) ** 2)


def rolled(x):
    return at(x + jnp.roll(x, 1, axis=1), *ROWS)


def last_token(x, w):
    return at(jnp.tanh(x), None, "tp")[:, -1] @ w


def first_token(x, w):
    return at(jnp.tanh(x), None, "tp")[:, 0] @ w


IDS = ("ids", (4, 6))
BATCHES = [P(), P(), P("dp"), P("dp")]
PROGRAMS = {
    "a softmax over ten classes": (classifier, [(8, 16), (16, 10)], []),
    "a hidden size of ten": (feed_forward, [(8, 16), (16, 10), (10, 16)], []),
    "its gradient": (feed_forward_gradient, [(8, 16), (16, 10), (10, 16)], []),
    "statistics over ten columns": (normalised, [(8, 16), (16, 10)], []),
    "a language model": (language_model, [(10, 8), (8, 8), IDS, IDS], BATCHES),
    "the gradient of a language model": (language_model_gradient, [(10, 8), (8, 8), IDS, IDS], BATCHES),
    "convolutions and pooling": (network, [(2, 32, 8, 4), (3, 3, 4, 6), (3, 3, 6, 4)], [ROWS, P(), P()]),
    "a convolution that leaves fewer results": (fewer, [(2, 16, 8), (3, 8, 8)], [ROWS, P()]),
    "a convolution over an uneven sequence": (uneven_convolution, [(2, 10, 8), (3, 8, 8)], []),
    "maxima of neighbours": (pooled, [(2, 16, 4)], [ROWS]),
    "the token before": (token_shift, [(2, 16, 8), (8, 8)], [ROWS, P()]),
    "differences of neighbours": (differences, [(2, 16)], [ROWS]),
    "a roll": (rolled, [(2, 16)], [ROWS]),
    "the last token": (last_token, [(4, 8, 8), (8, 8)], [ROWS, P()]),
}  # fmt: skip


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)


def partitioned(base, dist, shapes, specs, mesh):
    """The verdict on what the partitioner makes of `dist`, against `base` on one device."""

    def placed(*arguments):
        at.mesh = mesh
        try:
            return dist(*arguments)
        finally:
            at.mesh = None

    arguments = [
        jax.ShapeDtypeStruct(s[1], jnp.int32) if s[0] == "ids" else jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes
    ]
    return verify(base, placed, arguments, mesh, in_shardings=tuple(specs or [P()] * len(shapes))).verdict


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_partitioner_makes_of(name, mesh):
    function, shapes, specs = PROGRAMS[name]
    assert partitioned(function, function, shapes, specs, mesh) is Verdict.PROVED


@pytest.mark.parametrize(
    ("base", "dist", "shapes"),
    [
        (token_shift, two_back, [(2, 16, 8), (8, 8)]),
        (two_back, token_shift, [(2, 16, 8), (8, 8)]),
        (last_token, first_token, [(4, 8, 8), (8, 8)]),
        (rolled, lambda x: at(x + jnp.roll(x, -1, axis=1), *ROWS), [(2, 16)]),
        (
            pooled,
            lambda x: at(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1), (1, 1, 1), "SAME"), *ROWS),
            [(2, 16, 4)],
        ),
        (differences, lambda x: jnp.sum((x[:, 1:] - x[:, :-1])[:, :-1] ** 2), [(2, 16)]),
    ],
)
def test_something_else_is_refuted(base, dist, shapes, mesh):
    specs = [ROWS] + [P()] * (len(shapes) - 1)
    assert partitioned(base, dist, shapes, specs, mesh) is Verdict.REFUTED


EXAMPLE = runpy.run_path(os.fspath(Path(__file__).parents[3] / "examples" / "jax" / "uneven.py"))


@pytest.mark.parametrize("bug", EXAMPLE["BUGS"])
def test_the_example_ends_with_its_verdict(bug, capsys):
    assert EXAMPLE["main"](["--bug", bug]) == (0 if bug == "none" else 1)
    assert capsys.readouterr().out.startswith("PROVED" if bug == "none" else "REFUTED")


def test_the_example_is_proved_on_another_mesh(capsys):
    assert EXAMPLE["main"](["--mesh", "8,16"]) == 0
