"""What is particular to Soufflé: equivalences, choice, aggregates, counters, limits, functors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalify_dl.pysouffle import Program
from tests.engine import naive


def rows(source: str, relation: str = "r", **facts: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    program = Program.from_source(source)
    for name, given_rows in facts.items():
        program.insert(name, given_rows)
    return sorted(program.run().relation(relation))


# ---- equivalence relations

_pairs = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20)


@settings(max_examples=100, deadline=None)
@given(_pairs)
def test_an_equivalence_relation_is_closed(pairs: list[tuple[int, int]]) -> None:
    source = ".decl p(x: number, y: number)\n.decl r(x: number, y: number) eqrel\nr(x, y) :- p(x, y).\n"
    assert set(rows(source, p=list(pairs))) == naive.closure(set(pairs))


@settings(max_examples=60, deadline=None)
@given(_pairs, _pairs)
def test_congruence_closure_by_recursion_through_an_equivalence(
    equal: list[tuple[int, int]], function: list[tuple[int, int]]
) -> None:
    """f(x) = f(y) when x = y: equal arguments have equal results."""
    source = """
        .decl p(x: number, y: number)
        .decl f(x: number, y: number)
        .decl r(x: number, y: number) eqrel
        r(x, y) :- p(x, y).
        r(a, b) :- f(x, a), f(y, b), r(x, y).
        .decl copy(x: number, y: number)
        copy(x, y) :- r(x, y).
        .decl one(x: number)
        one(y) :- r(1, y).
    """
    known = naive.closure(set(equal))
    while True:
        more = naive.closure({*known, *((a, b) for x, a in function for y, b in function if (x, y) in known)})
        if more == known:
            break
        known = more
    # read back and forth with one side known: rules see new pairs only, from either side
    source += ".decl to(y: number)\n.decl from(x: number)\nto(y) :- r(2, y).\nfrom(x) :- r(x, 3).\n"
    source += "r(y, y) :- to(y).\nr(x, x) :- from(x).\n"
    program = Program.from_source(source).insert("p", equal).insert("f", function).run()
    assert set(program.relation("r")) == set(program.relation("copy")) == known
    assert set(program.relation("one")) == {(y,) for x, y in known if x == 1}
    assert set(program.relation("to")) == {(y,) for x, y in known if x == 2}
    assert set(program.relation("from")) == {(x,) for x, y in known if y == 3}


def test_a_large_class_is_not_stored_as_pairs() -> None:
    source = (
        ".decl n(x: number)\n.decl r(x: number, y: number) eqrel\nn(x) :- x = range(0, 20000).\nr(x, x + 1) :- n(x).\n"
    )
    program = Program.from_source(source).run(max_memory=20_000_000)
    assert program.size("r") == 20001**2


# ---- choice, limits


def test_choice_domain_keeps_one_row_per_key() -> None:
    source = """
        .decl p(x: number, y: number)
        .decl r(x: number, y: number) choice-domain x
        .decl s(x: number, y: number) choice-domain (x, y), y
        r(x, y) :- p(x, y).
        s(x, y) :- p(x, y).
    """
    pairs = [(1, 5), (1, 6), (2, 5), (3, 7)]
    chosen = dict(rows(source, p=list(pairs)))
    assert set(chosen) == {1, 2, 3}
    assert set(chosen.items()) <= set(pairs)
    ys = [y for _, y in rows(source, "s", p=list(pairs))]
    assert sorted(ys) == [5, 6, 7]


def test_a_spanning_tree_by_choice() -> None:
    source = """
        .decl edge(x: number, y: number)
        .decl tree(x: number, y: number) choice-domain y
        tree(-1, 0).
        tree(x, y) :- tree(_, x), edge(x, y).
    """
    edges = [(i, j) for i in range(6) for j in range(6) if i != j]
    assert sorted(y for _, y in rows(source, "tree", edge=list(edges))) == [0, 1, 2, 3, 4, 5]


def test_limitsize_ends_a_recursion() -> None:
    found = rows(".decl r(x: number)\nr(0). r(x + 1) :- r(x).\n.limitsize r(n=10)\n")
    assert len(found) == 10


# ---- aggregates


def test_aggregates_of_nothing() -> None:
    source = """
        .decl e(x: number)
        .decl f(x: float)
        .decl r(k: symbol, v: number)
        r("count", n) :- n = count : { e(_) }.
        r("sum", n) :- n = sum x : { e(x) }.
        r("min", n) :- n = min x : { e(x) }.
        r("max", n) :- n = max x : { e(x) }.
        .decl m(v: float)
        m(v) :- v = mean x : { f(x) }.
    """
    assert rows(source) == [("count", 0), ("sum", 0)]
    assert rows(source, "m") == []


def test_aggregates_by_type() -> None:
    source = """
        .decl u(x: unsigned)
        .decl f(x: float)
        .decl r(a: unsigned, b: unsigned, c: float, d: float, e: float)
        r(a, b, c, d, e) :-
            a = max x : { u(x) }, b = sum x : { u(x) },
            c = min x : { f(x) }, d = sum x : { f(x) }, e = mean x : { f(x) }.
    """
    assert rows(source, u=[(2**63,), (5,)], f=[(-1.5,), (2.0,)]) == [(2**63, 2**63 + 5, -1.5, 0.5, 0.25)]


def test_nested_and_correlated_aggregates() -> None:
    source = """
        .decl p(g: number, x: number)
        .decl r(g: number, n: number)
        r(g, n) :- p(g, _), n = count : { p(g, x), x = max y : { p(g, y) } }.
        .decl s(n: number)
        s(n) :- n = sum c : { p(g, _), c = count : { p(g, _) } }.
    """
    facts: list[tuple[object, ...]] = [(1, 5), (1, 6), (2, 7)]
    assert rows(source, p=facts) == [(1, 1), (2, 1)]
    assert rows(source, "s", p=facts) == [
        (3,)
    ]  # a body of several literals is a set over its named variables: (1, 2), (2, 1)


def test_an_aggregate_over_a_lower_relation_inside_a_recursion() -> None:
    source = """
        .decl limit(x: number)
        .decl r(x: number)
        r(0).
        r(x + 1) :- r(x), m = max y : { limit(y) }, x < m.
    """
    assert len(rows(source, limit=[(10,), (20,)])) == 21


# ---- functors


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("2 ^ 10", 1024),
        ("6 band 3", 2),
        ("6 bor 3", 7),
        ("6 bxor 3", 5),
        ("bnot 0", -1),
        ("1 bshl 4", 16),
        ("-16 bshr 2", -4),
        ("-1 bshru 60", 15),
        ("5 land 0", 0),
        ("5 lor 0", 1),
        ("5 lxor 3", 0),
        ("lnot 0", 1),
        ("max(3, 9, 4)", 9),
        ("min(3, -9, 4)", -9),
        ('strlen("häh")', 4),
        ('to_number("-12")', -12),
        ('ord("a") - ord("a")', 0),
        ("utoi(itou(-5))", -5),
        ("ftoi(2.9)", 2),
        ("ftoi(-2.9)", -2),
    ],
)
def test_functors_on_numbers(expression: str, value: int) -> None:
    assert rows(f".decl r(x: number)\nr({expression}).") == [(value,)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('cat("a", "b", "c")', "abc"),
        ('substr("abcdef", 2, 3)', "cde"),
        ('substr("abc", 1, 99)', "bc"),
        ('substr("abc", 9, 1)', ""),
        ("to_string(-3)", "-3"),
        ("to_string(1.5)", "1.500000"),
        ('max("a", "b")', "b"),
        ('min("b", "a", "c")', "a"),
    ],
)
def test_functors_on_symbols(expression: str, value: str) -> None:
    assert rows(f".decl r(x: symbol)\nr({expression}).") == [(value,)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [("7.0 / 2.0", 3.5), ("2.0 ^ 0.5", 2.0**0.5), ("itof(3) + 0.5", 3.5), ("-(1.5)", -1.5), ("max(1.0, 2.5)", 2.5)],
)
def test_functors_on_floats(expression: str, value: float) -> None:
    assert rows(f".decl r(x: float)\nr({expression}).") == [(value,)]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("0, 4", [0, 1, 2, 3]),
        ("4, 0", [1, 2, 3, 4]),
        ("3, 3", []),
        ("0, 7, 3", [0, 3, 6]),
        ("7, 0, -3", [1, 4, 7]),
        ("0, 7, -3", []),
        ("5, 6, 0", [5]),
        ("5, 5, 0", []),
    ],
)
def test_ranges(arguments: str, values: list[int]) -> None:
    assert rows(f".decl r(x: number)\nr(x) :- x = range({arguments}).") == [(v,) for v in values]
    inside = f".decl n(x: number)\nn(x) :- x = range(-1, 9).\n.decl r(x: number)\nr(x) :- n(x), x = range({arguments})."
    assert rows(inside) == [(v,) for v in values]


def test_ranges_at_the_end_of_the_numbers_end() -> None:
    assert rows(".decl r(x: number)\nr(x) :- x = range(9223372036854775805, 9223372036854775807).") == [
        (2**63 - 3,),
        (2**63 - 2,),
    ]


def test_symbols_compare_as_text_and_match_and_contain() -> None:
    source = """
        .decl s(x: symbol)
        .decl r(x: symbol, why: symbol)
        r(x, "less") :- s(x), x < "b".
        r(x, "match") :- s(x), match("a.*", x).
        r(x, "not match") :- s(x), !match("a.*", x).
        r(x, "contains") :- s(x), contains("z", x).
    """
    assert rows(source, s=[("az",), ("b",)]) == [
        ("az", "contains"), ("az", "less"), ("az", "match"), ("b", "not match")
    ]  # fmt: skip


def test_a_pattern_that_is_none_is_a_warning_and_nothing_matches_it() -> None:
    program = Program.from_source("""
        .decl s(x: symbol) .input s
        .decl r(x: symbol, why: symbol)
        r(x, "constant") :- s(x), match("(", x).
        r(x, "not constant") :- s(x), !match("(", x).
        r(x, "computed") :- s(x), match(cat("[", x), x).
        r(x, "not computed") :- s(x), !match(cat("[", x), x).
        r(x, "fine") :- s(x), match("a", x).
    """)
    before = program.warnings
    assert [w.line for w in before] == [4, 5]
    assert all('"(" is not a regular expression' in w.message for w in before)
    assert program.insert("s", [("a",)]).run().relation("r") == [("a", "fine")]
    [*same, later] = program.warnings
    assert same == before
    assert (later.severity, later.line) == ("warning", 6)
    assert '"[a" is not a regular expression' in later.message
    assert program.fresh().warnings == before


def test_counters_number_the_rows() -> None:
    found = rows(
        ".decl p(x: symbol)\n.decl r(i: number, x: symbol)\nr(autoinc(), x) :- p(x).", p=[("a",), ("b",), ("c",)]
    )
    assert [i for i, _ in found] == [0, 1, 2]
    assert {x for _, x in found} == {"a", "b", "c"}


# ---- records and patterns


def test_records_are_built_and_taken_apart() -> None:
    source = """
        .type L = [head: number, tail: L]
        .decl r(n: number)
        .decl l(l: L)
        l([1, [2, [3, nil]]]).
        l(t) :- l([_, t]).
        r(h) :- l([h, _]).
        .decl none(x: number)
        none(1) :- l(nil).
        .decl absent(x: number)
        absent(x) :- x = range(0, 5), !l([x, _]).
        .decl rebuilt(l: L)
        rebuilt([h + 1, t]) :- l([h, t]).
    """
    assert rows(source) == [(1,), (2,), (3,)]
    assert rows(source, "none") == [(1,)]
    assert rows(source, "absent") == [(0,), (4,)]
    assert rows(source, "rebuilt")[-1] == ((4, None),)


def test_a_variable_twice_in_one_atom_and_unnamed_columns() -> None:
    source = ".decl p(x: number, y: number, z: number)\n.decl r(x: number)\nr(x) :- p(x, x, _)."
    assert rows(source, p=[(1, 1, 2), (1, 2, 1), (3, 3, 3)]) == [(1,), (3,)]


def test_relations_with_very_many_columns() -> None:
    columns = ", ".join(f"c{i}: number" for i in range(80))
    names = ", ".join(f"c{i}" for i in range(80))
    source = f".decl p({columns})\n.decl q({columns})\n.decl r({columns})\n"
    source += f"r({names}) :- p({names}), p({names}), !q({names}).\n"
    row = tuple(range(80))
    assert rows(source, p=[row]) == [row]
