"""The command, the recovered program, types, what is not decided, bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.lint.judge import Result, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.lint.text import baseline, placements
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import parse_relations

HLO = """HloModule mlp, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8,16], up: f32[16,16], down: f32[16,16]) -> f32[8,16] {
  %x = f32[8,16] parameter(0), sharding={replicated}
  %up = f32[16,16] parameter(1), sharding={devices=[1,2]<=[2]}
  %down = f32[16,16] parameter(2), sharding={devices=[2,1]<=[2]}
  %h = f32[8,16] dot(%x, %up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[8,16] tanh(%h)
  %y = f32[8,16] dot(%t, %down), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %r = f32[8,16] all-reduce(%y), replica_groups={{0,1}}, use_global_device_ids=true, channel_id=1, to_apply=%sum
}
"""


def mlp(reduced: bool = True) -> Alone:
    p = Alone("tp=2")
    x, up, down = p.place("x", (8, 16)), p.place("up", (16, 32), {1: "tp"}), p.place("down", (32, 16), {0: "tp"})
    y = p.matmul(p.relu(p.matmul(x, up)), down)
    p.result(p.all_reduce(y, "tp") if reduced else y)
    return p


def judged(p: Alone) -> Result:
    return lint_graph(p.graph, p.mesh)


def command(tmp_path: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "dist.hlo"
    file.write_text(text)
    argv = [sys.executable, "-m", "scalify_dl", "lint", str(file), "--mesh", "tp=2", *more]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)


def test_a_dump_with_shardings_is_well_placed_and_its_program_is_printed(tmp_path: Path) -> None:
    done = command(tmp_path, HLO, "--show-baseline", "--types")
    assert done.returncode == 0, done.stderr
    assert "PROVED" in done.stdout
    assert "up: f32[16,32]" in done.stdout
    assert "all-reduce" not in done.stdout[done.stdout.index("func @main") :]
    assert "S(1)@tp" in done.stdout


def test_without_its_reduction_it_is_refuted_at_the_line(tmp_path: Path) -> None:
    lines = [line for line in HLO.splitlines() if "ROOT %r" not in line]
    at = next(n for n, line in enumerate(lines) if "%y = " in line)
    lines.insert(at + 1, "  ROOT %r = f32[8,16] tanh(%y)")
    wrong = "\n".join(lines)
    done = command(tmp_path, wrong, "--json")
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout)
    (finding,) = [f for f in said["findings"] if f["level"] == "error"]
    assert finding["kind"] == "non-linear"
    assert finding["name"] == "r"
    assert finding["source"] == [f"{tmp_path / 'dist.hlo'}:{at + 2}"]
    assert "sum over tp" in finding["text"]


def test_a_file_that_is_none_is_bad_input(tmp_path: Path) -> None:
    done = command(tmp_path, "nothing")
    assert done.returncode == 2
    assert "expected" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_recovered_program_reads_as_one_of_one_device() -> None:
    text = "\n".join(baseline(judged(mlp()).baseline))
    assert "%dot~2 = dot(%relu, %down)" in text or "dot(%relu, %down)" in text
    assert "f32[8,32]" in text


def test_types_say_what_is_split_and_what_is_a_part_of_a_sum() -> None:
    lines = list(placements(judged(mlp(reduced=False))))
    assert any(line.startswith("up") and "S(1)@tp, gradient S(1)@tp" in line for line in lines)
    assert any("P@tp, gradient R@tp" in line for line in lines)


def test_an_input_that_nobody_places_leaves_it_open() -> None:
    p = Alone("tp=2")
    w = p.input("w", (16, 16))
    p.output(p.tanh(w))
    result = judged(p)
    assert result.verdict is Verdict.UNKNOWN
    assert any("`w`" in text and "inputs:" in text for text in result.missing)


def test_a_violation_that_rests_on_a_guess_is_none() -> None:
    p = Alone("tp=2")
    x, w = p.input("x", (8, 16)), p.place("w", (16, 32), {1: "tp"})
    p.output(p.all_reduce(p.tanh(p.matmul(x, w)), "tp"))
    assert judged(p).verdict is Verdict.UNKNOWN


def test_the_relations_file_places_inputs() -> None:
    p = Alone("tp=2")
    x, w = p.input("x", (8, 16)), p.input("w", (16, 16))
    p.output(p.matmul(x, w))
    said = parse_relations('inputs: {x: {dims: {}}, "w": {dims: {1: [tp]}}}')
    result = lint_graph(p.graph, p.mesh, said)
    assert result.verdict is Verdict.PROVED
    assert result.boundaries[0].held is not None
    assert result.boundaries[0].held.base.shape == (8, 32)


def test_a_name_of_the_relations_file_that_is_no_input_is_bad_input() -> None:
    p = mlp()
    with pytest.raises(InputError, match="matches `nobody`"):
        lint_graph(p.graph, p.mesh, parse_relations("inputs: {nobody: {dims: {}}}"))


def test_an_expected_pending_sum_is_no_violation() -> None:
    p = Alone("tp=2")
    x, w = p.place("x", (8, 16), {1: "tp"}), p.place("w", (16, 32), {0: "tp"})
    p.result(p.matmul(x, w), pending={"tp": "sum"})
    assert judged(p).verdict is Verdict.PROVED


def test_an_output_that_lies_elsewhere_than_asked_is_a_violation() -> None:
    p = Alone("tp=2")
    x = p.place("x", (16, 16), {0: "tp"})
    p.result(p.reshape(p.tanh(p.all_to_all(x, "tp", 1, 0)), (16, 8)), {1: "tp"})
    assert judged(p).verdict is Verdict.PROVED
    q = Alone("dp=2,tp=2")
    y = q.place("y", (16, 16), {0: "dp"})
    q.result(q.tanh(y), {0: "tp"})
    result = judged(q)
    assert result.verdict is Verdict.REFUTED
    assert result.findings[0].kind == "misplaced-output"


def test_a_mean_over_ranks_that_have_the_same_is_a_note() -> None:
    p = Alone("tp=4")
    x = p.place("x", (8, 16))
    p.result(p.exponential(p.multiply(p.all_reduce(p.tanh(x), "tp"), 0.25)))
    result = judged(p)
    assert result.verdict is Verdict.PROVED
    assert [(f.kind, f.level) for f in result.findings] == [("reduces-replicated", "note")]


def test_an_op_that_every_rank_does_otherwise_is_not_decided() -> None:
    p = Alone("tp=2")
    x = p.place("x", (4,), dtype="s32", range=(0, 100))
    p.output(p.add(x, p.broadcast(p.rank_constant({0: 1, 1: 5}), (4,), [])))
    assert judged(p).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("asked", [{}, {0: "tp"}])
def test_an_output_whose_shape_says_that_it_lies_elsewhere_is_a_violation(asked: dict[int, str]) -> None:
    """A gather of columns that was forgotten: it was bad input of a table of facts."""
    p = Alone("tp=2")
    y = p.matmul(p.place("x", (8, 16)), p.place("w", (16, 12), {1: "tp"}))
    p.result(y, asked)
    result = judged(p)
    assert result.verdict is Verdict.REFUTED
    assert [f.kind for f in result.findings] == ["misplaced-output"]
    assert "test_lint.py" in result.findings[0].source[0]
    q = Alone("tp=2")
    guessed = q.graph.input("w", "f32", (16, 6), path="w")
    q.result(q.matmul(q.place("x", (8, 16), {0: "tp"}), guessed))
    assert judged(q).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("outputs", "verdict"), [("{}", Verdict.REFUTED), ("{0: [tp]}", Verdict.UNKNOWN)])
def test_ranks_that_should_hold_the_same_and_do_not_are_refuted_whatever_they_hold(
    outputs: str, verdict: Verdict
) -> None:
    """The last stage alone is sent something: what ranks hold is nothing that a lemma knows."""
    p = Alone("tp=2")
    x = p.place("x", (8, 16))
    p.result(p.tanh(p.add(x, p.permute(x, [(0, 1)]))))
    said = parse_relations(f'outputs: {{"0": {{dims: {outputs}}}}}\n')
    result = lint_graph(p.graph, p.mesh, said)
    assert result.verdict is verdict, result.missing
    kinds = {f.kind for f in result.findings if f.level == "error"}
    assert kinds == ({"disagreeing-output"} if verdict is Verdict.REFUTED else set())


def test_ranks_that_draw_numbers_of_their_own_are_not_said_to_disagree() -> None:
    p = Alone("tp=2")
    x = p.place("x", (8, 16))
    drawn = p.op("rng-uniform", p.full(0.0, ()), p.full(1.0, ()), types=[("f32", (8, 16))]).result
    p.result(p.tanh(p.add(p.multiply(x, drawn), p.permute(x, [(0, 1)]))))
    result = lint_graph(p.graph, p.mesh, parse_relations('outputs: {"0": {dims: {}}}\n'))
    assert result.verdict is Verdict.UNKNOWN
