"""What was guessed about two programs refutes nothing: a difference that may vanish with the guess is a witness."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.facts.model import Facts
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.builder import Program
from scalify_dl.pairing.export import export, tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report
from scalify_dl.readers.relations import parse_relations
from scalify_dl.refute.guesses import written
from scalify_dl.report.conclude import conclude

EXAMPLE = Path(__file__).parents[2] / "examples" / "hlo"
TP2 = Mesh.parse("tp=2")


@pytest.fixture(autouse=True, params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large programs no more is run than it takes to refute, on inputs that are alike first."""
    if request.param == "large":
        monkeypatch.setattr("scalify_dl.report.conclude.LARGE", 0)
        monkeypatch.setattr("scalify_dl.refute.refute.LARGE", 0)
        monkeypatch.setattr("scalify_dl.oracle.counterexample.DIRECT_ELEMENTS", 0)
        monkeypatch.setattr("scalify_dl.oracle.counterexample.CONFIRMED_ELEMENTS", 0)


def pair() -> tuple[Program, Program]:
    return Program("base", TP2), Program("dist", TP2)


def facts_of(base: Program, dist: Program, relations: str = "") -> Facts:
    return tables(base.graph, [dist.graph], TP2, parse_relations(relations))


def report(facts: Facts) -> Report:
    return conclude(analyse(facts, Options()))


def mlp(*, reduced: bool = True, swapped: bool = False) -> tuple[Program, Program]:
    """x·up·down; the distributed program forgets its all-reduce, or sees its weights the other way round."""
    base, dist = pair()
    base.output(
        base.matmul(base.matmul(base.input("x", (4, 8)), base.input("up", (8, 16))), base.input("down", (16, 8)))
    )
    x, up, down = dist.input("x", (4, 8)), dist.input("up", (8, 8)), dist.input("down", (8, 8))
    h = dist.reverse(dist.matmul(x, up), 1) if swapped else dist.matmul(x, up)
    y = dist.matmul(h, down)
    dist.output(dist.all_reduce(y, "tp") if reduced else y)
    return base, dist


def test_a_right_program_with_a_fused_weight_is_not_refuted() -> None:
    facts = export(EXAMPLE / "base.hlo", EXAMPLE / "dist.hlo", "tp=2")
    assert {row[0]: row[5] for row in facts["shard"]} == {"x": "name", "gate_up": "shape", "down": "shape"}
    found = report(facts)
    assert found.verdict == "UNKNOWN"
    assert found.counterexample is not None
    assert found.counterexample["kind"] == "witness"
    assert "guessed from shapes" in found.counterexample["reason"]
    line = 'inputs: {"gate_up": {dims: {1: [tp]}}}'
    assert any(line in note and "parts:" in note for note in found.notes)
    parse_relations(line)


def test_what_is_wrong_under_every_placement_is_refuted() -> None:
    found = report(facts_of(*mlp(reduced=False)))
    assert found.verdict == "REFUTED"
    assert found.counterexample is not None
    assert (found.counterexample["kind"], found.counterexample["reason"]) == ("refutation", "")


def test_what_a_placement_may_explain_is_not_refuted() -> None:
    """Weights whose columns come in another order on each rank."""
    assert report(facts_of(*mlp(swapped=True))).verdict == "UNKNOWN"
    given = "inputs: {up: {dims: {1: [tp]}}, down: {dims: {0: [tp]}}}"
    assert report(facts_of(*mlp(swapped=True), given)).verdict == "REFUTED"


def test_outputs_on_which_no_guess_bears_are_refuted() -> None:
    base, dist = mlp(swapped=True)
    base.output(base.multiply(base.input("z", (4,)), 2))
    dist.output(dist.multiply(dist.input("z", (4,)), 3))
    assert [o.verdict for o in report(facts_of(base, dist)).outputs] == ["UNKNOWN", "REFUTED"]


def test_ties_refute_nothing() -> None:
    """Columns that are alike tie: which of them comes first says nothing about columns that differ."""
    base, dist = pair()
    base.output(base.sort(base.input("x", (4, 8)), 1))
    dist.output(dist.multiply(dist.sort(dist.input("x", (4, 4)), 1), 2))
    assert report(facts_of(base, dist)).verdict == "UNKNOWN"


def with_constants(values: tuple[int, int]) -> tuple[Program, Program]:
    """x times constants that no dump prints."""
    base, dist = pair()
    for program, count in zip((base, dist), values, strict=True):
        x = program.input("x", (4, 8))
        for _ in range(count):
            x = program.multiply(x, program.constant(Literal.elided(), shape=(4, 8)))
        program.output(x)
    return base, dist


def test_constants_that_the_other_side_has_in_other_number_refute_nothing() -> None:
    assert report(facts_of(*with_constants((2, 1)))).verdict == "UNKNOWN"


@pytest.mark.parametrize(("wrong", "verdict"), [("reverse", "UNKNOWN"), ("double", "REFUTED")])
def test_unprinted_constants_in_another_order_refute_nothing(wrong: str, verdict: str) -> None:
    base, dist = with_constants((1, 0)), pair()[1]
    x = dist.input("x", (4, 8))
    c = dist.constant(Literal.elided(), shape=(4, 8))
    dist.output(dist.multiply(x, dist.reverse(c, 1) if wrong == "reverse" else dist.add(c, c)))
    assert report(facts_of(base[0], dist)).verdict == verdict


def summed(factor: int, *, gather: bool = False) -> tuple[Program, Program]:
    """A sum over a group that is only named, against a multiple of the value."""
    base, dist = pair()
    base.output(base.multiply(base.input("x", (4, 8)), factor))
    x = dist.input("x", (4, 8))
    dist.output(dist.graph.add("all-reduce", [x], symbols={"reducer": ["sum"]}, group_name="g").result)
    if gather:
        more = dist.graph.add("all-gather", [x], [("f32", (8, 8))], numbers={"dimension": [0]}, group_name="g")
        base.output(base.concatenate([base.graph.inputs[0].tensor] * 2, 0))
        dist.output(more.result)
    return base, dist


def test_what_another_group_may_explain_is_not_refuted() -> None:
    """The sum over each rank alone is the value itself, that over both twice as much; neither is three times."""
    found = report(facts_of(*summed(1)))
    assert found.verdict == "UNKNOWN"
    assert any("process group `g` is all 2 ranks" in note for note in found.notes)
    assert report(facts_of(*summed(2))).verdict == "PROVED"
    assert report(facts_of(*summed(3))).verdict == "REFUTED"
    assert report(facts_of(*summed(1, gather=True))).outputs[0].verdict == "REFUTED"  # the gather shows its size


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        ("[0:1x4][1:1x8]|dp=0:4x2|tp=1:8x2", 'inputs: {"w": {dims: {0: [dp], 1: [tp]}}}'),
        ("[0:1x2]|dp=0:4x2|tp=0:2x2", 'inputs: {"w": {dims: {0: [dp, tp]}}}'),
        ("[0:1x4]|dp=r2|tp=0:4x2,r2", 'inputs: {"w": {dims: {0: ["tp:2"]}}}'),
        ("[0:1x4]|dp=r2|tp=r2,0:4x2", 'inputs: {"w": {dims: {0: ["tp:(2)2"]}}}'),
    ],
)
def test_placements_are_written_as_a_relations_file_has_them(layout: str, line: str) -> None:
    assert written("w", layout) == line
    parse_relations(line)


def test_why_an_input_is_not_placed_is_no_edit() -> None:
    base, dist = pair()
    base.output(base.matmul(base.input("x", (4, 8)), base.input("w", (8, 8))))
    dist.output(dist.matmul(dist.input("x", (4, 4)), dist.input("w", (4, 4))))
    (cause,) = report(facts_of(base, dist)).frontier
    assert "w was unrelated: baseline f32[8,8] and f32[4,4]" in " ".join(cause.inputs)
    assert cause.suggestion == cause.outcome == ()
