"""Joins give the same rows whatever values are like: dense or sparse, falling, negative, at the ends of the type."""

import random

import pytest

from scalify_dl.pysouffle import Program

ENDS = [-(2**63), -(2**63) + 1, -(2**60), -(2**60) - 1, -1, 0, 1, 2**60, 2**60 + 1, 2**62, 2**63 - 1]


def values(rng: random.Random, kind: str, count: int) -> list[int]:
    """So many values of a kind."""
    if kind == "dense":
        return [rng.randrange(-count // 2, count) for _ in range(count)]
    if kind == "sparse":
        return [rng.randrange(0, 10**6) * 1000 for _ in range(count)]
    if kind == "one outlier":
        return [*(rng.randrange(count) for _ in range(count - 1)), rng.choice(ENDS)]
    return [rng.choice(ENDS) for _ in range(count)]


@pytest.mark.parametrize("kind", ["dense", "sparse", "one outlier", "ends"])
def test_a_join_on_one_column_finds_the_rows_with_its_value(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(20):
        count = rng.choice([9, 40, 400])
        left = list(zip(range(count), values(rng, kind, count), strict=True))
        right = list(zip(values(rng, kind, count), range(count), strict=True))
        program = Program.from_source(
            ".decl l(i:number, v:number) .input l .decl r(v:number, j:number) .input r"
            ".decl both(i:number, j:number) both(i, j) :- l(i, v), r(v, j)."
        )
        for part in (slice(None, None, 2), slice(1, None, 2)):  # the second half comes after a run
            program.insert("l", left[part]).insert("r", right[part]).run()
        assert set(program.relation("both")) == {(i, j) for i, v in left for w, j in right if v == w}


@pytest.mark.parametrize("step", [1, -1, 37, -37, 10**7, -(10**7)])
def test_values_that_come_round_by_round_are_found(step: int) -> None:
    program = Program.from_source(
        ".decl first(x:number) .input first .decl by(n:number) .input by"
        ".decl walk(n:number, x:number) walk(0, x) :- first(x)."
        "walk(n + 1, x + d) :- walk(n, x), by(d), n < 300."
        ".decl pair(n:number, m:number) pair(n, m) :- walk(n, x), by(d), walk(m, x + d)."
    )
    program.insert("first", [(5,)]).insert("by", [(step,)]).run()
    assert set(program.relation("pair")) == {(n, n + 1) for n in range(300)}


@pytest.mark.parametrize("skewed", [False, True])
def test_a_join_on_two_columns_finds_the_rows_with_both_values(skewed: bool) -> None:
    rng = random.Random(skewed)
    held = {(rng.randrange(200), n % 3, n) for n in range(400)} | {(7, n, n) for n in range(100 if skewed else 1)}
    asked = {(rng.randrange(220), rng.randrange(100 if skewed else 4)) for _ in range(300)} | {(7, 1), (7, 99)}
    program = Program.from_source(
        ".decl held(a:number, b:number, c:number) .input held .decl asked(a:number, b:number) .input asked"
        ".decl found(a:number, b:number, c:number) found(a, b, c) :- asked(a, b), held(a, b, c)."
    )
    program.insert("held", held).insert("asked", asked).run()
    assert set(program.relation("found")) == {row for row in held if row[:2] in asked}


def test_a_rule_waits_for_relations_of_its_own_recursion() -> None:
    program = Program.from_source(
        ".decl start(x:number) .input start .decl never(x:number) .input never"
        ".decl a(x:number) .decl b(x:number) .decl c(x:number) .decl d(x:number, y:number)"
        "a(x) :- start(x). a(x + 1) :- a(x), b(x), c(x)."
        "b(x) :- a(x), x < 6. b(x) :- c(x), never(x)."
        "c(x) :- b(x), a(x). c(0) :- d(x, x), d(x, x)."
        "d(x, y) :- c(x), c(y), a(x + 1), a(y + 1)."
    )
    program.insert("start", [(1,)]).run()
    assert sorted(program.relation("a")) == [(x,) for x in range(1, 7)]
    assert sorted(program.relation("c")) == [(x,) for x in range(6)]
    assert set(program.relation("d")) == {(x, y) for x in range(6) for y in range(6)}
    program.insert("never", [(0,)]).run()
    assert sorted(program.relation("b")) == [(x,) for x in range(6)]
