"""Subsumption removes rows in Soufflé's order: all that are dominated at one moment go together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.pysouffle import Program


def rows(source: str, relation: str = "r", **facts: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    program = Program.from_source(source)
    for name, given_rows in facts.items():
        program.insert(name, given_rows)
    return sorted(program.run(timeout=20).relation(relation))


_edges = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9)), max_size=20)


@settings(max_examples=60, deadline=None)
@given(_edges)
def test_shortest_paths(edges: list[tuple[int, int, int]]) -> None:
    source = """
        .decl edge(x: number, y: number, w: number)
        .decl dist(x: number, d: number)
        dist(0, 0).
        dist(y, d + w) :- dist(x, d), edge(x, y, w).
        dist(x, far) <= dist(x, near) :- near < far.
        .decl reach(x: number, d: number)
        reach(x, d) :- dist(x, d), x > 0.
    """
    best = {0: 0}
    for _ in range(8):
        for x, y, w in edges:
            if x in best:
                best[y] = min(best.get(y, 10**9), best[x] + w)
    program = Program.from_source(source).insert("edge", edges).run()
    assert dict(program.relation("dist")) == best
    assert dict(program.relation("reach")) == {x: d for x, d in best.items() if x > 0}


def test_rows_that_dominate_each_other_all_go() -> None:
    assert rows(".decl r(x: number)\nr(1). r(2). r(3).\nr(a) <= r(b) :- a != b.") == []
    assert rows(".decl r(x: number, y: number)\nr(1, 1). r(1, 2). r(2, 3).\nr(x, y) <= r(x, z) :- y != z.") == [(2, 3)]


def test_a_row_does_not_dominate_itself() -> None:
    assert rows(".decl r(x: number)\nr(1). r(2).\nr(a) <= r(b) :- a <= b.") == [(2,)]


def test_rows_that_come_together_reject_each_other_and_one_that_came_before_stays() -> None:
    source = """
        .decl e(x: number, y: number)
        e(0, 1). e(0, 2). e(1, 3). e(2, 3). e(0, 4). e(4, 5). e(5, 1).
        .decl r(x: number, via: number)
        r(0, 0).
        r(y, x) :- r(x, _), e(x, y).
        r(x, v) <= r(x, w) :- v != w.
    """
    # 3 is reached from 1 and from 2 at once: both rows go; 1 is reached again from 5, when it is there already
    assert rows(source) == [(0, 0), (1, 0), (2, 0), (4, 0), (5, 4)]


def test_facts_that_were_removed_are_facts_of_the_next_run() -> None:
    program = Program.from_source(".decl r(x: number)\n.decl b(x: number)\nr(x) <= r(y) :- x < y, !b(y).\n")
    assert program.insert("r", [(1,), (2,)]).run().relation("r") == [(2,)]
    assert sorted(program.insert("b", [(2,)]).run().relation("r")) == [(1,), (2,)]


_pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14)


def removed_in_rounds(starts: set[int], edges: set[tuple[int, int]], dominates: set[tuple[int, int]]) -> set[int]:
    def dominated(x: int, others: set[int]) -> bool:
        return any(x != y and (x, y) in dominates for y in others)

    known = {x for x in starts if not dominated(x, starts)}
    delta = known
    while delta:
        coming = {y for x, y in edges if x in delta} - known
        delta = {x for x in coming if not dominated(x, coming | known)}
        known = {x for x in known if not dominated(x, delta)} | delta
    return known


@settings(max_examples=300, deadline=None)
@given(st.sets(st.integers(0, 4)), _pairs, _pairs)
def test_rounds(starts: set[int], edges: list[tuple[int, int]], dominates: list[tuple[int, int]]) -> None:
    source = """
        .decl s(x: number)
        .decl e(x: number, y: number)
        .decl d(x: number, y: number)
        .decl r(x: number)
        r(x) :- s(x).
        r(y) :- r(x), e(x, y).
        r(x) <= r(y) :- d(x, y).
    """
    upwards = {(x, y) for x, y in edges if x < y}
    found = rows(source, s=[(x,) for x in starts], e=sorted(upwards), d=list(dominates))
    assert {x for (x,) in found} == removed_in_rounds(starts, upwards, set(dominates))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_several_rules(order: tuple[int, int]) -> None:
    rules = ["r(x, y) <= r(x, z) :- z < y.", "r(x, y) <= r(z, y) :- z < x."]
    source = ".decl r(x: number, y: number)\nr(1, 1). r(1, 2). r(2, 2). r(3, 3).\n" + "\n".join(rules[i] for i in order)
    assert rows(source) == [(1, 1), (3, 3)]
