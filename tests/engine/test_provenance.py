"""`explain` gives lowest proofs that can be checked step by step; `why_not` names the literal that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Branch, EvaluationError, Program, Proof
from tests.engine import naive

RELAXED = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

PATHS = """
.decl edge(x: symbol, y: symbol)
.decl blocked(x: symbol)
.decl path(x: symbol, y: symbol)
blocked("z").
path(x, y) :- edge(x, y), !blocked(x).
path(x, z) :- path(x, y), path(y, z).
"""


def paths(*edges: str, source: str = PATHS) -> Program:
    return Program.from_source(source).insert("edge", [tuple(e) for e in edges]).run()


@RELAXED
@given(naive.programs())
def test_proofs_have_the_least_height_and_end_in_facts(program: naive.Program) -> None:
    built = Program.from_source(program.text())
    for relation, rows in program.facts.items():
        built.insert(relation, rows)
    built.run(timeout=20)
    lowest = naive.heights(program)
    assert {(r, row) for r in built.relations for row in built.relation(r)} == set(lowest)
    for (relation, row), height in sorted(lowest.items())[:40]:
        proof = built.explain(relation, row)
        assert proof is not None
        assert proof.height == height
        for node in proof.nodes():
            assert node.height == lowest[(node.relation, node.row)]
            if node.kind == "fact":
                assert node.row in program.facts[node.relation]
            else:
                assert node.kind == "rule"
                assert node.premises


def replay(proof: Proof) -> None:
    """Every step of a proof over PATHS follows by the rule that it names."""
    for node in proof.nodes():
        if node.rule is None:
            assert node.relation == "edge"
        elif "path(y, z)" in node.rule:
            (_, x, y), (_, y2, z) = [(p.relation, *p.row) for p in node.premises]
            assert y == y2
            assert node.row == (x, z) == (node.bindings["x"], node.bindings["z"])
            assert node.bindings["y"] == y
        else:
            assert [p.row for p in node.premises] == [node.row]
            assert node.conditions == [f'!blocked("{node.row[0]}")']


def test_a_proof_names_rules_bindings_premises_and_what_was_absent() -> None:
    program = paths("ab", "bc", "cd", "de")
    proof = program.explain("path", ("a", "e"))
    assert proof is not None
    replay(proof)
    assert proof.height == 3  # doubling: 1 + log2(4)
    assert proof.line == 7
    assert 'edge("a", "b")  fact' in str(proof)


def test_proofs_of_many_rows_share_what_they_have_in_common() -> None:
    program = paths("ab", "bc", "cd")
    first, second, none = program.explain_all("path", [("a", "c"), ("a", "d"), ("d", "a")])
    assert first is not None
    assert second is not None
    assert none is None
    replay(first)
    replay(second)
    assert first in list(second.nodes()) or set(first.nodes()) & set(second.nodes())


def test_a_tuple_that_does_not_hold_has_no_proof() -> None:
    assert paths("ab").explain("path", ("b", "a")) is None


def test_facts_of_the_program_are_facts_with_a_line() -> None:
    proof = paths("ab").explain("blocked", ("z",))
    assert proof is not None
    assert (proof.kind, proof.line, proof.height) == ("fact", 5, 0)


def test_proofs_follow_facts_that_came_later() -> None:
    program = paths("ab", "bc", "cd")
    before = program.explain("path", ("a", "d"))
    program.insert("edge", [("a", "d")]).run()
    after = program.explain("path", ("a", "d"))
    assert before is not None
    assert after is not None
    assert (before.height, after.height) == (3, 1)


def test_records_and_branches_are_taken_apart_in_proofs() -> None:
    program = Program.from_source("""
        .type List = [head: number, tail: List]
        .type Tree = Leaf {v: number} | Node {l: Tree, r: Tree}
        .decl list(l: List)
        .decl total(l: List, n: number)
        .decl tree(t: Tree)
        .decl leaf(n: number)
        list([1, [2, nil]]). list(t) :- list([_, t]), t != nil.
        total(nil, 0). total([h, t], h + n) :- list([h, t]), total(t, n).
        tree($Node($Leaf(1), $Leaf(2))). leaf(n) :- tree($Node(_, $Leaf(n))).
    """).run()
    proof = program.explain("total", ((1, (2, None)), 3))
    assert proof is not None
    assert proof.height == 3
    assert proof.bindings["h"] == 1
    leaf = program.explain("leaf", (2,))
    assert leaf is not None
    assert leaf.premises[0].row == (Branch("Node", (Branch("Leaf", (1,)), Branch("Leaf", (2,)))),)


def test_equivalences_are_explained_by_the_links_between_the_two() -> None:
    program = paths(
        "ab", "cb", "cd", source=PATHS + ".decl same(x: symbol, y: symbol) eqrel\nsame(x, y) :- edge(x, y).\n"
    )
    proof = program.explain("same", ("a", "d"))
    assert proof is not None
    assert proof.kind == "equivalence"
    assert [p.row for p in proof.premises] == [("a", "b"), ("c", "b"), ("c", "d")]
    assert all(p.kind == "rule" for p in proof.premises)
    reflexive = program.explain("same", ("a", "a"))
    assert reflexive is not None
    assert [p.row for p in reflexive.premises] == [("a", "b")]


def test_what_subsumption_kept_is_explained_by_what_it_kept() -> None:
    program = Program.from_source("""
        .decl edge(x: number, y: number)
        .decl dist(x: number, d: number)
        edge(0, 1). edge(1, 2). edge(0, 2). edge(2, 3). edge(3, 0).
        dist(0, 0).
        dist(y, d + 1) :- dist(x, d), edge(x, y).
        dist(x, far) <= dist(x, near) :- near < far.
    """).run()
    proof = program.explain("dist", (3, 2))
    assert proof is not None
    assert [p.row for p in proof.premises] == [(2, 1), (2, 3)]


def test_long_proofs_need_no_recursion() -> None:
    program = Program.from_source(
        ".decl next(x: number, y: number) .decl reach(x: number)\nreach(0). reach(y) :- reach(x), next(x, y)."
    ).insert("next", [(i, i + 1) for i in range(5000)])
    proof = program.run().explain("reach", (5000,))
    assert proof is not None
    assert proof.height == 5000
    assert len(str(proof)) > 5000


def test_an_explanation_needs_a_finished_run() -> None:
    program = Program.from_source(PATHS).insert("edge", [("a", "b")])
    with pytest.raises(EvaluationError, match="run the program first"):
        program.explain("edge", ("a", "b"))


def test_why_not_gives_the_first_failing_literal_and_the_nearest_rows() -> None:
    found = paths("ab", "bc", "zc").why_not("path", ("a", "q"))
    direct, through = found.obstacles
    assert direct.literal == 'edge("a", "q")'
    assert direct.nearest[0] == ("a", "b")
    assert (direct.relation, direct.reason) == ("edge", "there is no such row")
    assert through.literal in ('path("b", "q")', 'path("c", "q")')


def test_why_not_shows_the_row_that_a_negation_forbids() -> None:
    (direct, _) = paths("zc").why_not("path", ("z", "c")).obstacles
    assert direct.literal == '!blocked("z")'
    assert direct.nearest == [("z",)]
    assert direct.reason == "there is such a row"


def test_why_not_shows_a_condition_and_a_head_that_does_not_fit() -> None:
    program = Program.from_source("""
        .decl n(x: number)
        .decl small(x: number)
        .decl next(x: number, k: symbol)
        n(5).
        small(x) :- n(x), x < 3.
        next(x + 1, "up") :- n(x).
    """).run()
    assert program.why_not("small", (5,)).obstacles[0].literal == "5 < 3"
    assert "none gives this head" in program.why_not("next", (9, "up")).obstacles[0].reason
    assert "does not fit" in program.why_not("next", (6, "down")).obstacles[0].reason


def test_why_not_of_a_relation_without_rules_says_so() -> None:
    assert "no rule derives edge" in str(paths("ab").why_not("edge", ("q", "q")))


def test_atoms_as_text(tmp_path: Path) -> None:
    program = paths("ab", "bc")
    assert isinstance(program.explain_atom('path("a", "c").'), Proof)
    assert "does not hold" in str(program.explain_atom('path("c", "a")'))
    for bad in ('path("a"', 'path("a")', 'nope("a")', "path(a, b)", 'path("a", "b") x', ""):
        with pytest.raises(InputError):
            program.explain_atom(bad)


def test_a_row_of_the_wrong_shape_is_bad_input() -> None:
    with pytest.raises(InputError, match="2 columns"):
        paths("ab").explain("path", ("a",))


# ---- derivations


@RELAXED
@given(naive.programs())
def test_a_derivation_has_every_row_once_after_its_premises(program: naive.Program) -> None:
    built = Program.from_source(program.text())
    for relation, rows in program.facts.items():
        built.insert(relation, rows)
    built.run(timeout=20)
    wanted = {relation: built.relation(relation) for relation in built.relations}
    found = built.derivation(wanted)
    derived = []
    for at, (relation, rule, premises, values) in enumerate(found.steps):
        assert all(p < at for p in premises)
        if rule < 0:
            row = tuple(found.values[n] for n in values)
            assert row in program.facts[relation]
            derived.append((relation, row))
        else:
            head, _, _, variables = found.rules[rule]
            assert head == relation
            assert len(variables) == len(values)
            assert premises
    assert len(found.steps) == sum(map(len, wanted.values()))
    assert set(derived) == {(r, row) for r, rows in program.facts.items() for row in rows}


def test_a_derivation_leaves_out_what_is_not_asked_for() -> None:
    program = paths("ab", "bc", "cd")
    found = program.derivation({"path": [("a", "d")]}, leaves=["edge"])
    assert {step[0] for step in found.steps} == {"path"}
    *_, (relation, rule, premises, values) = found.steps
    assert relation == "path"
    assert dict(zip(found.rules[rule][3], (found.values[n] for n in values), strict=True))["z"] == "d"
    assert len(premises) == 2
    first = [step for step in found.steps if not step[2]]
    assert {tuple(found.values[n] for n in step[3]) for step in first} == {("a", "b"), ("b", "c"), ("c", "d")}


def test_a_derivation_after_more_facts_uses_rows_of_earlier_rounds() -> None:
    program = paths("cd")
    program.insert("edge", [("a", "b")]).run()
    program.insert("edge", [("b", "c")]).run()
    found = program.derivation({"path": program.relation("path")})
    assert len(found.steps) == program.size("path") + program.size("edge")
    assert all(p < at for at, step in enumerate(found.steps) for p in step[2])
    proof = program.explain("path", ("a", "d"))
    assert proof is not None
    assert proof.height == 3
    assert len(program.derivation({"path": [("a", "d")]}).steps) >= 5


def test_records_and_branches_of_a_derivation_are_numbered_parts_first() -> None:
    program = Program.from_source("""
        .type List = [head: number, tail: List]
        .type Tree = Leaf {v: number} | Node {l: Tree, r: Tree} | None {}
        .decl list(l: List)
        .decl tree(t: Tree)
        .decl both(l: List, t: Tree)
        list([1, [2, nil]]). tree($Node($Leaf(1), $None())).
        both(l, t) :- list(l), tree(t).
    """).run()
    found = program.derivation({"both": program.relation("both")})

    def value(number: int) -> object:
        item = found.values[number]
        if not isinstance(item, list):
            return item
        assert all(part < number for part in item)
        return [value(part) for part in item]

    last = found.steps[-1]
    assert dict(zip(found.rules[last[1]][3], map(value, last[3]), strict=True)) == {
        "l": [1, [2, None]],
        "t": ["Node", [["Leaf", [1]], ["None", []]]],
    }


def test_a_row_that_does_not_hold_has_no_derivation() -> None:
    with pytest.raises(EvaluationError, match="a row of path has no derivation"):
        paths("ab").derivation({"path": [("b", "a")]})
