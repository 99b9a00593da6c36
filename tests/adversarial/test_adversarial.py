"""Wrong programs are never proved and are refuted; right ones are proved."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.oracle import find_counterexample, load_program

from .programs import RIGHT, WRONG

PRECISION = {"cast_to_half_precision_on_one_rank"}
"""Differ only where casts round: reported as precision, not as a refutation."""


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_program_is_not_proved_and_is_refuted(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert not derived.proved
    search = find_counterexample(load_program(tables))
    assert search.best is not None, search.problems
    assert search.best.kind == ("precision" if name in PRECISION else "refutation")
    assert search.best.mismatch.expected != search.best.mismatch.actual


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_program_agrees_numerically(name: str) -> None:
    search = find_counterexample(load_program(RIGHT[name]().tables()))
    assert search.status == "agrees", (search.problems, search.best)


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_program_is_proved(name: str) -> None:
    assert not derive(RIGHT[name]().tables()).unproved


@pytest.mark.parametrize("name", sorted({**WRONG, **RIGHT}))
def test_every_derived_correspondence_is_true(name: str) -> None:
    tables = {**WRONG, **RIGHT}[name]().tables()
    assert audit(tables, derive(tables).corr).false == []


def test_the_set_has_the_size_that_it_claims() -> None:
    assert (len(WRONG), len(RIGHT)) == (38, 25)
