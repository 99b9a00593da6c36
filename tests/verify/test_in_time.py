"""One verdict on values and time: programs that race or hang are refuted, though their values are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scalify_dl.cli import app

BASE = """\
HloModule base
ENTRY %main (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %two = f32[] constant(2)
  %twos = f32[8]{0} broadcast(%two), dimensions={}
  %d = f32[8]{0} multiply(%x, %twos)
  ROOT %r = f32[8]{0} add(%d, %y)
}
"""
DIST = """\
HloModule dist, is_scheduled=true, num_partitions=2
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %s = f32[8]{0} all-reduce-start(%x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
  MEANWHILE
  %d = f32[8]{0} all-reduce-done(%s)
  ROOT %r = f32[8]{0} add(%d, %y)
}
"""
FX_BASE = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8]", y: "f32[8]"):
        d: "f32[8]" = torch.ops.aten.mul.Tensor(x, 2)
        a: "f32[8]" = torch.ops.aten.add.Tensor(d, y)
        return (a,)
"""
FX_DIST = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8]", y: "f32[8]"):
        c: "f32[8]" = torch.ops.aten.add.Tensor(x, 0)
        r: "f32[8]" = torch.ops._c10d_functional.all_reduce.default(c, "sum", "0")
        MEANWHILE
        w: "f32[8]" = torch.ops._c10d_functional.wait_tensor.default(r)
        a: "f32[8]" = torch.ops.aten.add.Tensor(w, y)
        return (a,)
"""


def verify(tmp_path: Path, base: str, *dists: str, options: tuple[str, ...] = ()) -> dict:
    suffix = "hlo" if base.startswith("Hlo") else "fx.txt"
    (tmp_path / f"base.{suffix}").write_text(base)
    files = []
    for n, text in enumerate(dists):
        files.append(tmp_path / f"dist{n}.{suffix}")
        files[-1].write_text(text)
    command = ["verify", str(tmp_path / f"base.{suffix}"), *map(str, files), "--mesh", "tp=2", "--json", *options]
    found = CliRunner().invoke(app, command)
    assert found.stdout.startswith("{"), found.output
    return json.loads(found.stdout)


def timed(report: dict) -> list[str]:
    return [a["text"] for a in report["assumptions"] if a["why"] == "schedule"]


def test_scheduled_hlo_whose_starts_are_awaited_is_proved(tmp_path: Path) -> None:
    report = verify(tmp_path, BASE, DIST.replace("  MEANWHILE\n", ""))
    assert report["verdict"] == "PROVED"
    (text,) = timed(report)
    assert "no buffer assignment" in text


def test_an_input_overwritten_in_flight_is_refuted_though_values_are_proved(tmp_path: Path) -> None:
    update = "%z = s32[] constant(0)\n  %u = f32[8]{0} dynamic-update-slice(%x, %y, %z)"
    report = verify(tmp_path, BASE, DIST.replace("MEANWHILE", update))
    assert report["verdict"] == "REFUTED"
    assert {o["verdict"] for o in report["outputs"]} == {"PROVED"}
    assert [f["kind"] for f in report["findings"]] == ["race"]
    assert report["findings"][0]["source"][0].endswith((":12", ":10"))


def test_hlo_that_is_in_no_order_assumes_that_nothing_races(tmp_path: Path) -> None:
    dist = DIST.replace(" is_scheduled=true,", "").replace("  MEANWHILE\n", "")
    report = verify(tmp_path, BASE, dist)
    assert report["verdict"] == "PROVED"
    (text,) = timed(report)
    assert text.startswith("no race and no deadlock")
    assert verify(tmp_path, BASE, dist, options=("--strict",))["verdict"] == "UNKNOWN"


def test_one_synchronous_program_assumes_nothing_of_time(tmp_path: Path) -> None:
    dist = DIST.replace("  MEANWHILE\n", "").replace("-start(", "(").replace("all-reduce-done", "copy")
    report = verify(tmp_path, BASE, dist)
    assert (report["verdict"], timed(report)) == ("PROVED", [])


def test_torch_collectives_that_are_awaited_assume_nothing(tmp_path: Path) -> None:
    report = verify(tmp_path, FX_BASE, FX_DIST.replace("        MEANWHILE\n", ""))
    assert (report["verdict"], timed(report)) == ("PROVED", [])


def test_a_collectives_input_that_is_written_before_its_wait_is_refuted(tmp_path: Path) -> None:
    write = 'z: "f32[8]" = torch.ops.aten.zero_.default(c)'
    report = verify(tmp_path, FX_BASE, FX_DIST.replace("MEANWHILE", write))
    assert report["verdict"] == "REFUTED"
    assert [f["kind"] for f in report["findings"]] == ["race"]


def test_facts_alone_say_that_order_is_assumed(tmp_path: Path) -> None:
    (tmp_path / "b.fx.txt").write_text(FX_BASE)
    (tmp_path / "d.fx.txt").write_text(FX_DIST.replace("        MEANWHILE\n", ""))
    files = [str(tmp_path / name) for name in ("b.fx.txt", "d.fx.txt")]
    made = CliRunner().invoke(app, ["export", *files, "--mesh", "tp=2", "-o", str(tmp_path / "facts")])
    assert made.exit_code == 0, made.output
    found = json.loads(CliRunner().invoke(app, ["run", str(tmp_path / "facts"), "--json"]).stdout)
    assert found["verdict"] == "PROVED"
    assert timed(found)[0].startswith("no race and no deadlock")


TWO_GROUPS = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[8]", y: "f32[8]"):
        r: "f32[8]" = torch.ops._c10d_functional.all_reduce.default(FIRST)
        s: "f32[8]" = torch.ops._c10d_functional.all_reduce.default(SECOND)
        w: "f32[8]" = torch.ops._c10d_functional.wait_tensor.default(r)
        v: "f32[8]" = torch.ops._c10d_functional.wait_tensor.default(s)
        a: "f32[8]" = torch.ops.aten.sub.Tensor(LEFT, RIGHT)
        RANK
        return (a,)
"""


@pytest.mark.parametrize("waits", ["between", "behind"])
def test_ranks_that_take_groups_in_another_order_hang_or_assume_queues_of_their_own(tmp_path: Path, waits: str) -> None:
    """Four ranks in groups of all and of two; ranks 2 and 3 run other programs than 0 and 1."""
    base = FX_BASE.replace("torch.ops.aten.mul.Tensor(x, 2)", "torch.ops.aten.mul.Tensor(x, 4)").replace(
        "torch.ops.aten.add.Tensor(d, y)", "torch.ops.aten.sub.Tensor(d, e)"
    ).replace("        a:", '        e: "f32[8]" = torch.ops.aten.mul.Tensor(y, 2)\n        a:')  # fmt: skip
    whole, half = 'x, "sum", "all"', 'y, "sum", "half"'
    one = TWO_GROUPS.replace("FIRST", whole).replace("SECOND", half).replace("LEFT", "w").replace("RIGHT", "v")
    other = TWO_GROUPS.replace("FIRST", half).replace("SECOND", whole).replace("LEFT", "v").replace("RIGHT", "w")
    if waits == "between":
        for wait, issue in (("w", "s"),):
            lines = one.splitlines()
            at = next(n for n, line in enumerate(lines) if line.strip().startswith(f"{wait}:"))
            before = next(n for n, line in enumerate(lines) if line.strip().startswith(f"{issue}:"))
            lines.insert(before, lines.pop(at))
            one = "\n".join(lines) + "\n"
            lines = other.splitlines()
            lines.insert(before, lines.pop(at))
            other = "\n".join(lines) + "\n"
    one, other = one.replace("        RANK\n", ""), other.replace("        RANK\n", "")
    (tmp_path / "base.fx.txt").write_text(base)
    files = []
    for rank in range(4):
        files.append(tmp_path / f"r{rank}.fx.txt")
        files[-1].write_text(one if rank % 2 == 0 else other)
    (tmp_path / "r.yaml").write_text("groups: {all: [[0, 1, 2, 3]], half: [[0, 1], [2, 3]]}\n")
    command = ["verify", str(tmp_path / "base.fx.txt"), *map(str, files), "--mesh", "dp=2,tp=2", "--json"]
    found = CliRunner().invoke(app, [*command, "--relate", str(tmp_path / "r.yaml")])
    report = json.loads(found.stdout)
    if waits == "between":
        assert report["verdict"] == "REFUTED"
        assert report["findings"][0]["kind"] == "deadlock"
    else:
        assert report["findings"] == []
        assert any("on one queue" in text for text in timed(report))
