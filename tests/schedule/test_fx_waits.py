"""FX graphs: collectives that are awaited before use are fine, others are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalify_dl.readers.fx.annotation import UNTIMED
from scalify_dl.schedule.fx_waits import AT_ISSUE
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import Result, judge

HEAD = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8]", y: "f32[8]"):
"""
REDUCE = 'r: "f32[8]" = torch.ops._c10d_functional.all_reduce.default({}, "sum", "0")'
WAIT = 'w: "f32[8]" = torch.ops._c10d_functional.wait_tensor.default({})'


def result(tmp_path: Path, *lines: str) -> Result:
    (tmp_path / "g.fx.txt").write_text(HEAD + "".join(f"        {line}\n" for line in lines))
    return judge(read_schedule([tmp_path / "g.fx.txt"]), settings("both"))


def test_a_result_that_is_awaited_before_use_is_fine(tmp_path: Path) -> None:
    found = result(
        tmp_path, REDUCE.format("x"), WAIT.format("r"), 'a: "f32[8]" = torch.ops.aten.add.Tensor(w, y)', "return (a,)"
    )
    assert (found.verdict, found.findings) == ("PROVED", [])


def test_a_result_that_is_used_before_its_wait_races(tmp_path: Path) -> None:
    found = result(
        tmp_path, REDUCE.format("x"), 'a: "f32[8]" = torch.ops.aten.add.Tensor(r, y)', WAIT.format("r"), "return (a, w)"
    )
    assert [(f.kind, {e.name for e in f.events}) for f in found.findings] == [("race", {"r", "a"})]
    assert found.findings[0].source[0].endswith(("g.fx.txt:3", "g.fx.txt:4"))


def test_a_view_before_the_wait_touches_nothing(tmp_path: Path) -> None:
    view = 'v: "f32[2, 4]" = torch.ops.aten.view.default(r, [2, 4])'
    assert result(tmp_path, REDUCE.format("x"), view, WAIT.format("r"), "return (v,)").verdict == "PROVED"
    assert result(tmp_path, REDUCE.format("x"), view, WAIT.format("v"), "return (r,)").verdict == "PROVED"


def test_an_input_that_is_written_before_the_wait_races(tmp_path: Path) -> None:
    write = 'a: "f32[8]" = torch.ops.aten.add_.Tensor(x, y)'
    found = result(tmp_path, REDUCE.format("x"), write, WAIT.format("r"), "return (w,)")
    assert [f.kind for f in found.findings] == ["race"]
    assert result(tmp_path, REDUCE.format("x"), WAIT.format("r"), write, "return (w,)").verdict == "PROVED"


def test_a_write_through_a_view_is_a_write(tmp_path: Path) -> None:
    lines = ('v: "f32[8]" = torch.ops.aten.view.default(x, [8])', REDUCE.format("x"),
             'a: "f32[8]" = torch.ops.aten.zero_.default(v)', WAIT.format("r"), "return (w,)")  # fmt: skip
    assert [f.kind for f in result(tmp_path, *lines).findings] == ["race"]


def test_a_collective_in_place_needs_its_wait(tmp_path: Path) -> None:
    call = 'r: "f32[8]" = torch.ops._c10d_functional.all_reduce_.default(x, "sum", "0")'
    use = 'a: "f32[8]" = torch.ops.aten.add.Tensor(x, y)'
    assert result(tmp_path, call, WAIT.format("r"), use, "return (a,)").verdict == "PROVED"
    assert "race" in [f.kind for f in result(tmp_path, call, use, WAIT.format("r"), "return (a,)").findings]


def test_a_result_that_nobody_waits_for_is_an_orphan(tmp_path: Path) -> None:
    assert [f.kind for f in result(tmp_path, REDUCE.format("x"), "return (y,)").findings] == ["orphan"]


def test_real_graphs_have_no_findings() -> None:
    data = Path(__file__).parents[3] / "shared" / "data"
    files = [*sorted(data.glob("torch_joint/*.fx.txt")), *sorted(data.glob("megatron_gpt/*/*.fx.txt"))]
    if not files:
        pytest.skip("the shared data are not here")
    for file in [files[0], files[-1], *data.glob("torch_joint/llama_hf_L2_r1w2.fx.txt")]:
        found = judge(read_schedule([file]), settings("both"))
        assert (found.verdict, found.findings) == ("PROVED", []), file


def judged(
    tmp_path: Path, *ranks: tuple[str, ...], beside: dict[str, object] | None = None, streams: str = "pair"
) -> Result:
    files = []
    for n, lines in enumerate(ranks):
        files.append(tmp_path / f"r{n}.fx.txt")
        files[-1].write_text(HEAD + "".join(f"        {line}\n" for line in lines))
        if beside is not None:
            (tmp_path / f"r{n}.json").write_text(json.dumps(beside))
    return judge(read_schedule(files, streams=streams), settings("both"))


SEND = 's: "f32[8]" = torch.ops._c10d_functional.isend.default(x, {}, 0, "p")'
RECV = 'g: "f32[8]" = torch.ops._c10d_functional.irecv.default(y, {}, 0, "p")'
SENT = 't: "f32[8]" = torch.ops._c10d_functional.wait_tensor.default(s)'
GOT = 'v: "f32[8]" = torch.ops._c10d_functional.wait_tensor.default(g)'
PAIR = {"groups": {"p": [0, 1]}}


def test_messages_of_two_programs_meet(tmp_path: Path) -> None:
    def both(*lines: str) -> Result:
        ranks = [tuple(line.format(other) for line in lines) for other in (1, 0)]
        return judged(tmp_path, *ranks, beside=PAIR)

    posted = both(SEND, RECV, GOT, SENT, "return (v,)")
    assert posted.verdict == "UNKNOWN"  # one queue for both directions: sends that wait for their receive hang
    assert posted.findings[0].kind == "buffering"
    waiting = both(RECV, GOT, SEND, SENT, "return (v,)")
    assert (waiting.verdict, waiting.findings[0].kind) == ("REFUTED", "deadlock")
    fine = judged(
        tmp_path, (SEND.format(1), RECV.format(1), GOT, SENT, "return (v,)"),
        (RECV.format(0), SEND.format(0), GOT, SENT, "return (v,)"), beside=PAIR,
    )  # fmt: skip
    assert (fine.verdict, fine.stats["messages"]) == ("PROVED", 2)
    alone = judged(
        tmp_path, (RECV.format(1), GOT, "return (v,)"), (SENT.replace("(s)", "(x)"), "return (x,)"), beside=PAIR
    )
    assert [f.kind for f in alone.findings] == ["unmatched", "deadlock"]


def test_collectives_of_several_programs_meet_where_their_groups_are_known(tmp_path: Path) -> None:
    one = (REDUCE.format("x"), WAIT.format("r"), "return (w,)")
    other = ("return (x,)",)
    known = judged(tmp_path, one, other, beside={"groups": {"0": [0, 1]}})
    assert {f.kind for f in known.findings} == {"unmatched", "deadlock"}
    for n in range(2):
        (tmp_path / f"r{n}.json").unlink()
    unknown = judged(tmp_path, one, one)
    assert unknown.verdict == "PROVED"
    assert unknown.assumptions == ["all members of a group call its collectives alike: 0"]
    gather = ('r: "f32[16]" = torch.ops._c10d_functional.all_gather_into_tensor.default(x, 2, "0")', *one[1:])
    assert [f.kind for f in judged(tmp_path, one, gather, beside={"groups": {"0": [0, 1]}}).findings] == ["mismatch"]


def test_captures_without_waits_take_effect_where_they_are_issued(tmp_path: Path) -> None:
    lines = (REDUCE.format("x"), 'a: "f32[8]" = torch.ops.aten.add.Tensor(r, y)', "return (a,)")
    assert judged(tmp_path, lines, beside={}).verdict == "REFUTED"
    found = judged(tmp_path, lines, beside={"outside": [UNTIMED]})
    assert (found.verdict, found.assumptions) == ("PROVED", [AT_ISSUE])


def test_inputs_in_one_memory_matter_only_where_one_is_written(tmp_path: Path) -> None:
    write = 'a: "f32[8]" = torch.ops.aten.zero_.default(y)'
    found = result(tmp_path, REDUCE.format("x"), write, WAIT.format("r"), "return (w,)")
    assert (found.verdict, found.assumptions) == ("PROVED", ["inputs share no memory"])
    assert result(tmp_path, write, REDUCE.format("x"), WAIT.format("r"), "return (w,)").assumptions == []
