"""Normalising by moments of a batch that is cut over ranks, forwards and backwards, the variance in two ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from .test_functions_written_differently import Function, verdicts  # noqa: E402

RANKS = 4


def trained(moments: Function, mean: Function) -> Function:
    """A network of two convolutions with batch norms, and pooling: its loss, and its parameters after a step."""

    def normed(x: Any, gain: Any) -> Any:
        average, variance = moments(x)
        return (x - average) * lax.rsqrt(variance + 1e-5) * gain

    def loss(parameters: Any, x: Any) -> Any:
        first, second, gains = parameters
        like = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}
        x = jax.nn.relu(normed(lax.conv_general_dilated(x, first, **like), gains[0]))
        x = jax.nn.relu(x + normed(lax.conv_general_dilated(x, second, **like), gains[1]))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (x.mean((1, 2)) ** 2).mean()

    def step(first: Any, second: Any, gains: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)((first, second, gains), x)
        new = (p - 0.1 * mean(g) for p, g in zip((first, second, gains), gradients, strict=True))
        return mean(value), *new

    return step


def over_ranks(x: Any) -> Any:
    return lax.pmean(x, "x")


def whole(x: Any) -> Any:
    return x.mean((0, 1, 2)), x.var((0, 1, 2))


def of_squares(x: Any) -> Any:
    mean = over_ranks(x.mean((0, 1, 2)))
    return mean, over_ranks((x**2).mean((0, 1, 2))) - mean**2


def squares_of_a_rank(x: Any) -> Any:
    mean = over_ranks(x.mean((0, 1, 2)))
    return mean, (x**2).mean((0, 1, 2)) - mean**2


def means_of_squares(x: Any) -> Any:
    """The square of each rank's mean, not of the mean of all."""
    mean = x.mean((0, 1, 2))
    return over_ranks(mean), over_ranks((x**2).mean((0, 1, 2)) - mean**2)


def variance_is_constant(x: Any) -> Any:
    mean, variance = of_squares(x)
    return mean, lax.stop_gradient(variance)


ARGUMENTS = [(3, 3, 2, 4), (3, 3, 4, 4), (2, 4), (8, 4, 4, 2)]


@pytest.mark.parametrize(
    ("moments", "right"),
    [(of_squares, True), (squares_of_a_rank, False), (means_of_squares, False), (variance_is_constant, False)],
)
def test_a_step_under_batch_norms(moments: Function, right: bool, tmp_path: Path) -> None:
    call = {"ranks": RANKS, "specs": (P(), P(), P(), P("x")), "out": P()}
    found = verdicts(tmp_path, trained(whole, lambda x: x), trained(moments, over_ranks), ARGUMENTS, **call)
    assert (found == {"PROVED"}) == right
