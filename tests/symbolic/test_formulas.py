"""Expressions, fitting, conditions, and the domain with its search for uncovered sizes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.families.cases import solve
from scalify_dl.families.conditions import Condition, simplified
from scalify_dl.families.domain import Domain, Region, Search
from scalify_dl.families.fit import Ambiguous, Fitter, NoFormula
from scalify_dl.families.members import some_sizes
from scalify_dl.ir.expression import Expression, primitive

X = Expression.parse
POINTS = [{"tp": 2, "batch": 2, "seq": 5}, {"tp": 4, "batch": 6, "seq": 25}]

terms = st.tuples(
    st.dictionaries(st.sampled_from("abc"), st.integers(-2, 2)), st.fractions(-3, 3, max_denominator=4)
).map(lambda t: (tuple(sorted((n, e) for n, e in t[0].items() if e)), t[1]))
expressions = st.lists(terms, max_size=3).map(Expression.of)
values = st.fixed_dictionaries({name: st.integers(1, 9) for name in "abc"})


@given(expressions, expressions, values)
def test_arithmetic_of_expressions_is_that_of_their_values(p: Expression, q: Expression, at: dict[str, int]) -> None:
    assert (p + q).at(at) == p.at(at) + q.at(at)
    assert (p * q).at(at) == p.at(at) * q.at(at)
    assert Expression.parse(str(p)) == p
    assert (primitive(p).at(at) > 0) == (p.at(at) > 0)
    assert (primitive(p).at(at) < 0) == (p.at(at) < 0)


@given(expressions, values)
def test_the_value_of_an_expression_is_the_sum_of_its_terms(p: Expression, at: dict[str, int]) -> None:
    expected = Fraction(0)
    for powers, coefficient in p.terms:
        for name, exponent in powers:
            coefficient *= Fraction(at[name]) ** exponent
        expected += coefficient
    above, below = p.quotient(at)
    assert (p.at(at), below > 0) == (expected, True)
    assert Fraction(above, below) == expected


def test_every_point_of_a_few_sizes_is_looked_at_once() -> None:
    looked: list[tuple[int, ...]] = []
    domain = Domain(["tp", "batch"], [X("8/tp"), X("batch")], [])
    points = some_sizes(domain, 30, Random(0), lambda p: looked.append(tuple(p.values())) or p["tp"] > 1)
    assert len(looked) == len(set(looked))
    assert {p["tp"] for p in points} == {2, 4, 8}


@pytest.mark.parametrize(
    ("seen", "formula"),
    [
        ((32, 32), "32"),
        ((16, 8), "32/tp"),
        ((10, 150), "batch*seq"),
        ((40, 600), "4*batch*seq"),
        ((3, 23), "seq - 2"),
        ((Fraction(1, 5), Fraction(1, 25)), "1/seq"),
    ],
)
def test_the_simplest_formula_is_found(seen: tuple[int, int], formula: str) -> None:
    assert Fitter(POINTS).fit(seen) == X(formula)


def test_half_a_size_and_a_size_less_one_are_not_told_apart() -> None:
    for seen in ((1, 3), (4, 24)):  # batch/2, or tp - 1; batch*tp, or seq - 1
        with pytest.raises(Ambiguous):
            Fitter(POINTS).fit(seen)


def test_what_no_formula_gives_is_said() -> None:
    with pytest.raises(NoFormula):
        Fitter([*POINTS, {"tp": 8, "batch": 14, "seq": 35}]).fit((7, 11, 13))


def test_conditions_with_floors_and_remainders_are_evaluated_exactly() -> None:
    assert Condition("less", "floor(7/tp)", "mod(seq, tp) + 2").holds({"tp": 4, "seq": 6})
    assert Condition("integer", "batch*seq", "tp").holds({"batch": 2, "seq": 6, "tp": 4})
    assert not Condition("not_integer", "8/tp", "1").holds({"tp": 4})


def test_a_strict_comparison_makes_weaker_ones_superfluous() -> None:
    given_ = [
        Condition(kind, left, right)
        for kind, left, right in (
            ("not_equal", "1", "seq"),
            ("less", "1", "seq"),
            ("less", "-seq", "-1"),
            ("less_equal", "tp", "seq*tp"),
        )
    ]
    assert simplified(given_) == (given_[1],)


def test_equalities_are_solved_for_sizes_before_axes() -> None:
    assert solve(X("vocab/tp - 1"), ["tp"]) == ("vocab", X("tp"))
    assert solve(X("32/tp - 8"), ["tp"]) == ("tp", X("4"))
    assert solve(X("batch - seq - 1"), []) in (("batch", X("seq + 1")), ("seq", X("batch - 1")))
    assert solve(X("a*a - 2"), []) is None


conditions = st.lists(
    st.sampled_from(
        [
            Condition("less", "1", "batch"),
            Condition("not_equal", "batch", "8/tp"),
            Condition("less_equal", "k*batch", "3*batch"),
            Condition("less", "floor(batch/2)", "tp"),
            Condition("integer", "batch", "2"),
            Condition("not_integer", "batch", "tp"),
            Condition("less", "mod(batch, 3)", "2"),
        ]
    ),
    max_size=3,
)
equations = st.dictionaries(st.sampled_from(["batch"]), st.sampled_from([X("1"), X("tp"), X("2*tp")]), max_size=1)


@given(st.lists(st.tuples(equations, conditions, st.booleans()), max_size=3))
def test_the_search_finds_a_point_exactly_where_no_region_covers_the_domain(regions: list[tuple]) -> None:
    domain = Domain(["tp", "batch"], [X("8/tp"), X("batch"), X("9 - batch")], [])
    search = Search(domain)
    made = [
        Region(e, {"k": "tp"} if g else {}, tuple(c if g else [x for x in c if "k" not in x.symbols]))
        for e, c, g in regions
    ]
    for region in made:
        search.add(region)
    inside = [{"tp": tp, "batch": batch} for tp, batch in product((1, 2, 4, 8), range(1, 9))]
    open_points = [point for point in inside if not any(region.holds(point) for region in made)]
    found = search.point()
    assert found in open_points if open_points else found is None


def test_the_domain_is_told_in_words() -> None:
    domain = Domain(["tp", "batch"], [X("8/tp"), X("batch - 1")], [X("16/tp")])
    assert domain.texts() == ["tp divides 8", "batch >= 2"]
