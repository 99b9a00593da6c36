"""The Python API: inserting, running again, rows, arrays, functors, statistics."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Branch, EvaluationError, Program, Symbol, rules_dir

PATH = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def test_rows_of_every_type_go_in_and_come_out() -> None:
    program = Program.from_source("""
        .type P = [a: number, b: P]
        .type T = A {x: symbol} | B {t: P, u: unsigned}
        .type E = Up {} | Down {}
        .decl r(n: number, u: unsigned, f: float, s: symbol, p: P, t: T, e: E)
    """)
    rows = [
        (-(2**63), 2**64 - 1, 0.1, 'ä\n\t"', None, Branch("A", ("x",)), Branch("Up")),
        (2**63 - 1, 0, float("-inf"), "", (1, (2, None)), Branch("B", ((3, None), 7)), Branch("Down")),
    ]
    assert sorted(program.insert("r", rows).run().relation("r")) == rows


def test_rows_may_be_lists_and_generators() -> None:
    assert Program.from_source(PATH).insert("edge", ([i, i + 1] for i in range(3))).run().size("path") == 6


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1,), "2 columns"),
        ((1, 2, 3), "2 columns"),
        ((1, "2"), "expected an int, got str '2'"),
        ((1, 2.0), "expected an int"),
        ((1, 2**63), "does not fit into 64 bits"),
        ("12", "expected a row"),
        (5, "expected a row"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_none_is_added(row: object, message: str) -> None:
    program = Program.from_source(PATH)
    with pytest.raises(InputError, match=message):
        program.insert("edge", [(1, 2), row])  # type: ignore[list-item]
    assert program.run().relation("edge") == []


def test_records_and_branches_that_do_not_fit_are_refused() -> None:
    program = Program.from_source(".type P = [a: number]\n.type T = A {x: number} | B {}\n.decl r(p: P, t: T)")
    for row, message in [
        (((1, 2), Branch("B")), "a tuple of 1"),
        ((7, Branch("B")), "a tuple or None"),
        (((1,), Branch("C")), "a branch of the type T"),
        (((1,), Branch("A")), "1 fields"),
        (((1,), "B"), "Branch"),
    ]:
        with pytest.raises(InputError, match=message):
            program.insert("r", [row])


def test_an_unknown_relation_suggests_a_name() -> None:
    with pytest.raises(InputError, match=r'no relation "pth"[^?]*did you mean "path"'):
        Program.from_source(PATH).run().relation("pth")


def test_int_arrays_are_inserted_whole() -> None:
    program = Program.from_source(PATH)
    program.insert("edge", np.array([[1, 2], [2, 3]], dtype=np.int32)).insert("edge", np.array([[3, 4]]).T.T)
    assert program.run().size("path") == 6
    for bad in (np.zeros((2, 3), dtype=np.int64), np.zeros((2, 2)), np.zeros(4, dtype=np.int64)):
        with pytest.raises(InputError, match="expected an int array"):
            program.insert("edge", bad)
    with pytest.raises(InputError, match="only where all columns are numbers"):
        Program.from_source(".decl s(x: symbol)").insert("s", np.zeros((1, 1), dtype=np.int64))


def test_arrays_show_relations_without_a_copy() -> None:
    program = Program.from_source(".decl r(n: number, u: unsigned, f: float, s: symbol)")
    program.insert("r", [(1, 2**64 - 1, 1.5, "x"), (2, 0, -0.5, "y")]).run()
    array = program.array("r")
    assert array.shape == (2, 4)
    assert not array.flags.owndata
    assert not array.flags.writeable
    columns = program.columns("r")
    assert columns["n"].tolist() == [1, 2]
    assert columns["u"].tolist() == [2**64 - 1, 0]
    assert columns["f"].tolist() == [1.5, -0.5]
    assert [program.symbol(int(i)) for i in columns["s"]] == ["x", "y"]
    assert np.shares_memory(columns["f"], array)


def test_an_array_stays_as_it_is_when_the_program_runs_on_or_goes() -> None:
    program = Program.from_source(PATH).insert("edge", [(i, i + 1) for i in range(10)]).run()
    array = program.array("path")
    before = array.copy()
    program.insert("edge", [(i, i + 1) for i in range(10, 300)]).run()
    assert (array == before).all()
    assert program.array("path").shape == (300 * 301 // 2, 2)
    del program
    gc.collect()
    assert (array == before).all()


def test_an_equivalence_relation_as_an_array() -> None:
    program = Program.from_source(".decl e(x: number, y: number) eqrel\ne(2, 1).").run()
    assert program.array("e").tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]


def test_python_functors() -> None:
    program = Program.from_source("""
        .functor join(a: symbol, b: number): symbol
        .functor half(x: float): float
        .decl in(a: symbol, b: number)
        .decl out(s: symbol, h: float)
        out(@join(a, b), @half(to_float(b))) :- in(a, b).
    """)
    program.functor("join", lambda a, b: f"{a}-{b}").functor("half", lambda x: x / 2)
    assert program.insert("in", [("x", 3)]).run().relation("out") == [("x-3", 1.5)]


def test_functors_that_are_missing_fail_or_return_the_wrong_type() -> None:
    source = ".functor f(a: number): number\n.decl r(x: number)\nr(@f(1)).\n"
    with pytest.raises(EvaluationError, match="did not register"):
        Program.from_source(source).run()
    with pytest.raises(ZeroDivisionError):
        Program.from_source(source).functor("f", lambda x: x // 0).run()
    with pytest.raises(TypeError, match="expected an int"):
        Program.from_source(source).functor("f", str).run()
    with pytest.raises(EvaluationError, match='no functor "g"'):
        Program.from_source(source).functor("g", str)


def test_statistics_count_tuples_rounds_and_rules() -> None:
    stats = Program.from_source(PATH).insert("edge", [(i, i + 1) for i in range(20)]).run().stats()
    assert stats.tuples == {"edge": 20, "path": 210}
    assert stats.rounds >= 20
    recursive = next(rule for rule in stats.rules if "edge(y" in rule.text)
    assert (recursive.new, recursive.line, recursive.relation) == (190, 5, "path")
    assert recursive.text.split(" :-")[0] in stats.profile()


def test_macros_and_include_folders(tmp_path: Path) -> None:
    (tmp_path / "common.dl").write_text(".decl r(x: number)\n")
    program = Program.from_source('#include "common.dl"\nr(N).\n', include_dirs=[tmp_path], defines={"N": "7"})
    assert program.run().relation("r") == [(7,)]


def test_a_program_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the program"):
        Program.from_file(tmp_path / "no.dl")


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="word_size"):
        Program.from_source(PATH, word_size=16)
    with pytest.raises(ValueError, match="overflow"):
        Program.from_source(PATH, overflow="ignore")
    with pytest.raises(InputError, match="unknown engine"):
        Program.from_source(PATH, engine="other")


def test_the_rules_are_found() -> None:
    assert (rules_dir() / "verify.dl").is_file()


# ---- running again


def test_a_second_run_without_new_facts_changes_nothing() -> None:
    program = Program.from_source(PATH).insert("edge", [(1, 2), (2, 3)]).run()
    before, rounds = program.relation("path"), program.stats().rounds
    assert program.run().relation("path") == before
    assert program.stats().rounds == rounds


def test_new_facts_that_change_little_cost_little() -> None:
    n = 2000
    program = Program.from_source(PATH).insert("edge", [(i, i + 1) for i in range(n)]).run()
    derived = sum(rule.derived for rule in program.stats().rules)
    program.insert("edge", [(n + 5, n + 6)]).run()
    assert sum(rule.derived for rule in program.stats().rules) - derived < 10
    assert program.size("path") == n * (n + 1) // 2 + 1


BATCHES = {
    "negation": (".decl b(x: number)\nb(x) :- edge(x, _), !edge(_, x).\n.decl c(x: number)\nc(x) :- b(x), x > 1.", "c"),
    "aggregate": (".decl b(n: number)\nb(n) :- n = count : { edge(_, _) }.\n.decl c(n: number)\nc(n) :- b(n).", "c"),
    "equivalence": (".decl c(x: number, y: number) eqrel\nc(x, y) :- edge(x, y).", "c"),
    "from an equivalence": (
        ".decl b(x: number, y: number) eqrel\nb(x, y) :- edge(x, y).\n.decl c(x: number)\nc(x) :- b(x, 1).",
        "c",
    ),
    "subsumption": (
        ".decl c(x: number, d: number)\nc(1, 0).\nc(y, d + 1) :- c(x, d), edge(x, y).\nc(x, a) <= c(x, b) :- b < a.",
        "c",
    ),
    "counter": (".decl c(i: number, x: number)\nc(autoinc(), 1) :- edge(1, 2).", "c"),
    "recursion through two": (
        ".decl b(x: number)\n.decl c(x: number)\nb(1). c(y) :- b(x), edge(x, y).\nb(y) :- c(x), edge(x, y).",
        "c",
    ),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_facts_in_batches_give_what_one_batch_gives(kind: str) -> None:
    rules, relation = BATCHES[kind]
    edges = [(1, 2), (4, 5), (2, 3), (5, 1), (3, 1), (7, 8), (8, 8), (1, 8)]
    fresh = Program.from_source(PATH + rules).insert("edge", edges).run()
    piecemeal = Program.from_source(PATH + rules)
    for edge in edges:
        piecemeal.insert("edge", [edge]).run()
        # an intermediate result is that of the facts so far
        so_far = Program.from_source(PATH + rules).insert("edge", edges[: edges.index(edge) + 1]).run()
        assert sorted(piecemeal.relation(relation)) == sorted(so_far.relation(relation))
    assert sorted(piecemeal.relation(relation)) == sorted(fresh.relation(relation))


def test_facts_of_relations_that_have_rules_survive_a_recomputation() -> None:
    program = Program.from_source(".decl a(x: number)\n.decl b(x: number)\nb(x) :- a(x), !c(x).\n.decl c(x: number)\n")
    program.insert("a", [(1,), (2,)]).insert("b", [(9,)]).run()
    assert sorted(program.relation("b")) == [(1,), (2,), (9,)]
    assert sorted(program.insert("c", [(1,)]).run().relation("b")) == [(2,), (9,)]


def test_a_fresh_program_has_the_rules_and_no_facts() -> None:
    program = Program.from_source(PATH + "path(0, 0).").insert("edge", [(1, 2), (2, 3)]).run()
    again = program.fresh().insert("edge", [(5, 6)]).run()
    assert sorted(again.relation("path")) == [(0, 0), (5, 6)]
    assert sorted(program.relation("path")) == [(0, 0), (1, 2), (1, 3), (2, 3)]
    with_symbol = program.fresh(symbols=[Symbol("n", value=7, minimum=1)]).insert("edge", [("n", "n + 1")]).run()
    assert set(with_symbol.relation("path")) == {(0, 0), ("n", "n + 1")}


def test_a_fresh_program_wants_its_functors_again() -> None:
    rules = ".functor twice(x: number): number\n.decl a(x: number)\n.decl b(x: number)\nb(@twice(x)) :- a(x)."
    program = Program.from_source(rules).functor("twice", lambda x: 2 * x)
    with pytest.raises(EvaluationError, match="twice"):
        program.fresh().insert("a", [(1,)]).run()


def test_symbols_are_refused_for_a_fresh_program_with_other_arithmetic() -> None:
    with pytest.raises(InputError, match="64-bit"):
        Program.from_source(PATH, word_size=32).fresh(symbols=[Symbol("n", value=7, minimum=1)])
