"""Files of ranks that compute alike need not wait alike: the order of every rank is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scalify_dl.cli import app

HEAD = "class GraphModule(torch.nn.Module):\n    def forward(self, x: 'f32[8]', y: 'f32[8]'):\n"
OPS = "torch.ops._c10d_functional"
REDUCE = f"r: 'f32[8]' = {OPS}.all_reduce.default(c, 'sum', '0')"
WAIT = f"w: 'f32[8]' = {OPS}.wait_tensor.default(r)"
COPY = "c: 'f32[8]' = torch.ops.aten.add.Tensor(x, 0)"


def fx(*lines: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in lines)


BASE = fx(
    "d: 'f32[8]' = torch.ops.aten.mul.Tensor(x, 2)", "a: 'f32[8]' = torch.ops.aten.add.Tensor(d, y)", "return (a,)"
)
AWAITED = fx(COPY, REDUCE, WAIT, "a: 'f32[8]' = torch.ops.aten.add.Tensor(w, y)", "return (a,)")
UNAWAITED = fx(COPY, REDUCE, "a: 'f32[8]' = torch.ops.aten.add.Tensor(r, y)", "return (a,)")


def verify(tmp_path: Path, base: str, dists: list[str], group: str = "0") -> dict[str, Any]:
    """The JSON of a verdict on files of ranks, in one group of them all."""
    suffix = "hlo" if base.startswith("Hlo") else "fx.txt"
    (tmp_path / f"base.{suffix}").write_text(base)
    files = []
    for n, text in enumerate(dists):
        files.append(tmp_path / f"dist{n}.{suffix}")
        files[-1].write_text(text)
        if suffix == "fx.txt":
            note = {"groups": {group: list(range(len(dists)))}}
            (tmp_path / f"dist{n}.json").write_text(json.dumps(note))
    command = ["verify", str(tmp_path / f"base.{suffix}"), *map(str, files), "--mesh", f"tp={len(dists)}", "--json"]
    found = CliRunner().invoke(app, command)
    assert found.stdout.startswith("{"), found.output
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def kinds(report: dict[str, Any]) -> list[str]:
    return [finding["kind"] for finding in report["findings"]]


def timed(report: dict[str, Any]) -> list[str]:
    return [a["text"] for a in report["assumptions"] if a["why"] == "schedule"]


def test_ranks_that_all_wait_are_proved(tmp_path: Path) -> None:
    report = verify(tmp_path, BASE, [AWAITED, AWAITED])
    assert (report["verdict"], timed(report)) == ("PROVED", [])


def test_ranks_whose_text_differs_but_which_wait_alike_assume_nothing(tmp_path: Path) -> None:
    report = verify(tmp_path, BASE, [AWAITED, AWAITED.replace("w:", "v:").replace("(w,", "(v,")])
    assert (report["verdict"], timed(report)) == ("PROVED", [])


def test_ranks_that_do_the_same_steps_on_other_numbers_are_one_program(tmp_path: Path) -> None:
    from scalify_dl.schedule.fx_waits import read_alike

    texts = [AWAITED.replace("(x, 0)", f"(x, {n})") for n in range(4)]
    paths = [tmp_path / f"{n}.fx.txt" for n in range(4)]
    found = read_alike(paths, texts)
    assert found is not None
    assert len(found.ranks) == 1
    edits = [("'sum'", "'max'"), ("(c,", "(x,"), ("add.Tensor(w", "mul.Tensor(w"), ("(w, y)", "(x, y)"),
             ("return (a,)", "return (w,)"), ("(x, 0)", "(x, 0, alpha=1)")]  # fmt: skip
    for part, other in edits:
        assert read_alike(paths[:2], [AWAITED, AWAITED.replace(part, other)]) is None


def test_a_rank_that_reads_what_is_in_flight_where_others_wait_is_refuted(tmp_path: Path) -> None:
    base = BASE.replace("(x, 2)", "(x, 3)")
    wrong = AWAITED.replace("(w, y)", "(r, y)").replace("wait_tensor.default(r)", "wait_tensor.default(x)")
    report = verify(tmp_path, base, [AWAITED, wrong, AWAITED])
    assert {f["rank"] for f in report["findings"] if f["kind"] == "race"} == {1}


@pytest.mark.parametrize("rank", range(3))
def test_a_missing_wait_on_any_rank_is_refuted(tmp_path: Path, rank: int) -> None:
    base = BASE.replace("(x, 2)", "(x, 3)")
    report = verify(tmp_path, base, [UNAWAITED if r == rank else AWAITED for r in range(3)])
    assert report["verdict"] == "REFUTED"
    assert {f["rank"] for f in report["findings"] if f["kind"] == "race"} == {rank}


def test_an_input_that_another_rank_writes_in_flight_is_refuted(tmp_path: Path) -> None:
    lines = AWAITED.splitlines(keepends=True)
    late = "        z: 'f32[8]' = torch.ops.aten.zero_.default(c)\n"
    fine, wrong = "".join([*lines[:5], late, *lines[5:]]), "".join([*lines[:4], late, *lines[4:]])
    assert verify(tmp_path, BASE, [fine, fine])["verdict"] == "PROVED"
    report = verify(tmp_path, BASE, [fine, wrong])
    assert (report["verdict"], kinds(report)) == ("REFUTED", ["race"])


def ring(ranks: int, rank: int, *steps: str) -> str:
    """Sends to the right and receives from the left: `send`, `recv`, and waits for either."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    lines = {
        "send": f"s: 'f32[8]' = {OPS}.isend.default(x, {right}, 0, 'p')",
        "recv": f"g: 'f32[8]' = {OPS}.irecv.default(b, {left}, 0, 'p')",
        "wait send": f"t: 'f32[8]' = {OPS}.wait_tensor.default(s)",
        "wait recv": f"h: 'f32[8]' = {OPS}.wait_tensor.default(g)",
    }
    return fx("b: 'f32[8]' = torch.ops.aten.zeros_like.default(y)", *(lines[step] for step in steps),
              "a: 'f32[8]' = torch.ops.aten.add.Tensor(h, y)", "return (a,)")  # fmt: skip


RING = fx("a: 'f32[8]' = torch.ops.aten.add.Tensor(x, y)", "return (a,)")


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_ring_in_which_everybody_receives_first_is_refuted(tmp_path: Path, ranks: int) -> None:
    steps = ("recv", "wait recv", "send", "wait send")
    report = verify(tmp_path, RING, [ring(ranks, r, *steps) for r in range(ranks)], "p")
    assert (report["verdict"], kinds(report)[:1]) == ("REFUTED", ["deadlock"])


def test_a_ring_in_which_everybody_posts_first_is_proved(tmp_path: Path) -> None:
    steps = ("recv", "send", "wait send", "wait recv")
    report = verify(tmp_path, RING, [ring(4, r, *steps) for r in range(4)], "p")
    assert (report["verdict"], kinds(report)) == ("PROVED", [])


def test_ranks_that_send_what_they_first_receive_are_refuted(tmp_path: Path) -> None:
    """No values can be told of such programs, their order is wrong all the same."""
    texts = [
        ring(2, r, "recv", "wait recv", "send", "wait send").replace("default(x, ", "default(h, ") for r in range(2)
    ]
    report = verify(tmp_path, RING, texts, "p")
    assert (report["verdict"], kinds(report)[:1]) == ("REFUTED", ["deadlock"])


def test_a_message_that_nobody_sends_is_refuted(tmp_path: Path) -> None:
    texts = [ring(2, 0, "recv", "wait recv"), ring(2, 1, "recv", "send", "wait send", "wait recv")]
    report = verify(tmp_path, RING, texts, "p")
    assert report["verdict"] == "REFUTED"
    assert "unmatched" in kinds(report)


def test_a_message_of_another_size_is_refuted(tmp_path: Path) -> None:
    steps = ("recv", "send", "wait send", "wait recv")
    texts = [ring(3, r, *steps) for r in range(3)]
    half = "        o: 'f32[4]' = torch.ops.aten.slice.Tensor(x, 0, 0, 4)\n        b:"
    edits = {"s: 'f32[8]'": "s: 'f32[4]'", "t: 'f32[8]'": "t: 'f32[4]'", "(x, 2": "(o, 2", "        b:": half}
    for old, new in edits.items():
        texts[1] = texts[1].replace(old, new)
    report = verify(tmp_path, RING, texts, "p")
    assert report["verdict"] == "REFUTED"
    assert kinds(report) == ["wrong-message"]


def test_one_file_for_all_ranks_whose_messages_never_meet_is_refuted(tmp_path: Path) -> None:
    """Everybody receives from rank 1 and sends to it, rank 1 from itself."""
    (tmp_path / "b.fx.txt").write_text(RING)
    (tmp_path / "d.fx.txt").write_text(ring(2, 0, "recv", "wait recv", "send", "wait send"))
    (tmp_path / "d.json").write_text(json.dumps({"groups": {"p": [0, 1]}}))
    command = ["verify", str(tmp_path / "b.fx.txt"), str(tmp_path / "d.fx.txt"), "--mesh", "tp=2", "--json"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code in (1, 2), found.output


HLO = """\
HloModule m, is_scheduled=true, num_partitions=2
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %t = token[] after-all()
  STEPS
  ROOT %r = f32[8]{0} get-tuple-element(%gd), index=0
}
"""
HLO_SEND = (
    "%s = (f32[8]{0}, u32[], token[]) send(%x, %t), channel_id=1, "
    'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}',
    "%sd = token[] send-done(%s), channel_id=1",
)
HLO_RECV = (
    "%g = (f32[8]{0}, u32[], token[]) recv(%t), channel_id=1, "
    'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}',
    "%gd = (f32[8]{0}, token[]) recv-done(%g), channel_id=1",
)
HLO_BASE = """\
HloModule b
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} copy(%x)
}
"""


def test_one_module_in_which_every_rank_receives_before_it_sends_is_never_proved(tmp_path: Path) -> None:
    """All ranks do the same steps, but the one that receives is not the one that sends."""
    from scalify_dl.ir.origin import Origin
    from scalify_dl.schedule.programs import in_time

    for steps, verdict in (((*HLO_RECV, *HLO_SEND), "REFUTED"), ((HLO_RECV[0], *HLO_SEND, HLO_RECV[1]), "PROVED")):
        (tmp_path / "d.hlo").write_text(HLO.replace("STEPS", "\n  ".join(steps)))
        found = in_time([Origin(str(tmp_path / "d.hlo"), None, True)], 2)
        assert found is not None
        assert found.verdict.value == verdict


def test_groups_of_different_names_whose_members_nobody_says_are_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "base.fx.txt").write_text(BASE)
    files = [tmp_path / f"dist{n}.fx.txt" for n in range(2)]
    for file, text in zip(files, (AWAITED, AWAITED.replace("'sum', '0'", "'sum', '1'")), strict=True):
        file.write_text(text)
    result = CliRunner().invoke(app, ["verify", str(tmp_path / "base.fx.txt"), *map(str, files), "--mesh", "tp=2"])
    assert "the members of these are not known" in str(result.exception)


def test_groups_whose_members_nobody_says_meet_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "base.fx.txt").write_text(BASE)
    again = "s: 'f32[8]' = torch.ops._c10d_functional.all_reduce.default(w, 'max', '1')"
    text = AWAITED.replace(
        "a: 'f32[8]'",
        f"{again}\n        v: 'f32[8]' = torch.ops._c10d_functional.wait_tensor.default(s)\n        a: 'f32[8]'",
    ).replace("Tensor(w, y)", "Tensor(v, y)")
    other = text.replace("'0'", "'2'").replace("'1'", "'0'").replace("'2'", "'1'")
    files = [tmp_path / f"dist{n}.fx.txt" for n in range(2)]
    for file, content in zip(files, (text, other), strict=True):
        file.write_text(content)
    command = ["verify", str(tmp_path / "base.fx.txt"), *map(str, files), "--mesh", "tp=2"]
    assert "in one order, by name" in str(CliRunner().invoke(app, command).exception)
    files[1].write_text(text)
    assert CliRunner().invoke(app, command).exit_code == 0
