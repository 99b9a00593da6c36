"""One dump for several ranks: the report says that all of them run it; what does not say so itself is an assumption."""

import json
from pathlib import Path

import pytest

import scalify_dl

BASE = """class f(torch.nn.Module):
    def forward(self, x: "f32[4, 16]", w: "f32[8, 16]"):
        t: "f32[16, 8]" = torch.ops.aten.t.default(w)
        mm: "f32[4, 8]" = torch.ops.aten.mm.default(x, t)
        return mm
"""
DIST = """class f(torch.nn.Module):
    def forward(self, x: "f32[4, 8]", w: "f32[8, 8]"):
        t: "f32[8, 8]" = torch.ops.aten.t.default(w)
        mm: "f32[4, 8]" = torch.ops.aten.mm.default(x, t)
        all_reduce: "f32[4, 8]" = torch.ops._c10d_functional.all_reduce.default(mm, 'sum', '0')
        wait_tensor: "f32[4, 8]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce)
        return wait_tensor
"""
HLO_BASE = """HloModule base
ENTRY main {
  x = f32[4,16] parameter(0)
  y = f32[4,16] parameter(1)
  ROOT z = f32[4,16] add(x, y)
}
"""


def fx(folder: Path, *names: str, rank: object = None) -> scalify_dl.Report:
    (folder / "base.fx.txt").write_text(BASE)
    for name in names:
        (folder / f"{name}.fx.txt").write_text(DIST)
        if rank is not None:
            (folder / f"{name}.json").write_text(json.dumps({"rank": rank}))
    return scalify_dl.verify(folder / "base.fx.txt", [folder / f"{n}.fx.txt" for n in names], mesh="tp=2")


def said_of_ranks(report: scalify_dl.Report) -> list[str]:
    return [a.said for a in report.assumptions if a.why == "spmd"]


def test_one_text_that_may_be_of_one_rank_is_assumed_to_be_of_all(tmp_path: Path) -> None:
    report = fx(tmp_path, "rank0")
    assert report.verdict.value == "PROVED"
    assert said_of_ranks(report) == ["every rank runs the one file that is given, which does not say whose it is"]
    assert "rank0.fx.txt, run by all 2 ranks, against" in report.text().splitlines()[1]


def test_the_files_of_all_ranks_need_no_such_assumption_and_are_counted(tmp_path: Path) -> None:
    report = fx(tmp_path, "rank0", "rank1")
    assert report.verdict.value == "PROVED"
    assert not said_of_ranks(report)
    assert f"{tmp_path}/rank0.fx.txt … {tmp_path}/rank1.fx.txt (2 files) against" in report.text().splitlines()[1]


def test_a_text_whose_annotation_says_all_ranks_needs_none(tmp_path: Path) -> None:
    report = fx(tmp_path, "program", rank="all")
    assert report.verdict.value == "PROVED"
    assert not said_of_ranks(report)


@pytest.mark.parametrize(
    ("header", "assumed"), [("", True), (", num_partitions=2", False), (", replica_count=2", False)]
)  # fmt: skip
def test_a_module_that_says_how_many_ranks_run_it_needs_none(tmp_path: Path, header: str, assumed: bool) -> None:
    (tmp_path / "base.hlo").write_text(HLO_BASE)
    (tmp_path / "dist.hlo").write_text(HLO_BASE.replace("HloModule base", f"HloModule dist{header}"))
    report = scalify_dl.verify(tmp_path / "base.hlo", tmp_path / "dist.hlo", mesh="tp=2")
    assert bool(said_of_ranks(report)) == assumed
    assert ("run by all 2 ranks" in report.text()) == assumed


def test_strict_stops_at_the_one_file(tmp_path: Path) -> None:
    fx(tmp_path, "rank0")
    agreed = tmp_path / "agreed.json"
    rest = {"shape", "group", "name", "position", "order", "schedule"}
    agreed.write_text(json.dumps([{"why": why} for why in rest]))
    pair = tmp_path / "base.fx.txt", tmp_path / "rank0.fx.txt"
    report = scalify_dl.verify(*pair, mesh="tp=2", strict=True, accept=agreed)
    assert report.verdict.value == "UNKNOWN"
    agreed.write_text(json.dumps([{"why": why} for why in {*rest, "spmd"}]))
    assert scalify_dl.verify(*pair, mesh="tp=2", strict=True, accept=agreed).verdict.value == "PROVED"
