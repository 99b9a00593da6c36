"""Programs with symbols: formulas in number columns, what decides comparisons, and conditions of proofs.

The property that all of it is for: where the conditions of a row hold, the ordinary engine, given the facts at that
point, derives the row at that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Condition, EvaluationError, Program, SourceError, Symbol
from tests.engine.formulas import evaluate

TP, BATCH, SEQ = Symbol("tp", 4), Symbol("batch", 3), Symbol("seq", 20)
RANK = Symbol("k", 2, minimum=0, below="tp")
SYMBOLS = [TP, BATCH, SEQ, RANK]
POINT = {s.name: s.value for s in SYMBOLS}


def program(rules: str, facts: Sequence[tuple[object, ...]], symbols: Sequence[Symbol] = SYMBOLS) -> Program:
    """A program over `a(x, y)`, run."""
    p = Program.from_source(f".decl a(x: number, y: number)\n{rules}", symbols=symbols)
    p.insert("a", facts)
    return p.run()


def computed(term: str, x: object, y: object = 0) -> tuple[object, list[str]]:
    """What a term of x and y comes to, and on which conditions."""
    p = program(f".decl b(z: number)\nb({term}) :- a(x, y).", [(x, y)])
    ((z,),) = p.relation("b")
    return z, [str(c) for c in p.conditions({"b": [(z,)]})]


# ---------------------------------------------------------------- formulas


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("8/tp", "8/tp"),
        ("seq * batch", "batch*seq"),
        ("2*k*seq/tp+1", "2*k*seq/tp + 1"),
        ("(tp + 1)*(tp - 1)", "tp^2 - 1"),
        ("floor(2147483647/tp)", "floor(2147483647/tp)"),
        ("floor((batch*seq)/(tp + 1))", "floor((batch*seq)/(tp + 1))"),
        ("floor((seq + 1)/seq)", "floor(1/seq) + 1"),
        ("mod(k, 2)", "mod(k, 2)"),
        ("mod(seq + 5*tp, tp)", "mod(seq, tp)"),
        ("-k + 3*seq/(2*5)", "-k + 3*seq/10"),
        ("tp - tp + 7", 7),
        ("-3", -3),
    ],
)
def test_formulas_have_one_text(written: str, canonical: str | int) -> None:
    assert program("", [(written, 0)]).relation("a") == [(canonical, 0)]


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["1", "tp", "batch*seq", "k", "tp^2", "1/tp", "seq/tp^2"])))
)
def test_the_text_of_a_sum_is_read_back(terms: list[tuple[int, str]]) -> None:
    text = " + ".join(f"({60 * c})*({t})" for c, t in terms) or "0"
    point = POINT | {"seq": 48}
    p = program(
        "", [(text, 0)], [Symbol(n, v, 0 if n == "k" else 1, "tp" if n == "k" else None) for n, v in point.items()]
    )
    ((shown, _),) = p.relation("a")
    assert evaluate(shown, point) == evaluate(text, point)
    p.insert("a", [(shown, 1)])
    assert {x for x, _ in p.run().relation("a")} == {shown}


@pytest.mark.parametrize(
    ("term", "x", "y", "result", "conditions"),
    [
        ("x * y", "8/tp", "tp", 8, []),
        ("x / y", "8", "tp", "8/tp", ["8/tp is an integer"]),
        ("x / y", "8*seq/tp", "8/tp", "seq", []),
        ("x % y", "8*k/tp", "8/tp", 0, []),
        ("x / y", "tp^2*seq + tp*seq", "tp + 1", "seq*tp", []),
        ("x / y", "k", "tp", 0, []),
        ("x % y", "k", "tp", "k", []),
        ("x / y", 2147483647, "tp", "floor(2147483647/tp)", []),
        ("x % y", "seq", "batch", "mod(seq, batch)", []),
        ("x / y", "batch", 4, 0, ["batch < 4"]),
        ("max(x, y)", "tp", "k", "tp", []),
        ("min(x, y)", "tp", "batch", "batch", ["batch <= tp"]),
        ("x - y", "k", "tp", "-tp + k", []),
        ("(x - y) / 2", "k", "tp", "k/2 - tp/2", ["k/2 - tp/2 is an integer"]),
        ("(x - y) / 3", "k", "tp", 0, ["-k + tp < 3"]),
        ("x ^ y", "tp", 3, "tp^3", []),
        ("x band y", "tp", 6, 4, ["tp = 4"]),
    ],
)
def test_arithmetic(term: str, x: object, y: object, result: object, conditions: list[str]) -> None:
    z, found = computed(term, x, y)
    assert z == (result if isinstance(result, int) else program("", [(result, 0)]).relation("a")[0][0])
    assert found == conditions
    assert evaluate(z, POINT) == eval_at(term, evaluate(x, POINT), evaluate(y, POINT))  # type: ignore[arg-type]


def eval_at(term: str, x: Fraction, y: Fraction) -> int:
    """What the ordinary engine makes of a term."""
    p = Program.from_source(f".decl a(x: number, y: number)\n.decl b(z: number)\nb({term}) :- a(x, y).")
    p.insert("a", [(int(x), int(y))])
    return int(p.run().relation("b")[0][0])


@pytest.mark.parametrize(
    ("left", "sign", "right", "decided"),
    [
        ("k", "<", "tp", True),
        ("k", "=", "tp", False),
        ("k + 1", "<=", "tp", True),
        ("tp", "<", "k", False),
        ("8*k/tp", "<", "8", True),
        ("tp", ">=", "1", True),
        ("batch*seq", ">=", "batch", True),
        ("batch", "!=", "batch + 1", True),
        ("0", "<=", "mod(k, 2)", True),
        ("seq/batch + tp", ">", "seq/batch", True),
    ],
)
def test_bounds_of_symbols_decide_comparisons(left: str, sign: str, right: str, decided: bool) -> None:
    symbols = [Symbol("seq", 21), *(s for s in SYMBOLS if s.name != "seq")]
    rules = f".decl yes(x: number)\n.decl no(x: number)\nyes(x) :- a(x, y), x {sign} y.\nno(x) :- a(x, _), !yes(x)."
    p = program(rules, [(left, right)], symbols)
    relation = "yes" if decided else "no"
    assert [p.conditions({relation: [row]}) for row in p.relation(relation)] == [[]]
    assert p.relation("no" if decided else "yes") == []


def test_integers_given_with_the_facts_bound_symbols() -> None:
    rules = """.decl yes(x: number, y: number)
    yes(x, y) :- a(x, y), x <= y, y != 0.
    """
    rows = [("k*seq/tp + seq/tp", "seq"), ("tp", "seq"), (8, "4*seq/tp"), (2, "batch")]
    p = program(
        rules,
        [*rows[:2], (8, "4*seq/tp"), (2, "batch"), ("seq/tp", "batch/2")],
        [Symbol("batch", 6), *(s for s in SYMBOLS if s.name != "batch")],
    )
    assert {(*row, *map(str, p.conditions({"yes": [row]}))) for row in p.relation("yes")} == {
        ("k*seq/tp + seq/tp", "seq"),  # seq is tp*(1 + a part), tp is k + 1 + a part
        ("tp", "seq"),
        (8, "4*seq/tp", "8 <= 4*seq/tp"),
        (2, "batch"),  # an even number that is positive
    }


def test_other_comparisons_are_decided_at_the_point_and_are_conditions() -> None:
    p = program(".decl b(x: number)\nb(x) :- a(x, y), x < y, x != 7.", [("batch", "tp"), ("seq", "tp")])
    assert p.relation("b") == [("batch",)]
    (unequal, less) = p.conditions({"b": [("batch",)]})
    assert (less.kind, less.left, less.right, less.rule, less.line) == (
        "less",
        "batch",
        "tp",
        "b(x) :- a(x, y), x < y, x != 7.",
        3,
    )
    assert (unequal.kind, unequal.left, unequal.right) == ("not_equal", "7", "batch")


# ---------------------------------------------------------------- proofs


def test_only_decisions_on_the_way_of_the_proof_count() -> None:
    rules = """.decl b(x: number)
    b(x) :- a(x, y), a(y, z), z < 3, x != 5.
    """
    p = program(rules, [("tp", 10), (10, "batch"), (10, "seq"), ("tp", "seq"), ("seq", 1)])
    assert [str(c) for c in p.conditions({"b": [("tp",)]})] == ["5 != tp"]


def test_the_proof_with_fewest_conditions_is_taken() -> None:
    rules = ".decl b(x: number)\nb(x) :- a(x, y), y < 100.\nb(x) :- a(x, y), y > 0."
    assert program(rules, [("tp", "batch")]).conditions({"b": [("tp",)]}) == []


def test_negation_reads_what_might_be_derived_elsewhere() -> None:
    rules = ".decl b(x: number)\n.decl c(x: number)\nb(x * 2) :- a(x, y), y < 6.\nc(x) :- a(x, _), !b(x)."
    p = program(rules, [("batch", 1), ("seq", "tp")])
    assert set(p.relation("c")) == {("batch",), ("seq",)}
    # 2*batch = seq would derive b(seq) from the first fact; 2*seq = seq never holds
    assert [str(c) for c in p.conditions({"c": [("seq",)]})] == ["2*batch != seq"]
    assert [str(c) for c in p.conditions({"c": [("batch",)]})] == ["2*seq != batch"]


def test_counted_rows_have_to_stay_different() -> None:
    p = program(".decl b(n: number)\nb(n) :- n = count : { a(_, _) }.", [("batch", 1), ("seq", 1), ("tp", 2)])
    assert [str(c) for c in p.conditions({"b": [(3,)]})] == ["batch != seq"]


def test_texts_of_formulas_may_coincide() -> None:
    rules = """.decl b(t: symbol)
    .decl c(t: symbol)
    b(cat("v", to_string(x))) :- a(x, _).
    c("v4") :- a(4, _), !b("v4").
    """
    p = program(rules.replace("a(4, _)", "a(_, _)"), [("batch", 1), ("tp + batch", 2)])
    assert set(p.relation("b")) == {("vbatch",), ("vbatch + tp",)}
    assert sorted(str(c) for c in p.conditions({"c": [("v4",)]})) == ["4 != batch", "4 != batch + tp"]


def test_records_and_texts_that_differ_here_may_not_elsewhere() -> None:
    rules = """.type R = [x: number, r: R]
    .decl q(r: R, t: symbol)
    .decl b(x: number, y: number)
    .decl c(x: number, y: number)
    q([x, [y, nil]], cat("v", to_string(x))) :- a(x, y).
    b(x, y) :- q(r, _), q(s, _), r != s, r = [x, _], s = [y, _].
    c(x, y) :- q([x, _], t), q([y, _], u), t != u.
    """
    p = program(rules, [("batch", 5), ("seq", 5), ("tp", 6)])
    assert [str(c) for c in p.conditions({"b": [("batch", "seq")]})] == ["batch != seq"]
    assert p.conditions({"b": [("batch", "tp")]}) == []  # 5 and 6 differ everywhere
    assert [str(c) for c in p.conditions({"c": [("batch", "tp")]})] == ["batch != tp"]


def test_what_formulas_cannot_do_is_done_at_the_point() -> None:
    rules = ".decl b(x: number)\nb(i) :- a(x, _), i = range(0, x)."
    p = program(rules, [("batch", 0)])
    assert set(p.relation("b")) == {(0,), (1,), (2,)}
    assert p.conditions({"b": [(2,)]}) == [Condition("equal", "batch", "3", rules.split("\n")[1], "<program>", 3)]


def test_facts_files_and_outputs_hold_formulas(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "a.facts").write_text("8/tp\t[batch*seq, nil]\n3\t[mod(k, 2), [1, nil]]\n")
    source = ".type L = [n: number, r: L]\n.decl a(x: number, l: L)\n.input a\n.output a\n"
    p = Program.from_source(source, symbols=SYMBOLS).load(folder).run()
    assert set(p.relation("a")) == {("8/tp", ("batch*seq", None)), (3, ("mod(k, 2)", (1, None)))}
    p.write(folder)
    assert sorted((folder / "a.csv").read_text().splitlines()) == ["3\t[mod(k, 2), [1, nil]]", "8/tp\t[batch*seq, nil]"]


# ---------------------------------------------------------------- errors


def test_bad_formulas_are_bad_facts(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "a.facts").write_text("1\t2\n8/heads\t1\n")
    p = Program.from_source(".decl a(x: number, y: number)\n.input a\n", symbols=SYMBOLS)
    with pytest.raises(SourceError, match=r"expected a symbol \(there are batch, k, seq, tp\)") as error:
        p.load(folder)
    assert (error.value.line, error.value.column) == (2, 3)
    assert p.relation("a") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heads", "expected a symbol"),
        ("seq/batch", "is no integer here, but 20/3"),
        ("8/(tp + 1)", "expected a divisor without"),
        ("8/(tp - tp)", "a divisor that is not 0"),
        ("floor((k - 1)/2)", "not negative for all values"),
        ("tp +", "expected a number or a formula"),
        ("tp tp", "expected an operator"),
        ("(" * 200, "nested more than"),
        ("9" * 30, "below 2.62"),
        ("tp^64*tp^64*seq^64", "overflow|bits"),
    ],
)
def test_bad_formulas(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        program("", [(text, 0)])


def test_a_text_is_no_number_without_symbols() -> None:
    with pytest.raises(InputError, match="expected an int, got str '8/tp'"):
        program("", [("8/tp", 0)], [])


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([Symbol("tp", 2), Symbol("tp", 3)], "given twice"),
        ([Symbol("t p", 2)], "cannot be the name"),
        ([Symbol("mod", 2)], "cannot be the name"),
        ([Symbol("tp", 0)], "is not at least 1"),
        ([Symbol("tp", 2), Symbol("k", 2, 0, "tp")], "k = 2 is not below tp = 2"),
        ([Symbol("k", 2, 0, "tp")], "which is no symbol"),
    ],
)
def test_bad_symbols(symbols: list[Symbol], message: str) -> None:
    with pytest.raises(InputError, match=message):
        program("", [], symbols)


def test_symbols_need_the_embedded_engine() -> None:
    with pytest.raises(InputError, match="embedded engine with 64-bit"):
        Program.from_source(".decl a(x: number)", engine="souffle", symbols=SYMBOLS)


def test_division_by_what_is_zero_here_names_the_rule() -> None:
    with pytest.raises(EvaluationError, match="k - 2 is 0\n  in the rule"):
        program(".decl b(x: number)\nb(x / y) :- a(x, y).", [(1, "k - 2")])


def test_conditions_of_what_does_not_hold() -> None:
    with pytest.raises(InputError, match="does not hold"):
        program("", [(1, 2)]).conditions({"a": [(1, 3)]})


def test_a_relation_that_counts_upwards_has_an_end() -> None:
    rules = """.decl up(x: number, n: number)
    .decl place(n: number)
    .decl c(x: number)
    place(n) :- a(_, n).
    up(x, n) :- up(x, n + 1), place(n).
    up(x, n) :- a(x, n), x < 9.
    c(x) :- a(x, _), !up(x, 2).
    """
    p = program(rules, [("batch", 3), ("seq", 3), (1, 2)])
    assert p.relation("c") == [("seq",)]
    assert {str(c) for c in p.conditions({"c": [("seq",)]})} == {"9 <= seq", "batch != seq", "1 != seq"}


def test_remainders_of_remainders_do_not_grow_without_bound() -> None:
    rules = """
        .decl given(p: number, q: number)
        .decl step(x: number, y: number)
        step(p, q) :- given(p, q).
        step(y, x % y) :- step(x, y), y > 0.
        .decl divisor(g: number)
        divisor(g) :- step(g, 0).
    """
    symbols = [Symbol("a", value=104512464, minimum=1), Symbol("b", value=64592255, minimum=1)]
    program = Program.from_source(rules, symbols=symbols).insert("given", [("3*a + 1", "2*b + 5")]).run(timeout=30)
    conditions = program.conditions({"divisor": program.relation("divisor")})
    assert any(condition.kind == "equal" for condition in conditions)
    assert all(len(str(condition)) < 5000 for condition in conditions)


def test_no_conditions_where_negation_reads_a_choice() -> None:
    rules = """.decl b(x: number, y: number) choice-domain x
    .decl c(x: number)
    b(x, y) :- a(x, y).
    c(x) :- a(x, _), !b(x, 7).
    """
    p = program(rules, [("tp", 7), ("tp", 8), ("tp", 9)])
    p.insert("a", [(5, 5)])
    p.run()
    with pytest.raises(EvaluationError, match="choice-domain"):
        p.conditions({"c": [(5,)]})
