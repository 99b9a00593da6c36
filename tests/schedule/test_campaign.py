"""Broken schedules: rules against a machine of its own, and that machine against all interleavings."""

from __future__ import annotations

import random

import pytest

from scalify_dl.audit.schedules import sites
from scalify_dl.audit.schedules.campaign import campaign
from scalify_dl.audit.schedules.interleavings import all_runs
from scalify_dl.audit.schedules.mutants import mutate
from scalify_dl.audit.schedules.program import put_together, taken_apart
from scalify_dl.audit.schedules.simulator import Machine
from scalify_dl.audit.schedules.sources import exchange, pipeline, ring, tables


def test_rules_and_machine_agree_on_broken_schedules() -> None:
    numbers, told = campaign(150, seed=7)
    assert told == []
    assert numbers["tried by all interleavings"] > 20
    assert min(numbers[kind] for kind in ("stuck", "wrong", "unmatched", "race", "unread")) > 0


@pytest.mark.slow
def test_they_agree_on_many() -> None:
    numbers, told = campaign(300, seed=8)
    assert told == []
    assert min(numbers[kind] for kind in ("too early", "orphan")) > 0


@pytest.mark.parametrize("capacity", [0, 1, None])
def test_every_interleaving_ends_alike(capacity: int | None) -> None:
    rng, checked, stuck = random.Random(3), 0, 0
    for n in range(40):
        schedule = (
            tables(pipeline(2, 1, "loop", False, "depth", per=1), "pair")
            if n % 3 == 0
            else (ring(2, 1) if n % 3 == 1 else exchange(2, 2)).build()
        )
        program = taken_apart(schedule)
        mutate(program, rng)
        put_together(program)
        tried = all_runs(program, capacity, 20_000)
        if tried is None:
            continue
        checked += 1
        _, ended = Machine(program, capacity, n).run()
        assert tried.ends == {frozenset(e for e, piece in enumerate(program.pieces()) if id(piece) in ended)}
        stuck += len(ended) < len(program.pieces())
    assert checked > 30
    assert stuck > 3


def test_what_was_broken_is_among_the_first_three_findings() -> None:
    broke, found, told = sites.campaign(60, seed=2)
    assert 10 * found.total() >= 9 * broke.total(), told
