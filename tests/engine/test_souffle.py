"""The Soufflé engines. Where the executable is not installed, a stand-in on PATH that understands its command line
runs the program that we print: that checks files, options and the printed program, though not Soufflé itself."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Branch, EvaluationError, Program
from tests.engine import naive

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {str(ROOT)!r})
SOURCE = None
args = sys.argv[1:]
with open({{log!r}}, "a") as log:
    log.write(" ".join(args) + chr(10))
if args == ["--version"]:
    print("Version: 0.0" + chr(10) + "Word size: {{bits}} bits")
    sys.exit()
if "-o" in args:
    target = args[args.index("-o") + 1]
    with open(target, "w") as out, open(__file__) as own, open(args[-1]) as program:
        out.write(own.read().replace("SOURCE = None", "SOURCE = " + repr(program.read()), 1))
    os.chmod(target, 0o755)
    sys.exit()
source = SOURCE or open(args[-1]).read()
with open({{log!r}} + ".dl", "w") as copy:
    copy.write(source)
if "fail_please" in source:
    sys.exit("Error: it fails")
if "sleep_please" in source:
    import time
    time.sleep(30)
from scalify_dl.pysouffle import Program
program = Program.from_source(source).load(args[args.index("-F") + 1]).run()
program.write(args[args.index("-D") + 1])
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for Soufflé on PATH; the file that it logs its calls to."""
    return install(tmp_path, monkeypatch, 64)


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int) -> Path:
    folder, log = tmp_path / "bin", tmp_path / "log"
    folder.mkdir()
    executable = folder / "souffle"
    executable.write_text(STAND_IN.format(log=str(log), bits=bits))
    executable.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return log


EVERYTHING = """
.type Id <: number
.type List = [head: symbol, tail: List]
.type Tree = Leaf {v: number} | Node {l: Tree, r: Tree}
.comp Graph<T> {
    .decl edge(from: T, to: T)
    .decl path(from: T, to: T)
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
}
.init g = Graph<symbol>
.decl seen(l: List, t: Tree)
seen([x, ["quoted \\"text\\"", nil]], $Node($Leaf(-5), $Leaf(n))) :- g.path(x, _), n = count : { g.path(x, _) }.
.decl same(x: symbol, y: symbol) eqrel
same(x, y) :- g.edge(x, y), !(x = "z"), (y = "b" ; match("c.*", y)).
.decl best(x: symbol, n: number)
best(x, n) :- g.path(x, _), n = strlen(cat(x, "ab")) * 2 - 1 band 7.
best(x, a) <= best(x, b) :- b < a.
.decl f(x: float, u: unsigned)
f(to_float(n) / 3.0, itou(n) + 5u) :- n = range(0, 3).
"""
EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("z", "a")]


def test_without_the_executable_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for engine in ("souffle", "souffle-compiled"):
        with pytest.raises(InputError, match=r"not installed(.|\n)*embedded"):
            Program.from_source(".decl a(x: number)", engine=engine)


@pytest.mark.parametrize("engine", ["souffle", "souffle-compiled"])
def test_the_same_program_and_facts_give_the_same_relations(stand_in: Path, engine: str) -> None:
    programs = [Program.from_source(EVERYTHING, engine=e).insert("g.edge", EDGES).run() for e in ("embedded", engine)]
    expected, found = [{r: sorted(map(str, p.relation(r))) for r in p.relations} for p in programs]
    assert found == expected
    assert programs[1].size("g.path") == 10
    assert programs[1].holds(
        "seen", (("c", ('quoted "text"', None)), Branch("Node", (Branch("Leaf", (-5,)), Branch("Leaf", (1,)))))
    )
    assert programs[1].symbol(int(programs[1].array("g.path")[0, 0])) in "abcz"


def test_recursive_rules_carry_our_join_order_and_one_thread_is_asked_for(stand_in: Path) -> None:
    source = """
        .decl big(x: number, y: number)
        .decl small(x: number)
        .decl r(x: number, y: number)
        r(x, y) :- big(x, y).
        r(x, z) :- big(z, _), small(y), r(x, y), big(y, z).
    """
    program = Program.from_source(source, engine="souffle")
    program.insert("big", [(i, i + 1) for i in range(1000)]).insert("small", [(i,) for i in range(10)]).run()
    text = Path(f"{stand_in}.dl").read_text()
    assert ".plan 0:(3,2,4,1)" in text
    assert "-j1" in stand_in.read_text()


def test_a_rule_with_an_aggregate_has_no_plan(stand_in: Path) -> None:
    """Soufflé makes atoms of aggregates whose value is not used, and then refuses an order without them."""
    source = ".decl e(x: number, y: number)\n.decl r(x: number, y: number)\nr(x, y) :- e(x, y).\n"
    source += "r(x, z) :- r(x, y), e(y, z), n = count : { e(w, _) }.\n"
    program = Program.from_source(source, engine="souffle").insert("e", [(1, 2), (2, 3)]).run()
    assert ".plan" not in Path(f"{stand_in}.dl").read_text()
    assert sorted(program.relation("r")) == [(1, 2), (1, 3), (2, 3)]


def test_a_program_is_compiled_once(stand_in: Path) -> None:
    for edges in (EDGES, EDGES[:2]):
        Program.from_source(EVERYTHING, engine="souffle-compiled").insert("g.edge", edges).run()
    assert stand_in.read_text().count("-o ") == 1


def test_more_facts_after_a_run(stand_in: Path) -> None:
    program = Program.from_source(EVERYTHING, engine="souffle").insert("g.edge", EDGES[:2]).run()
    assert program.size("g.path") == 3
    assert program.insert("g.edge", EDGES[2:]).run().size("g.path") == 10


def test_facts_are_read_from_a_folder(stand_in: Path, tmp_path: Path) -> None:
    (tmp_path / "g.edge.facts").write_text("a\tb\nb\tc\n")
    program = Program.from_source(EVERYTHING + ".input g.edge\n", engine="souffle").load(tmp_path).run()
    assert program.size("g.path") == 3


def test_output_directives_are_obeyed(stand_in: Path, tmp_path: Path) -> None:
    source = EVERYTHING + '.output g.path(filename="paths.txt", headers="true", delimiter=";")\n'
    Program.from_source(source, engine="souffle").insert("g.edge", EDGES[:2]).run().write(tmp_path)
    assert (tmp_path / "paths.txt").read_text().splitlines()[0] == "from;to"


def test_a_failing_souffle_is_reported(stand_in: Path) -> None:
    with pytest.raises(EvaluationError, match="status 1: Error: it fails"):
        Program.from_source('.decl a(x: symbol)\na("fail_please").', engine="souffle").run()
    with pytest.raises(EvaluationError, match="timeout"):
        Program.from_source('.decl a(x: symbol)\na("sleep_please").', engine="souffle").run(timeout=0.5)


def test_what_only_the_embedded_engine_can_do_is_refused(stand_in: Path) -> None:
    with pytest.raises(InputError, match="functors"):
        Program.from_source(".functor f(x: number): number", engine="souffle")
    with pytest.raises(InputError, match="checked arithmetic"):
        Program.from_source("", engine="souffle", overflow="error")
    program = Program.from_source(EVERYTHING, engine="souffle").run()
    with pytest.raises(InputError, match="embedded engine"):
        program.explain("g.path", ("a", "b"))
    with pytest.raises(InputError, match="max_tuples"):
        program.run(max_tuples=5)


def test_the_word_size_is_that_of_the_executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, 32)
    with pytest.raises(InputError, match="32-bit"):
        Program.from_source("", engine="souffle", word_size=64)
    program = Program.from_source(".decl a(x: number)", engine="souffle")
    with pytest.raises(InputError, match="32 bits"):
        program.insert("a", [(2**40,)])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(naive.programs())
def test_the_printed_program_means_the_same(program: naive.Program) -> None:
    """Printing and reading again, without a process in between."""
    built = Program.from_source(program.text())
    for relation, rows in program.facts.items():
        built.insert(relation, rows)
    printed, names = built._engine.session.souffle([False] * len(built.relations))
    again = Program.from_source(printed.decode())
    for relation, rows in program.facts.items():
        again.insert(names[built.relations[relation].index], rows)
    built.run()
    again.run()
    for relation, declared in built.relations.items():
        assert set(again.relation(names[declared.index])) == set(built.relation(relation))


@pytest.mark.skipif(shutil.which("souffle") is None, reason="Soufflé is not on PATH")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(naive.programs())
def test_souffle_agrees_on_random_programs(program: naive.Program) -> None:
    built = Program.from_source(program.text(), engine="souffle")
    for relation, rows in program.facts.items():
        built.insert(relation, rows)
    built.run(timeout=60)
    assert {r: set(built.relation(r)) for r in built.relations} == naive.evaluate(program)
