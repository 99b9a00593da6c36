"""Broken schedules: rules against a machine of its own, and that machine against all interleavings."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from scalify_dl.audit.schedules.campaign import campaign
from scalify_dl.audit.schedules.mutants import mutate
from scalify_dl.audit.schedules.program import Chains, Piece, put_together, taken_apart
from scalify_dl.audit.schedules.simulator import Machine
from scalify_dl.audit.schedules.sources import exchange, pipeline, ring, tables


def test_rules_and_machine_agree_on_broken_schedules() -> None:
    numbers, told = campaign(150, seed=7)
    assert told == []
    assert min(numbers[kind] for kind in ("stuck", "wrong", "unmatched", "race", "unread")) > 0


@pytest.mark.slow
def test_they_agree_on_many() -> None:
    numbers, told = campaign(1500, seed=8)
    assert told == []
    assert min(numbers[kind] for kind in ("too early", "orphan")) > 0


def all_ends(program: Chains, capacity: int | None, most: int) -> set[frozenset[int]] | None:
    """What has ended where nothing more can happen, over all interleavings; None beyond `most` states."""
    machine = Machine(program, capacity)
    chains = [pieces for _, _, pieces in program.chains]
    first = (tuple(0 for _ in chains), frozenset[int]())
    seen, stack, final = {first}, [first], set()
    while stack:
        at, started = stack.pop()
        ended = {id(p) for c, n in enumerate(at) for p in chains[c][:n]}
        taken = Counter(p.receives for p in program.pieces() if id(p) in started and p.receives is not None)
        after = []
        for c, n in enumerate(at):
            if n == len(chains[c]):
                continue
            piece: Piece = chains[c][n]
            if id(piece) not in started:
                if all(id(d) in ended for d in piece.waits if id(d) in machine.present):
                    after.append((at, started | {id(piece)}))
            elif machine._may_end(piece, set(started), taken):
                after.append(((*at[:c], n + 1, *at[c + 1 :]), started))
        if not after:
            final.add(frozenset(ended))
        for state in after:
            if state not in seen:
                seen.add(state)
                stack.append(state)
        if len(seen) > most:
            return None
    return final


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
        final = all_ends(program, capacity, 20_000)
        if final is None:
            continue
        checked += 1
        _, ended = Machine(program, capacity, n).run()
        assert final == {frozenset(ended)}
        stuck += len(ended) < len(program.pieces())
    assert checked > 30
    assert stuck > 3
