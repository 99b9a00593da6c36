"""Recursions of hundreds of rounds with a row or two each, read by many rules: those that can concern no row are not
run, and nothing is missed."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from scalify_dl.pysouffle import Program

RULES = """
.decl next(x:symbol, y:symbol)
.decl kind(x:symbol, k:symbol)
.decl at(x:symbol, k:symbol, y:symbol)
.decl step(x:symbol, n:number)
.decl reached(x:symbol, why:symbol)
.decl seen(x:symbol)
.decl pair(x:symbol, y:symbol)
.input next, kind, at
reached("s0", "start").
reached(y, "next") :- reached(x, _), next(x, y).
reached(y, "red") :- reached(x, _), kind(x, "red"), at(x, "red", y).
reached(y, "blue") :- reached(x, why), kind(x, "blue"), at(x, "blue", y), why != "red".
reached(y, "late") :- reached(x, _), seen(y), at(x, "late", y).
reached(x, "twice") :- reached(x, "red"), reached(x, "next").
seen(x) :- reached(x, "red").
seen(y) :- seen(x), at(x, "seen", y).
pair(x, y) :- reached(x, "blue"), seen(x), at(x, "red", y).
pair(y, x) :- pair(x, y), seen(y).
step(x, 0) :- reached(x, "twice").
step(y, n + 1) :- step(x, n), n < 3, at(x, "late", y), reached(y, _).
"""
KINDS = ("red", "blue", "late", "seen")
LENGTH = 400
Results = dict[str, Any]


def expected(following: set[tuple[str, str]], kinds: set[tuple[str, str]], at: set[tuple[str, str, str]]) -> Results:
    """What the rules above say, applied to everything until nothing is new."""
    reached, seen = {("s0", "start")}, set[tuple[str]]()
    pair, step = set[tuple[str, str]](), set[tuple[str, int]]()
    while True:
        before = len(reached) + len(seen) + len(pair) + len(step)
        names = {x for x, _ in reached}
        reached |= {(y, "next") for x, y in following if x in names}
        reached |= {(y, "red") for x, k, y in at if k == "red" and x in names and (x, "red") in kinds}
        unless = {x for x, why in reached if why != "red"}
        reached |= {(y, "blue") for x, k, y in at if k == "blue" and x in unless and (x, "blue") in kinds}
        reached |= {(y, "late") for x, k, y in at if k == "late" and x in names and (y,) in seen}
        reached |= {(x, "twice") for x in names if {(x, "red"), (x, "next")} <= reached}
        seen |= {(x,) for x, why in reached if why == "red"} | {(y,) for x, k, y in at if k == "seen" and (x,) in seen}
        pair |= {(x, y) for x, k, y in at if k == "red" and (x, "blue") in reached and (x,) in seen}
        pair |= {(y, x) for x, y in pair if (y,) in seen}
        step |= {(x, 0) for x, why in reached if why == "twice"}
        step |= {(y, n + 1) for x, n in step if n < 3 for z, k, y in at if z == x and k == "late" and y in names}
        if before == len(reached) + len(seen) + len(pair) + len(step):
            return {"reached": reached, "seen": seen, "pair": pair, "step": step}


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_missed(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"s{n}" for n in range(LENGTH)]
    following = set(pairwise(names))
    kinds = {(name, draw.choice(KINDS)) for name in draw.sample(names, LENGTH // 3)}
    places = [draw.randrange(LENGTH) for _ in range(draw.choice((20, 200, 1000)))]
    at = {(names[n], draw.choice(KINDS), names[max(0, n - draw.randrange(-1, 20))]) for n in places if n < LENGTH - 1}
    late = {row for row in at if seed % 2 and draw.random() < 0.2}
    program = Program.from_source(RULES)
    for relation, rows in (("next", following), ("kind", kinds), ("at", at - late)):
        program.insert(relation, sorted(rows))
    program.run()
    assert program.stats().rounds > 3 * LENGTH / 4
    assert {name: set(program.relation(name)) for name in expected(set(), set(), set())} == expected(
        following, kinds, at - late
    )
    if late:  # rows that come after a run
        program.insert("at", sorted(late))
        program.run()
        assert set(program.relation("reached")) == expected(following, kinds, at)["reached"]


def test_rules_that_concern_no_row_are_not_run() -> None:
    names = [f"s{n}" for n in range(LENGTH)]
    program = Program.from_source(RULES)
    program.insert("next", list(pairwise(names)))
    program.insert("kind", [("s200", "red")])
    program.insert("at", [("s200", "red", "s7"), ("s7", "blue", "s8")])
    program.run()
    runs = {rule.text.split(" :-")[0]: rule.runs for rule in program.stats().rules}
    assert runs['reached(y, "next")'] > LENGTH - 10 > 100 > runs['reached(y, "red")'] > 0
