"""Every construct of the language means what the Soufflé language reference says."""

from __future__ import annotations

import pytest

from scalify_dl.pysouffle import Branch, Program
from tests.engine.language import errors, rows, warnings

EDGES = ".decl e(x: number, y: number)\ne(1, 2). e(2, 3). e(3, 1). e(3, 4).\n"


def test_several_heads_and_disjunctions_give_every_combination() -> None:
    source = EDGES + ".decl r, s(x: number)\nr(x), s(x) :- e(x, 2) ; e(x, y), (y = 1 ; y = 4)."
    assert rows(source) == rows(source, "s") == {1, 3}


def test_negation_is_pushed_into_parentheses() -> None:
    source = EDGES + ".decl r(x: number, y: number)\nr(x, y) :- e(x, y), !(x < 3, !e(y, 1))."
    assert rows(source) == {(2, 3), (3, 1), (3, 4)}


def test_true_and_false_are_literals() -> None:
    assert rows(".decl r(x: number)\nr(1) :- true. r(2) :- false. r(3) :- !false.") == {1, 3}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 ^ 3 ^ 2", 512),
        ("-2 ^ 2", -4),
        ("7 - 2 - 1", 4),
        ("7 / 2 * 2", 6),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("6 band 3 bor 8", 10),
        ("1 bor 2 bxor 3 band 1", 3),
        ("1 bshl 4 bshr 1", 8),
        ("-1 bshru 63", 1),
        ("bnot 0", -1),
        ("lnot 5", 0),
        ("1 land 0 lor 1", 1),
        ("1 lxor 1", 0),
        ("0x1F + 0b101", 36),
        ("max(1, 5, 3) - min(4, 2)", 3),
        ("--3", 3),
        ("1.2.3.4", 16909060),
        ('strlen("abc")', 3),
        ('to_number("-12")', -12),
        ("itou(3) - itou(1)", None),
    ],
)
def test_operators_bind_as_in_the_reference(expression: str, value: int | None) -> None:
    source = f".decl r(x: number)\nr({expression})."
    if value is None:
        assert errors(source)
    else:
        assert rows(source) == {value}


@pytest.mark.parametrize(
    ("type_name", "expression", "value"),
    [
        ("unsigned", "3u - 1u", 2),
        ("unsigned", "0xffu", 255),
        ("unsigned", "to_unsigned(7) / 2", 3),
        ("float", "1.5 * 2", 3.0),
        ("float", "1 / 4", 0.25),
        ("float", "2.5e1", 25.0),
        ("float", "max(1, 2.5)", 2.5),
        ("float", "itof(3) / 2.0", 1.5),
        ("symbol", 'cat("a", "b", "c")', "abc"),
        ("symbol", '"a" + "b"', "ab"),
        ("symbol", 'substr("hello", 1, 3)', "ell"),
        ("symbol", "to_string(1 + 1)", "2"),
        ("symbol", 'max("b", "a")', "b"),
        ("symbol", r'"tab\tquote\"backslash\\"', 'tab\tquote"backslash\\'),
        ("number", "ftoi(2.9)", 2),
        ("number", "to_number(3u)", 3),
    ],
)
def test_types_choose_the_version_of_a_functor(type_name: str, expression: str, value: object) -> None:
    assert rows(f".decl r(x: {type_name})\nr({expression}).") == {value}


def test_comparisons_follow_the_type() -> None:
    source = """
        .decl u(x: unsigned) u(0xffffffffffffffffu). u(1).
        .decl s(x: symbol) s("b"). s("a").
        .decl r(x: symbol)
        r("unsigned") :- u(x), x > 2.
        r(x) :- s(x), x < "b".
        r("float") :- 0.5 < 1.
    """
    assert rows(source) == {"unsigned", "a", "float"}


def test_match_is_of_the_whole_text_and_contains_of_a_part() -> None:
    source = """
        .decl s(x: symbol) s("abc"). s("xabcx"). s("b").
        .decl r(k: symbol, x: symbol)
        r("match", x) :- s(x), match("a.c", x).
        r("contains", x) :- s(x), contains("b", x), !contains("x", x).
        r("not match", x) :- s(x), !match(".b.", x).
    """
    assert {x for k, x in rows(source) if k == "match"} == {"abc"}
    assert {x for k, x in rows(source) if k == "contains"} == {"abc", "b"}
    assert {x for k, x in rows(source) if k == "not match"} == {"xabcx", "b"}


def test_range_generates_up_to_its_end_in_either_direction() -> None:
    source = ".decl r(x: number, y: number)\nr(x, y) :- x = range(0, 4, 2), y = range(3, 1)."
    assert rows(source) == {(x, y) for x in (0, 2) for y in (3, 2)}


def test_range_works_wherever_a_value_is_expected() -> None:
    assert rows(".decl r(x: number)\nr(range(1, 4) * 10).") == {10, 20, 30}


def test_autoinc_numbers_rows() -> None:
    source = '.decl s(x: symbol) s("a"). s("b"). s("c").\n.decl r(i: number, x: symbol)\nr(autoinc(), x) :- s(x).'
    found = rows(source)
    assert {i for i, _ in found} == {0, 1, 2}
    assert {x for _, x in found} == {"a", "b", "c"}


# ---------------------------------------------------------------- types


def test_records_nest_and_end_in_nil() -> None:
    source = """
        .type List = [head: number, tail: List]
        .decl l(x: List) l([1, [2, nil]]). l(nil).
        .decl r(h: number, t: List)
        r(h, t) :- l([h, t]).
        r(h, t) :- r(_, t), t = [h, _], t != nil.
    """
    assert rows(source) == {(1, (2, None)), (2, (2, None))}


def test_records_are_equal_by_their_fields() -> None:
    source = """
        .type P = [x: number, y: number]
        .decl p, q(p: P) p([1, 2]). p([3, 4]). q([3, 1 + 3]).
        .decl r(x: number) r(x) :- p(a), q(a), a = [x, _].
    """
    assert rows(source) == {3}


def test_records_without_a_type_only_carry_their_fields() -> None:
    source = EDGES + ".decl r(x: number) r(z) :- e(x, y), p = [x, y], q = p, q = [v, w], z = v + w, z > 4."
    assert rows(source) == {5, 7}


def test_branches_are_told_apart() -> None:
    source = """
        .type Expr = Number { n: number } | Add { l: Expr, r: Expr } | Unknown {}
        .decl e(x: Expr)
        e($Add($Number(1), $Unknown())).
        e(x), e(y) :- e($Add(x, y)).
        .decl r(x: Expr) r(x) :- e(x), x != $Unknown(), x = $Number(_).
    """
    assert rows(source) == {Branch("Number", (1,))}
    assert len(rows(source, "e")) == 3


def test_subtypes_unions_and_equivalences() -> None:
    source = """
        .type Even <: number
        .type Odd <: number
        .type Any = Even | Odd
        .type Same = Even
        .decl even(x: Even) even(2).
        .decl odd(x: Odd) odd(3).
        .decl r(x: Any) r(x) :- even(x). r(x) :- odd(x).
        .decl s(x: Same) s(x) :- even(x).
        .decl t(x: Odd) t(as(x, Odd)) :- even(x).
    """
    assert rows(source) == {2, 3}
    assert rows(source, "s") == rows(source, "t") == {2}


def test_old_type_declarations_still_work_and_warn() -> None:
    source = '.number_type N\n.symbol_type S\n.type T\n.decl r(a: N, b: S, c: T) output\nr(1, "b", "c").'
    assert rows(source) == {(1, "b", "c")}
    assert [line for line, _ in warnings(source)] == [1, 2, 3, 4]


# ---------------------------------------------------------------- aggregates


def test_aggregates_of_a_relation() -> None:
    source = (
        EDGES
        + """
        .decl r(k: symbol, v: number)
        r("count", n) :- n = count : { e(_, _) }.
        r("sum", n) :- n = sum y : { e(_, y) }.
        r("min", n) :- n = min x + y : { e(x, y) }.
        r("max", max y : { e(_, y) }).
        r("old", n) :- n = max x : e(x, _).
        .decl m(v: float) m(n) :- n = mean to_float(y) : { e(3, y) }.
    """
    )
    assert rows(source) == {("count", 4), ("sum", 10), ("min", 3), ("max", 4), ("old", 3)}
    assert rows(source, "m") == {2.5}


def test_count_and_sum_of_nothing_are_zero_and_minimum_derives_nothing() -> None:
    source = (
        EDGES
        + """
        .decl r(k: symbol, v: number)
        r("count", n) :- n = count : { e(9, _) }.
        r("sum", n) :- n = sum y : { e(9, y) }.
        r("min", n) :- n = min y : { e(9, y) }.
    """
    )
    assert rows(source) == {("count", 0), ("sum", 0)}


def test_a_variable_bound_outside_is_injected_into_the_aggregate() -> None:
    source = EDGES + ".decl r(x: number, n: number) r(x, n) :- e(x, _), n = count : { e(x, _) }."
    assert rows(source) == {(1, 1), (2, 1), (3, 2)}


def test_the_target_of_an_aggregate_is_a_variable_of_its_own() -> None:
    source = EDGES + ".decl r(x: number, n: number) r(x, n) :- e(x, 4), n = sum x : { e(x, _) }."
    assert rows(source) == {(3, 9)}


def test_aggregates_side_by_side_do_not_share_variables() -> None:
    source = EDGES + ".decl r(a: number, b: number) r(a, b) :- a = count : { e(x, _), x > 2 }, b = count : { e(x, 2) }."
    assert rows(source) == {(2, 1)}


def test_aggregates_nest() -> None:
    source = EDGES + ".decl r(n: number) r(n) :- n = max c : { e(x, _), c = count : { e(x, _) } }."
    assert rows(source) == {2}


def test_witnesses_of_an_extremum_reach_the_head() -> None:
    source = EDGES + ".decl r(x: number, m: number) r(x, m) :- m = max y : { e(x, y) }."
    assert rows(source) == {(3, 4)}


def test_a_body_of_several_atoms_counts_bindings_of_named_variables() -> None:
    single = EDGES + ".decl r(n: number) r(n) :- n = count : { e(x, _) }."
    several = EDGES + ".decl t(x: number) t(3).\n.decl r(n: number) r(n) :- n = count : { e(x, _), t(x) }."
    assert rows(single) == {4}
    assert rows(several) == {1}


# ---------------------------------------------------------------- relations


def test_equivalence_relations_close_themselves() -> None:
    source = ".decl r(x: number, y: number) eqrel\nr(1, 2). r(2, 3)."
    assert rows(source) == {(x, y) for x in (1, 2, 3) for y in (1, 2, 3)}


def test_choice_domain_keeps_one_row_per_key() -> None:
    source = EDGES + ".decl r(x: number, y: number) choice-domain x\nr(x, y) :- e(x, y)."
    found = rows(source)
    assert len(found) == 3
    assert {x for x, _ in found} == {1, 2, 3}


def test_subsumption_keeps_what_is_not_dominated() -> None:
    source = (
        EDGES
        + """
        .decl r(x: number, d: number) btree_delete
        r(1, 0). r(y, d + 1) :- r(x, d), e(x, y), d < 10.
        r(x, d) <= r(x, d2) :- d2 < d.
    """
    )
    assert rows(source) == {(1, 0), (2, 1), (3, 2), (4, 3)}


def test_inline_relations_disappear_into_their_uses() -> None:
    source = (
        EDGES
        + """
        .decl close(x: number, y: number) inline
        close(x, y) :- e(x, y).
        close(x, y) :- e(x, z), close2(z, y).
        .decl close2(x: number, y: number) inline
        close2(x, y) :- e(x, y), x > 2.
        .decl small(x: number, y: number) inline
        small(x, y) :- x + y < 5.
        .decl r(x: number, y: number) r(x, y) :- close(x, y), !small(x, y).
    """
    )
    assert rows(source) == {(2, 3), (3, 4)} | {(2, 4)}


def test_inlining_keeps_the_variables_of_aggregates_apart() -> None:
    source = (
        EDGES
        + """
        .decl total(x: number, s: number) inline
        total(x, s) :- e(x, _), s = sum x : { e(x, _) }.
        .decl r(s: number) r(s) :- total(1, s).
    """
    )
    assert rows(source) == {9}


def test_inlined_records_keep_their_type() -> None:
    source = (
        EDGES
        + """
        .type P = [x: number, y: number]
        .decl second(p: P, y: number) inline
        second([x, y], y) :- x > 1.
        .decl same(p: P, q: P) inline
        same(p, q) :- p = q.
        .decl r(y: number)
        r(z) :- e(x, y), p = [x, y], second(p, z), !same(p, [3, 1]), p != nil.
    """
    )
    assert rows(source) == {3, 4}


def test_directives_take_parameters_and_several_relations() -> None:
    source = """
        .decl r, s(x: number)
        .input r, s(IO=file, filename="x.facts", delimiter=",")
        .output r()
        .printsize s
        .limitsize s(n=5)
    """
    assert errors(source) == []


def test_qualifiers_plans_and_pragmas_are_accepted() -> None:
    source = """
        .pragma "legacy"
        .pragma "magic-transform" "*"
        .decl r(x: number, y: number) brie no_inline
        .decl s(x: number) magic overridable
        r(1, 2). s(1).
        r(x, z) :- r(x, y), r(y, z). .plan 0:(2,1), 1:(1,2)
    """
    assert errors(source) == []


def test_functors_of_the_host_are_declared_with_types() -> None:
    source = ".functor twice(x: number): number\n.functor join(symbol, symbol): symbol stateful\n"
    source += '.decl r(x: number, s: symbol)\nr(@twice(4), @join("a", "b")).'
    program = Program.from_source(source)
    program.functor("twice", lambda x: 2 * x).functor("join", lambda a, b: a + b)
    assert program.run().relation("r") == [(8, "ab")]


def test_nullary_relations_are_propositions() -> None:
    source = '.decl a() a().\n.decl b()\n.decl r(x: symbol) r("a") :- a(). r("not b") :- !b().'
    assert rows(source) == {"a", "not b"}


# ---------------------------------------------------------------- components


def test_components_are_instantiated_with_types_and_inheritance() -> None:
    source = """
        .comp Graph<N> {
            .decl edge, path(x: N, y: N)
            path(x, y) :- edge(x, y).
            path(x, z) :- path(x, y), edge(y, z).
        }
        .comp Undirected<M> : Graph<M> { edge(x, y) :- edge(y, x). }
        .init g = Undirected<symbol>
        g.edge("a", "b").
        .decl r(x: symbol, y: symbol) r(x, y) :- g.path(x, y).
    """
    assert rows(source) == {(x, y) for x in "ab" for y in "ab"}


def test_overridden_rules_of_a_base_are_dropped() -> None:
    source = """
        .comp A { .decl x(n: number) overridable  x(1).  .decl y(n: number)  y(n) :- x(n). }
        .comp B : A { .override x  x(2). }
        .init a = A
        .init b = B
        .decl r(k: symbol, n: number) r("a", n) :- a.y(n). r("b", n) :- b.y(n).
    """
    assert rows(source) == {("a", 1), ("b", 2)}


def test_component_parameters_may_name_components_and_instances_nest() -> None:
    source = """
        .comp One { .decl v(n: number) v(1). }
        .comp Two { .decl v(n: number) v(2). }
        .comp Holder<C> { .init inner = C  inner.v(n + 10) :- inner.v(n), n < 10. }
        .init a = Holder<One>
        .init b = Holder<Two>
        .decl r(n: number) r(n) :- a.inner.v(n). r(n) :- b.inner.v(n).
    """
    assert rows(source) == {1, 11, 2, 12}


def test_types_within_components_are_types_of_the_instance() -> None:
    source = """
        .comp C { .type T = [x: number] .type E = Leaf {} .decl v(t: T, e: E) v([7], $Leaf()). }
        .init c = C
        .decl r(t: c.T) r(t) :- c.v(t, $c.Leaf()).
    """
    assert rows(source) == {(7,)}
