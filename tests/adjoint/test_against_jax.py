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


@pytest.mark.slow
def test_gradients_of_many_random_programs_are_those_of_jax() -> None:
    report = run(400, seed=9000)
    assert report.mismatches == []
    assert report.compared > 150
