"""FX graphs: collectives that are awaited before use are fine, others are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalify_dl.readers.fx.annotation import UNTIMED
from scalify_dl.schedule.fx_waits import AT_ISSUE, read_alike
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.tables import APART
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


def test_groups_of_the_same_members_are_different_communicators(tmp_path: Path) -> None:
    def over(*groups: str) -> tuple[str, ...]:
        lines = []
        for n, group in enumerate(groups):
            lines += [REDUCE.replace('"0"', f'"{group}"').format("x").replace("r:", f"r{n}:"),
                      WAIT.format(f"r{n}").replace("w:", f"w{n}:")]  # fmt: skip
        return (*lines, "return (w0,)")

    said: dict[str, object] = {"groups": {name: [0, 1] for name in "abcd"}}
    assert judged(tmp_path, over("a", "b"), over("a", "b"), beside=said).verdict == "PROVED"
    crossed = judged(tmp_path, over("a", "b"), over("b", "a"), beside=said)
    assert (crossed.verdict, crossed.findings[0].kind) == ("REFUTED", "deadlock")
    one_each = judged(tmp_path, over("a", "b"), over("a", "c"), beside=said)  # b is what the other calls c
    assert (one_each.verdict, one_each.assumptions) == ("PROVED", [APART])
    unsure = judged(tmp_path, over("a", "b"), over("c", "d"), beside=said)
    assert unsure.assumptions == ["ranks call over groups of the same members in one order: [0, 1]"]


@pytest.mark.parametrize("other", ['"f32[4, 4]"', '"f64[8]"'])
def test_members_of_a_collective_agree_on_size_and_type(tmp_path: Path, other: str) -> None:
    one = (REDUCE.format("x"), WAIT.format("r"), "return (w,)")
    another = (REDUCE.format("x").replace('"f32[8]"', other), *one[1:])
    found = judged(tmp_path, one, another, beside={"groups": {"0": [0, 1]}})
    assert [f.kind for f in found.findings] == ["mismatch"]


def test_parts_of_a_tuple_may_be_counted_from_the_end(tmp_path: Path) -> None:
    several = 'l = torch.ops._c10d_functional.all_reduce_coalesced.default([x, y], "sum", "0")'
    lines = (several, 'p: "f32[8]" = l[0]', 'q: "f32[8]" = l[-1]')
    assert result(tmp_path, *lines, WAIT.format("p"), "return (w, q)").verdict == "PROVED"
    assert result(tmp_path, *lines, 'a: "f32[8]" = torch.ops.aten.neg.default(q)', WAIT.format("p"),
                  "return (a,)").verdict == "REFUTED"  # fmt: skip


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


SLICE = '{}: "f32[4]" = torch.ops.aten.slice.Tensor({}, 0, {}, {})'
HALVES = (SLICE.format("p", "x", 0, 4), SLICE.format("q", "x", 4, 8))
REDUCE_P = 'r: "f32[4]" = torch.ops._c10d_functional.all_reduce_.default(p, "sum", "0")'
WAIT_R = 'w: "f32[4]" = torch.ops._c10d_functional.wait_tensor.default(r)'


def test_other_rows_may_be_touched_while_some_are_in_flight(tmp_path: Path) -> None:
    zero = 'z: "f32[4]" = torch.ops.aten.zero_.default(q)'
    read = 'z: "f32[4]" = torch.ops.aten.neg.default(q)'
    for use in (zero, read):
        assert result(tmp_path, *HALVES, REDUCE_P, use, WAIT_R, "return (x, z)").verdict == "PROVED"
    overlapping = (HALVES[0], SLICE.format("q", "x", 3, 8).replace("[4]", "[5]"))
    assert result(tmp_path, *overlapping, REDUCE_P, zero, WAIT_R, "return (x, z)").verdict == "REFUTED"


@pytest.mark.parametrize(
    "q",
    [
        'q: "f32[4]" = torch.ops.aten.as_strided.default(s, [4], [1], 0)',
        'q: "f32[4]" = torch.ops.aten.slice.Tensor(x, 0, -8, -4)',
        'q: "f32[2, 2]" = torch.ops.aten.slice.Tensor(v, 1, 0, 2)',
        'q: "f32[4]" = torch.ops.aten.select.int(v, 0, 0)',
        'q: "f32[1]" = torch.ops.aten.slice.Tensor(x, 0, 3, 4, 2)',
        'q: "f32[6]" = torch.ops.aten.narrow.default(x, 0, 2, 6)',
        'q: "f32[3]" = torch.ops.aten.slice.Tensor(i, 0, 1, 4)',
    ],
)
def test_views_that_reach_rows_in_flight_race(tmp_path: Path, q: str) -> None:
    s = SLICE.format("s", "x", 4, 8)
    v = 'v: "f32[2, 4]" = torch.ops.aten.view.default(x, [2, 4])'
    i = 'i: "f32[8]" = torch.ops.aten.add_.Tensor(x, y)'
    use = 'z: "f32[4]" = torch.ops.aten.zero_.default(q)'
    lines = (HALVES[0], s, v, i, q, REDUCE_P, use, WAIT_R, "return (x,)")
    assert "race" in [f.kind for f in result(tmp_path, *lines).findings]


def test_rows_that_split_and_narrow_take_are_those_of_their_ranks(tmp_path: Path) -> None:
    """Ranks do the same steps, of which one touches rows in flight on one of them only."""
    use = 'z: "f32[4]" = torch.ops.aten.zero_.default(q)'
    split = ("t = torch.ops.aten.split.Tensor(x, 4)", 'p: "f32[4]" = t[0]', 'q: "f32[4]" = t[1]')
    assert result(tmp_path, *split, REDUCE_P, use, WAIT_R, "return (x,)").verdict == "PROVED"
    ranks = [
        (HALVES[0], SLICE.format("q", "x", at, 8), REDUCE_P, use, WAIT_R, "return (x,)") for at in (4, 3)
    ]
    files = [tmp_path / f"r{n}.fx.txt" for n in range(2)]
    texts = [HEAD + "".join(f"        {line}\n" for line in lines) for lines in ranks]
    alike = read_alike(files, texts)
    assert alike is None or judge(alike, settings("both")).findings


def test_turned_in_place_a_tensor_has_other_rows(tmp_path: Path) -> None:
    lines = (
        'v: "f32[4, 2]" = torch.ops.aten.view.default(y, [4, 2])', 'n: "f32[4, 2]" = torch.ops.aten.neg.default(v)',
        'o: "f32[2, 4]" = torch.ops.aten.t_.default(n)', 'p: "f32[1, 4]" = torch.ops.aten.slice.Tensor(n, 0, 0, 1)',
        'q: "f32[2, 3]" = torch.ops.aten.slice.Tensor(o, 1, 1, 4)', REDUCE_P,
        'z: "f32[2, 3]" = torch.ops.aten.zero_.default(q)', WAIT_R, "return (o,)",
    )  # fmt: skip
    assert "race" in [f.kind for f in result(tmp_path, *lines).findings]


def test_a_wait_for_what_is_perhaps_a_copy_is_assumed_to_be_for_the_collective(tmp_path: Path) -> None:
    reduce = 'r: "f32[8]" = torch.ops._c10d_functional.all_reduce_.default(x, "sum", "0")'
    lines = (reduce, WAIT.format("c"), 'a: "f32[8]" = torch.ops.aten.add.Tensor(x, y)', "return (a,)")
    for make in ("contiguous.default(x)", "reshape.default(x, [8])"):
        found = result(tmp_path, f'c: "f32[8]" = torch.ops.aten.{make}', *lines)
        assumed = ["where it is not clear whether memory is shared, it is: w waits for r"]
        assert (found.verdict, found.assumptions) == ("PROVED", assumed)
