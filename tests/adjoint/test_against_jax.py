"""Derived backwards of random JAX programs against `jax.vjp`."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="JAX runs the programs; the `jax` extra is not installed")

from scalify_dl.audit.adjoints import run


def test_gradients_of_random_programs_are_those_of_jax() -> None:
    report = run(30, seed=500)
    assert report.mismatches == []
    assert report.programs == 30
    assert report.compared > 8


def test_gradients_that_jax_rounds_as_the_program_does_are_no_others() -> None:
    """A cast to two bits of mantissa; the derived gradient is that of reals."""
    report = run(1, seed=19113416)
    assert (report.compared, report.mismatches) == (1, [])


@pytest.mark.slow
def test_gradients_of_many_random_programs_are_those_of_jax() -> None:
    report = run(400, seed=9000)
    assert report.mismatches == []
    assert report.compared > 150
