"""Bugs of every sort in a program of many layers: the edit is found on the part around the op, and proves the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scalify_dl.facts.model import Facts
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.programs import Program
from scalify_dl.mend.below import proved_below
from scalify_dl.mend.mend import mend_around
from scalify_dl.mend.verbs import apply
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.readers.relations import parse_relations
from scalify_dl.refute.refute import Refutation, refute
from scalify_dl.report.conclude import conclude

LAYERS, WRONG = 6, 3
MESH = Mesh.parse("a=2,b=2")
BUGS = {
    "no all-reduce": "all-reduce(sum) over a,b after",
    "groups": "all-reduce(sum) over b after all-reduce",
    "reducer": "reduce with sum instead",
    "slice": "slice [0:4] instead of [2:6]",
    "kind": "subtract instead of add",
    "operand": "as operand 1",
}


def side(program: Program, parts: int, bug: str = "", outputs: int = 1) -> None:
    """Layers: a fused product in two pieces, their difference, a product that is summed, and what came before."""
    x = first = program.input("x", (4, 8))
    width = 16 // parts
    for layer in range(LAYERS):
        here = bug if layer == WRONG else ""
        before = x
        fused = program.matmul(x, program.input(f"fused{layer}", (8, 2 * width)))
        start = 2 if here == "slice" else 0
        left = program.slice(fused, 1, start, start + width)
        right = program.tanh(program.slice(fused, 1, width, 2 * width))
        mixed = program.add(left, right) if here == "kind" else program.subtract(left, right)
        y = program.matmul(mixed, program.input(f"down{layer}", (width, 8)))
        if parts > 1 and here != "no all-reduce":
            y = program.all_reduce(y, "a" if here == "groups" else ("a", "b"), "max" if here == "reducer" else "sum")
        x = program.add(program.tanh(y), first if here == "operand" else before)
    for _ in range(outputs):
        program.output(x)
        x = program.tanh(x)


def facts(bug: str, outputs: int = 1) -> Facts:
    base, dist = Program("base", MESH), Program("dist", MESH)
    side(base, 1, outputs=outputs)
    side(dist, 4, bug, outputs)
    fused = "".join(
        f'  "fused{n}": {{dims: {{1: [a, b]}}, parts: {{dim: 1, sizes: [16, 16]}}}}\n'
        f'  "down{n}": {{dims: {{0: [a, b]}}}}\n'
        for n in range(LAYERS)
    )
    return tables(base.graph, [dist.graph], MESH, parse_relations(f"inputs:\n{fused}"))


def report(bug: str) -> Report:
    return conclude(analyse(facts(bug), Options()))


@pytest.mark.parametrize("bug", BUGS)
def test_the_edit_is_found_around_the_op(bug: str) -> None:
    found = analyse(facts(bug), Options())
    wrong = [row[:2] for row in found.facts["expect"]]
    around = mend_around(found, wrong, lambda text: None)
    assert around is not None
    mending, _ = around
    assert mending.complete
    assert mending.proved == mending.outputs == 1


@pytest.mark.parametrize("bug", BUGS)
def test_what_is_below_the_edit_proves_the_whole(bug: str) -> None:
    found = analyse(facts(bug, outputs=2), Options())
    around = mend_around(found, [row[:2] for row in found.facts["expect"]], lambda text: None)
    assert around is not None
    edited = apply(found.facts, [edit for tried in around[0].tried for edit in tried.proposal.edits])
    assert proved_below(found, edited) == 2


@pytest.mark.parametrize(("layer", "kind"), [(1, "tanh"), (LAYERS - 1, "tanh"), (4, "dot"), (4, "all-reduce")])
def test_edits_after_which_an_output_is_wrong_are_not_proved_below(layer: int, kind: str) -> None:
    right = analyse(facts(""), Options())
    assert right.outputs_left == 0
    ops = [op for op, graph, what in right.facts["op"] if graph == "dist" and what == kind]
    target = ops[layer * len(ops) // LAYERS]
    other = {"tanh": "negate", "dot": "", "all-reduce": "tanh"}[kind]
    edited = Facts(dict(right.facts.tables))
    if other:
        edited.tables["op"] = [(op, g, other if op == target else what) for op, g, what in right.facts["op"]]
    else:  # it reads what another layer reads
        theirs = {row[:2]: row[2] for row in right.facts["operand"] if row[0] == ops[0]}
        edited.tables["operand"] = [
            (op, pos, theirs[ops[0], pos] if op == target and pos == 1 else t) for op, pos, t in right.facts["operand"]
        ]
    assert proved_below(right, edited) is None


@pytest.mark.parametrize("bug", BUGS)
def test_there_is_one_cause_and_one_edit(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalify_dl.report.conclude.LARGE", 0)
    found = report(bug)
    assert found.verdict is Verdict.REFUTED
    (cause,) = found.frontier
    assert any(BUGS[bug] in text for text in cause.suggestion), cause.suggestion
    assert cause.tried == ("with this edit the output is PROVED",)


def test_formulas_are_not_compared_where_an_edit_explains_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("compared by formulas")

    def agreeing(*given: Any, **options: Any) -> Refutation:
        """A search that refutes the last output alone: the one above it in the chain is left open."""
        found = refute(*given, **options)
        return replace(found, refuted=set(sorted(found.refuted)[-1:]))

    monkeypatch.setattr("scalify_dl.report.conclude.LARGE", 0)
    monkeypatch.setattr("scalify_dl.refute.refute.refute", agreeing)
    monkeypatch.setattr("scalify_dl.report.conclude.compare_formulas", unwanted)
    found = conclude(analyse(facts("slice", outputs=2), Options(), numbers_first=True))
    assert found.verdict is Verdict.REFUTED
    assert sorted(output.verdict.name for output in found.outputs) == ["REFUTED", "UNKNOWN"]


def test_a_program_without_bug_is_proved() -> None:
    assert report("").verdict is Verdict.PROVED
