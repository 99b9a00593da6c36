"""Floats as values: 0.0 and -0.0 are one, a NaN can be held and explained though it equals nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.pysouffle import Program

Check = Callable[[Program], None]
NAN = float("nan")


def run(source: str, **facts: list[tuple[object, ...]]) -> Program:
    program = Program.from_source(source)
    for name, rows in facts.items():
        program.insert(name, rows)
    return program.run()


PAIR = ".decl a(x: float)\n.decl b(x: float)\n.decl r(x: float)\n"
ZEROS: dict[str, list[tuple[object, ...]]] = {"a": [(0.0,), (2.0,)], "b": [(-0.0,), (3.0,)]}


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("r(x) :- a(x), b(x).", 1),
        ("r(x) :- a(x), !b(x).", 1),
        ("r(x) :- a(x). r(x) :- b(x).", 3),
        ("r(x) :- a(x), b(y), x = y.", 1),
        ("r(x) :- b(x), x = 0.0.", 1),
        ("r(1.0) :- b(0.0).", 1),
        ("r(1.0) :- a(-0.0).", 1),
        ("r(1.0) :- !b(0.0).", 0),
        ("r(x) :- a(y), b(x), x = -y.", 1),
        ("r(n) :- a(x), n = sum 1.0 : { b(x) }.", 2),
        (".decl p(x: float, y: float)\np(x, y) :- a(x), b(y).\nr(x) :- p(x, x).", 1),
        ("r(x) :- x = range(-1.0, 1.0), b(x).", 1),
    ],
)
def test_the_two_zeros_are_one_value(rule: str, count: int) -> None:
    assert run(PAIR + rule, **ZEROS).size("r") == count


def test_a_fact_given_as_either_zero_is_one_row() -> None:
    program = run(".decl r(x: float)\nr(0.0). r(-0.0).")
    assert program.relation("r") == [(0.0,)]
    program = run(".decl r(x: float)", r=[(-0.0,), (0.0,)])
    assert [math.copysign(1, x) for (x,) in program.relation("r")] == [-1.0], "what came first is kept, sign and all"
    assert program.holds("r", (0.0,))
    assert program.holds("r", (-0.0,))


def test_a_row_is_explained_by_either_zero() -> None:
    program = run(PAIR + "r(x) :- b(x).\nr(0.0) :- b(3.0).", **ZEROS)
    for zero in (0.0, -0.0):
        proof = program.explain("r", (zero,))
        assert proof is not None
        assert proof.kind == "rule"
    assert program.explain("r", (7.0,)) is None
    assert str(program.why_not("r", (7.0,)))


def test_choice_takes_the_zeros_for_one_key() -> None:
    source = ".decl p(x: float, y: number)\n.decl r(x: float, y: number) choice-domain x\nr(x, y) :- p(x, y).\n"
    assert run(source, p=[(0.0, 1), (-0.0, 2)]).size("r") == 1


@pytest.mark.parametrize("aggregate", ["sum x", "mean x", "sum x / x"])
def test_an_aggregate_that_is_no_number_derives_nothing(aggregate: str) -> None:
    source = f"""
        .decl a(x: float)
        .decl r(x: float)
        r(s) :- s = {aggregate} : {{ a(x) }}.
        r({aggregate} : {{ a(x) }} + 1.0).
    """
    assert run(source, a=[(math.inf,), (-math.inf,)]).relation("r") == []
    assert run(source, a=[(1.0,), (2.0,)]).size("r") == 2


@pytest.mark.parametrize(
    "rule",
    [
        "r(x / x) :- a(x).",
        "r(y) :- a(x), y = x / x.",
        "d(x / x) :- a(x). r(x) :- d(x).",
        "d(x / x) :- a(x). r(y) :- d(x), y = x + 1.0.",
        "d(x / x) :- a(x). r(x) :- d(x), d(y), x = y.",
    ],
)
def test_rows_without_a_number_are_explained(rule: str) -> None:
    program = run(".decl a(x: float)\na(0.0).\n.decl d(x: float)\n.decl r(x: float)\n" + rule)
    assert program.size("r") == 1
    proof = program.explain("r", (NAN,))
    assert proof is not None
    assert proof.kind == "rule"
    assert program.derivation({"r": [(NAN,)]}).steps


def test_one_variable_finds_nan_and_no_comparison_does() -> None:
    source = """
        .decl a(x: float)
        .decl d(x: float)
        d(x / x) :- a(x).
        .decl r(k: symbol)
        .decl same(x: float)
        same(x) :- d(x), d(x).
        same(x) :- d(x), d(y), x = y.
        r("between") :- d(x), d(y), x <= y, y <= x.
        r("less") :- d(x), x < 1.0.
        r("more") :- d(x), x >= 1.0.
        r("computed") :- d(z), a(x), z = x / x.
        r("summed") :- d(z), z = sum x : { d(x) }.
    """
    program = run(source, a=[(0.0,)])
    assert program.relation("r") == []
    assert program.size("same") == 1


def test_nan_is_one_row() -> None:
    negative = -NAN
    assert run(".decl r(x: float)", r=[(NAN,), (negative,), (NAN,)]).size("r") == 1


@pytest.mark.parametrize(("aggregate", "value"), [("min", 1.0), ("max", 2.0)])
def test_the_least_and_the_greatest_pass_over_nan(aggregate: str, value: float) -> None:
    source = f".decl a(x: float)\n.decl r(x: float)\nr(m) :- m = {aggregate} x : {{ a(x) }}."
    for rows in ([(NAN,), (1.0,), (2.0,)], [(1.0,), (NAN,), (2.0,)], [(2.0,), (1.0,), (NAN,)]):
        assert run(source, a=list(rows)).relation("r") == [(value,)]


_floats = st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf, NAN, -NAN, 5e-324])


def _same(x: float, y: float) -> bool:
    return x == y or (math.isnan(x) and math.isnan(y))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_floats, _floats), max_size=30), st.lists(_floats, max_size=30))
def test_a_relation_holds_each_value_once_however_it_is_found(
    pairs: list[tuple[float, float]], keys: list[float]
) -> None:
    source = """
        .decl p(x: float, y: float)
        .decl k(x: float)
        .decl join(x: float, y: float)
        join(x, y) :- k(x), p(x, y).
        .decl missing(x: float)
        missing(x) :- k(x), !p(x, _).
    """
    program = run(source, p=list(pairs), k=[(x,) for x in keys])

    def distinct(rows: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        kept: list[tuple[float, ...]] = []
        for row in rows:
            if not any(all(map(_same, row, other)) for other in kept):
                kept.append(row)
        return kept

    assert program.size("p") == len(distinct(list(pairs)))
    assert program.size("k") == len(distinct([(x,) for x in keys]))
    joined = [(x, y) for x, y in pairs if any(_same(x, k) for k in keys)]
    assert program.size("join") == len(distinct(list(joined)))
    missing = [(k,) for k in keys if not any(_same(k, x) for x, _ in pairs)]
    assert program.size("missing") == len(distinct(list(missing)))
