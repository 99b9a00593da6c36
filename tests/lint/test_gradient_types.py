"""Derived types of gradients, tried on numbers of all ranks."""

from __future__ import annotations

import pytest

from scalify_dl.audit.gradient_types import tried


@pytest.mark.parametrize("ways", [2, 4])
@pytest.mark.parametrize("seed", range(20))
def test_gradients_are_of_the_types_that_are_derived(seed: int, ways: int) -> None:
    assert tried(seed, ways) == "agrees"


@pytest.mark.parametrize("seed", range(10))
def test_summed_where_they_are_whole_they_are_others(seed: int) -> None:
    assert tried(seed, wrong=True) == "refuted"
