"""Shards cut, passed on and glued again (datalog/lemmas/reglued_shards.dl)."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz.partitioner_steps import exchanged, part
from scalify_dl.audit.pair import Pair


def window(mesh: dict[str, int], first: int, size: int, slip: int = 0, total: int = 16) -> Pair:
    """x[total,4] over tp; elements `first …` of it, `size` to a rank."""
    pair = Pair(mesh)
    x, dx = pair.input((total, 4), {0: "tp"})
    y = part(pair.base, x, 0, first, first + size * mesh["tp"])
    pair.outputs(y, exchanged(pair, dx, 0, "tp", first, size, slip=slip))
    return pair


RIGHT = {
    "lower half": ({"tp": 2}, 0, 4),
    "upper half": ({"dp": 2, "tp": 2}, 8, 4),
    "the middle, of two shards on every rank": ({"tp": 4}, 3, 2),
    "one element to a rank": ({"tp": 4, "dp": 2}, 12, 1),
    "a shard with the border of its neighbour": ({"tp": 2}, 3, 6),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_part_of_a_sharded_dim_is_sharded_anew(name: str) -> None:
    tables = window(*RIGHT[name]).tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("slip", [-1, 1])
def test_a_window_that_is_one_element_off_is_not(name: str, slip: int) -> None:
    tables = window(*RIGHT[name], slip=slip).tables()
    derived = derive(tables)
    assert not derived.proved
    assert audit(tables, derived.corr).false == []


def halves(pairs: list[tuple[int, int]], *, own_first: bool = True, overlapping: bool = False) -> Pair:
    """[gate | up] of 16 over tp=2: up's shard is made of the upper half and what a permute brings."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((16, 4), {0: "tp"})
    g = pair.dist
    high, low = part(g, dx, 0, 4, 8), part(g, dx, 0, 0, 4)
    got = g.emit("collective-permute", [low], pairs=pairs)
    glued = g.emit("concatenate", [high, got] if own_first else [got, high], dimension=0)
    offset = g.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = {0: 4, 1: 2 if overlapping else 0}
    y = g.emit("dynamic-slice", [glued, offset.result, g.constant(0, "s32")], sizes=[4, 4])
    pair.outputs(part(pair.base, x, 0, 8, 16), y)
    return pair


def test_halves_exchanged_between_two_ranks() -> None:
    tables = halves([(1, 0)]).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


WRONG = {
    "sent the other way": halves([(0, 1)]),
    "kept": halves([(0, 0), (1, 1)]),
    "not sent": halves([]),
    "glued in the other order": halves([(1, 0)], own_first=False),
    "cut elsewhere on one rank": halves([(1, 0)], overlapping=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_halves_exchanged_wrongly_are_not_the_shard(name: str) -> None:
    tables = WRONG[name].tables()
    derived = derive(tables)
    assert not derived.proved
    assert audit(tables, derived.corr).false == []


def middle(starts: tuple[int, int], *, size: int = 2, first: int = 6, last: int = 10) -> Pair:
    """[q | k | v] of 6, 4 and 6 over tp=2: each rank cuts its half of k from its own shard."""
    pair = Pair({"tp": 2, "dp": 2})
    x, dx = pair.input((16, 4), {0: "tp", 1: "dp"})
    g = pair.dist
    offset = g.add("constant", [], [("s32", ())])
    offset.rank_numbers["value", 0] = {r: starts[tp] for r, (tp, _) in enumerate(pair.mesh.coordinates)}
    y = g.emit("dynamic-slice", [dx, offset.result, g.constant(0, "s32")], sizes=[size, 2])
    pair.outputs(part(pair.base, x, 0, first, last), y)
    return pair


def test_a_part_across_blocks_that_ranks_cut_from_their_own_shards() -> None:
    tables = middle((6, 0)).tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


WRONG_CUTS = {
    "each the other's": middle((0, 6)),
    "the same on both ranks": middle((6, 6)),
    "one element off on a rank": middle((6, 1)),
    "another part": middle((6, 0), first=7, last=11),
    "more than the part": middle((5, 0), size=3),
}


@pytest.mark.parametrize("name", WRONG_CUTS)
def test_other_cuts_are_not(name: str) -> None:
    tables = WRONG_CUTS[name].tables()
    derived = derive(tables)
    assert not derived.proved
    assert audit(tables, derived.corr).false == []


def picked(pairs: tuple[list[tuple[int, int]], list[tuple[int, int]]], *, kept: int = 2) -> Pair:
    """Thirds [a | b | c] of 12 over tp=2: ranks hold c[0:2], c[2:4] of c = x[8:12], chosen by the rank's number."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((12, 4), {0: "tp"})
    g = pair.dist
    low, high = part(g, dx, 0, 2, 4), part(g, dx, 0, 4, 6)
    rank = g.emit("convert", [g.emit("partition-id", [], shape=(), dtype="u32")], dtype="s32")
    mask = g.emit("compare", [rank, g.constant(1, "s32")], direction="EQ")
    mask = g.emit("broadcast", [mask], shape=(2, 4), dimensions=[])
    sent = g.emit("collective-permute", [low], pairs=pairs[0])
    back = g.emit("collective-permute", [sent], pairs=pairs[1])
    y = g.emit("select", [mask, high if kept == 2 else low, back if pairs[1] else sent])
    pair.outputs(part(pair.base, x, 0, 8, 12), y)
    return pair


def test_blocks_that_ranks_choose_between_what_they_got_and_what_they_have() -> None:
    tables = picked(([(1, 0)], [])).tables()
    derived = derive(tables)
    assert derived.proved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("pair", [picked(([(0, 1)], [])), picked(([(1, 0)], []), kept=1), picked(([(1, 0)], [(0, 1)]))])
def test_other_choices_are_not(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert not derived.proved
    assert audit(tables, derived.corr).false == []
