"""Graphs of stages: what they keep, assume and wait for is not lost where a schedule runs them many times."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from scalify_dl import cli
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.plans.described.file import read_described
from scalify_dl.plans.described.played import played
from scalify_dl.readers.read import read
from scalify_dl.schedule.pipeline_csv import read_orders

from .described import FILES, HEAD, write_described

FIRST_OF_TWO = """        mm: "f32[2, 2]" = torch.ops.aten.mm.default(x, w0)
        y: "f32[2, 2]" = torch.ops.aten.tanh.default(mm)
        tanh_backward: "f32[2, 2]" = torch.ops.aten.tanh_backward.default(gy, y)
        t: "f32[4, 2]" = torch.ops.aten.t.default(x)
        gw0: "f32[4, 2]" = torch.ops.aten.mm.default(t, tanh_backward)
        return (y, gw0)
"""
SECOND_OF_TWO = """        part: "f32[2, 4]" = torch.ops.aten.mm.default(y, w1)
        ar: "f32[2, 4]" = torch.ops._c10d_functional.all_reduce.default(part, 'sum', 'tp')
        z: "f32[2, 4]" = torch.ops._c10d_functional.wait_tensor.default(ar)
        loss: "f32[]" = torch.ops.aten.mean.default(z)
        gz: "f32[2, 4]" = torch.ops.aten.full.default([2, 4], 0.125)
        t: "f32[4, 2]" = torch.ops.aten.t.default(w1)
        gy: "f32[2, 2]" = torch.ops.aten.mm.default(gz, t)
        t_1: "f32[2, 2]" = torch.ops.aten.t.default(y)
        gw1: "f32[2, 4]" = torch.ops.aten.mm.default(t_1, gz)
        return (loss, gy, gw1)
"""
TENSOR_PARALLEL = {
    **FILES,
    "first.fx.txt": HEAD.format('w0: "f32[4, 2]", x: "f32[2, 4]", gy: "f32[2, 2]"') + FIRST_OF_TWO,
    "second.fx.txt": HEAD.format('w1: "f32[2, 4]", y: "f32[2, 2]"') + SECOND_OF_TWO,
    "relations.yaml": "inputs:\n  x: {dims: {0: dp}}\n  w0: {dims: {1: tp}}\n  w1: {dims: {0: tp}}\n",
    "plan.yaml": FILES["plan.yaml"].replace("dp: 2}", "dp: 2, tp: 2}", 1),
}
WAIT = '        z: "f32[2, 4]" = torch.ops._c10d_functional.wait_tensor.default(ar)\n'


def run(monkeypatch: pytest.MonkeyPatch, directory: Path, files: Mapping[str, str]) -> int:
    for name, text in files.items():
        (directory / name).write_text(text, "utf-8")
    monkeypatch.setattr(sys, "argv", ["dlverify", "plan", str(directory / "plan.yaml"), "--json"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def edited(files: Mapping[str, str], name: str, *edits: tuple[str, str]) -> dict[str, str]:
    text = files[name]
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    return {**files, name: text}


def test_a_stage_that_writes_an_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = edited(
        FILES, "first.fx.txt",
        ('gy: "f32[2, 4]"):', 'gy: "f32[2, 4]", c: "f32[2, 4]"):'), ("tanh.default(mm)", "tanh.default(mmc)"),
        ("        y: ", '        mmc: "f32[2, 4]" = torch.ops.aten.add.Tensor(mm, c)\n'
         '        add_: "f32[2, 4]" = torch.ops.aten.add_.Tensor(c, 1.0)\n        y: '),
    )  # fmt: skip
    files = edited(
        files, "whole.fx.txt",
        ('x: "f32[16, 4]"):', 'x: "f32[16, 4]", c: "f32[2, 4]"):'), ("tanh.default(mm)", "tanh.default(mmc)"),
        ("        y: ", '        cc: "f32[16, 4]" = torch.ops.aten.repeat.default(c, [8, 1])\n'
         '        mmc: "f32[16, 4]" = torch.ops.aten.add.Tensor(mm, cc)\n        y: '),
    )  # fmt: skip
    assert run(monkeypatch, tmp_path, files) == 2
    error = capsys.readouterr().err
    assert "plan.yaml:7:3: stage 0: first.fx.txt writes its input `c`" in error


def test_an_output_that_the_plan_does_not_name_is_assumed_to_be_read_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = edited(FILES, "first.fx.txt", ("return (y, gw0)", "return (y, gw0, mm)"))
    assert run(monkeypatch, tmp_path, files) == 0
    assumed = json.loads(capsys.readouterr().out)["assumptions"]
    texts = [each["text"] for each in assumed if each["why"] == "effect"]
    assert texts == ["nobody reads `mm` of stage 0 (first.fx.txt), which the plan does not name"]


def test_collectives_of_a_stage_run_over_the_axis_that_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, TENSOR_PARALLEL) == 0
    assumed = json.loads(capsys.readouterr().out)["assumptions"]
    assert "process group `tp` is the axis `tp` of the mesh" in {each["text"] for each in assumed}
    assert run(monkeypatch, tmp_path, edited(TENSOR_PARALLEL, "second.fx.txt", ("'tp'", "'dp'"))) == 1


def test_a_collective_that_no_action_needs_is_no_unknown_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (
        "        return",
        "        idle: \"f32[2, 4]\" = torch.ops._c10d_functional.all_reduce.default(y, 'sum', 'dp')\n"
        '        rest: "f32[2, 4]" = torch.ops._c10d_functional.wait_tensor.default(idle)\n        return',
    )
    files = edited(FILES, "first.fx.txt", more, ("return (y, gw0)", "return (y, gw0, rest)"))
    assert run(monkeypatch, tmp_path, files) == 0
    assert "nobody reads `idle` of stage 0" in capsys.readouterr().out


def test_a_stage_that_does_not_wait_for_its_collective_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = ((WAIT, ""), ("        gz:", WAIT + "        gz:"), ("mean.default(z)", "mean.default(ar)"))
    assert run(monkeypatch, tmp_path, edited(TENSOR_PARALLEL, "second.fx.txt", *late)) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["kind"] == "race"


def test_a_collective_over_stages_in_one_of_them_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, edited(TENSOR_PARALLEL, "second.fx.txt", ("'tp'", "'pp'"))) == 2
    assert "rank 0 never issues the all-reduce" in capsys.readouterr().err


def test_a_value_of_another_type_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, edited(FILES, "plan.yaml", ("to_next: y", "to_next: gw0"))) == 2
    assert "stages 0 and 1: `gw0` is f32[4,4], taken as `y`, which is f32[2,4]" in capsys.readouterr().err


@pytest.mark.parametrize(("before", "after"), [
    ("  batch: x\n", "  batch: x\n  to_previous: y\n"), ("  to_previous: gy\n", "  to_previous: gy\n  to_next: loss\n"),
    ("  batch: x\n", "  batch: x\n  from_previous: x\n"), ("  batch: x\n", "  batch: [x, gy]\n"),
])  # fmt: skip
def test_values_from_and_to_nowhere_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], before: str, after: str
) -> None:
    assert run(monkeypatch, tmp_path, edited(FILES, "plan.yaml", (before, after))) == 2
    assert "plan.yaml:" in capsys.readouterr().err


# ---- what is said of a graph as a whole


def played_graphs(directory: Path, change: Mapping[int, dict[str, object]]) -> tuple[list[Graph], list[Graph]]:
    """The stages' graphs, changed, and what all places run."""
    plan = read_described(write_described(directory))
    assert plan.schedule is not None
    graphs = [read(stage.program, plan.mesh) for stage in plan.stages]
    for n, fields in change.items():
        for name, value in fields.items():
            setattr(graphs[n], name, value)
    for graph in graphs:
        graph.assume(graph.outputs[0].tensor, "is what it is", "effect")
    return graphs, played(plan, read_orders(plan.schedule, plan.schedule.read_text("utf-8")), graphs)


def test_what_graphs_assume_is_assumed_of_every_micro_batch(tmp_path: Path) -> None:
    changes = {0: {"outside": ["prints"], "asynchronous": True}, 1: {"lookups_fail": False, "reductions": {"f"}}}
    _, (first, second) = played_graphs(tmp_path, changes)
    assert [a.tensor.name for a in first.assumptions if a.text == "is what it is"] == [f"0.{n}/y" for n in range(4)]
    assert [a.tensor.name for a in second.assumptions] == [f"1.{n}/loss" for n in range(4)]
    assert (first.outside, first.asynchronous, first.lookups_fail, first.reductions) == (["prints"], True, True, set())
    assert (second.outside, second.asynchronous, second.lookups_fail, second.reductions) == ([], False, False, {"f"})


def bodies(ops: list[Op]) -> Iterator[Graph | Tensor]:
    for op in ops:
        for region in op.regions:
            yield region
            yield from (port.tensor for port in region.inputs)
            yield from (tensor for inner in region.ops for tensor in inner.results)
            yield from bodies(region.ops)


LOOP = """HloModule first

cond {
  p = (s32[], f32[2,4]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  two = s32[] constant(2)
  ROOT less = pred[] compare(n, two), direction=LT
}

body {
  p = (s32[], f32[2,4]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(n, one)
  v = f32[2,4] get-tuple-element(p), index=1
  w = f32[2,4] tanh(v)
  ROOT out = (s32[], f32[2,4]) tuple(next, w)
}

ENTRY main {
  w0 = f32[4,4] parameter(0)
  x = f32[2,4] parameter(1)
  gy = f32[2,4] parameter(2)
  mm = f32[2,4] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = s32[] constant(0)
  start = (s32[], f32[2,4]) tuple(zero, mm)
  loop = (s32[], f32[2,4]) while(start), condition=cond, body=body
  y = f32[2,4] get-tuple-element(loop), index=1
  gw0 = f32[4,4] dot(x, gy), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT out = (f32[2,4], f32[4,4]) tuple(y, gw0)
}
"""


def test_loops_of_micro_batches_have_bodies_of_their_own(tmp_path: Path) -> None:
    file = write_described(tmp_path)
    (tmp_path / "first.fx.txt").write_text(LOOP, "utf-8")
    plan = read_described(file)
    graphs = [read(stage.program, plan.mesh) for stage in plan.stages]
    given = graphs[0].outputs[0].tensor.name
    file.write_text(file.read_text("utf-8").replace("to_next: y", f"to_next: {given}"), "utf-8")
    plan = read_described(file)
    assert plan.schedule is not None
    first, _ = played(plan, read_orders(plan.schedule, plan.schedule.read_text("utf-8")), graphs)
    assert sum(op.kind == "while" for op in first.ops) == 4
    inside = list(bodies(first.ops))
    assert len(inside) == len({id(each) for each in inside}) > 8
