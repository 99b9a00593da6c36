"""Files of ranks: in the order that captures say, and never in one that their names contradict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import export
from scalify_dl.readers.rank_files import RankOf, in_order

TP4, DP2TP2 = Mesh.parse("tp=4"), Mesh.parse("dp=2,tp=2")
NONE = [None] * 4


@pytest.mark.parametrize(
    "names",
    [
        ["r0", "r1", "r2", "r3"],
        ["rank1.txt", "rank2.txt", "rank3.txt", "rank4.txt"],
        ["a_r0w4", "a_r1w4", "a_r2w4", "a_r3w4"],
        ["n0/d0", "n0/d1", "n1/d0", "n1/d1"],
        ["n0/r0", "n0/r1", "n1/r2", "n1/r3"],
        ["g.1203", "g.1207", "g.1211", "g.1233"],
        ["tp0", "tp1", "tp2", "tp3"],
        ["embed.r0", "mid.r1", "mid.r2", "head.r3"],
        ["a", "b", "c", "d"],
    ],
)
def test_names_that_tell_no_other_order(names: list[str]) -> None:
    assert in_order(names, NONE, TP4) == names


@pytest.mark.parametrize(
    "names",
    [
        ["emb.r0.fx.txt", "emb.r1.fx.txt", "emb.r10.fx.txt", "emb.r2.fx.txt"],
        ["r3", "r2", "r1", "r0"],
        ["r0", "r1", "r3", "r4"],
        ["r0", "r1", "r2", "r2"],
        ["n1/r0", "n1/r1", "n0/r0", "n0/r1"],
        ["embed.r0", "mid.r2", "mid.r1", "head.r3"],
        ["tp1", "tp2", "tp3", "tp4"],
    ],
)
def test_names_that_tell_another_order_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        in_order(names, NONE, TP4)
    assert caught.value.file in names
    assert caught.value.expected


def test_axes_in_names_are_coordinates() -> None:
    right = ["tp0-dp0", "tp1-dp0", "tp0-dp1", "tp1-dp1"]
    assert in_order(right, NONE, DP2TP2) == right
    with pytest.raises(InputError):
        in_order(sorted(right), NONE, DP2TP2)


def test_captures_say_their_rank() -> None:
    names = ["a", "b", "c", "d"]
    ranks = [RankOf(n, 4, (("tp", 4),)) for n in (2, 0, 3, 1)]
    assert in_order(names, ranks, TP4) == ["b", "d", "a", "c"]
    assert in_order(["x.r10", "x.r2"], [RankOf(1, 2), RankOf(0, 2)], Mesh.parse("tp=2")) == ["x.r2", "x.r10"]
    renamed = [RankOf(n, 4, (("model", 4),)) for n in range(4)]
    assert in_order(names, renamed, TP4) == names


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([RankOf(0, 4), RankOf(1, 4), RankOf(1, 4), RankOf(3, 4)], "is of rank 1, too"),
        ([RankOf(0, 8)] * 4, "captured as rank 0 of 8 ranks, --mesh is tp=4"),
        ([RankOf(n, 4, (("tp", 2), ("dp", 2))) for n in range(4)], "captured as rank 0 of tp=2,dp=2"),
        ([RankOf(0, 4), None, None, None], "no capture says which rank"),
        ([RankOf(0, 4)], "the program of rank 0 of 4 alone: rank 1, 2, 3 is missing"),
    ],
)
def test_ranks_that_are_missing_or_stand_twice(ranks: list[RankOf | None], message: str) -> None:
    with pytest.raises(InputError, match=message):
        in_order(["a", "b", "c", "d"][: len(ranks)], ranks, TP4)


def test_one_file_given_for_two_ranks_is_refused() -> None:
    with pytest.raises(InputError, match="is of rank 0, too"):
        in_order(["a", "a"], [RankOf(0, 2)] * 2, Mesh.parse("tp=2"))


def test_axes_in_another_order_are_another_mesh() -> None:
    ranks = [RankOf(n, 4, (("tp", 2), ("dp", 2))) for n in range(4)]
    with pytest.raises(InputError, match=r"--mesh is dp=2,tp=2"):
        in_order(["a", "b", "c", "d"], ranks, DP2TP2)


TEXT = """\
class f(torch.nn.Module):
    def forward(self, table: "f32[{rows}, 2]", ids: "i64[3]"):
        sub: "i64[3]" = torch.ops.aten.sub.Tensor(ids, {start})
        return (sub,)
"""


def test_the_json_beside_a_dump_says_the_rank(tmp_path: Path) -> None:
    """Twelve ranks in the order of a shell."""
    (tmp_path / "base.fx.txt").write_text(TEXT.format(rows=24, start=0))
    for rank in range(12):
        (tmp_path / f"e.r{rank}.fx.txt").write_text(TEXT.format(rows=2, start=2 * rank))
    files = sorted(tmp_path.glob("e.*.fx.txt"))
    assert [file.name for file in files][1:3] == ["e.r1.fx.txt", "e.r10.fx.txt"]
    with pytest.raises(InputError, match="tell another order"):
        export(tmp_path / "base.fx.txt", files, "tp=12")
    for rank in range(12):
        (tmp_path / f"e.r{rank}.json").write_text(json.dumps({"rank": rank, "mesh": {"tp": 12}}))
    facts = export(tmp_path / "base.fx.txt", files, "tp=12")
    assert [row[4] for row in facts["rank_number"]] == [2 * rank for rank in range(12)]
    with pytest.raises(InputError, match="the program of rank 0 of 12 alone"):
        export(tmp_path / "base.fx.txt", files[:1], "tp=12")


@pytest.mark.parametrize(
    "note", [{"rank": 4, "mesh": {"tp": 4}}, {"rank": 0, "world": 8, "mesh": {"tp": 4}}, {"rank": "0"}]
)
def test_ranks_that_no_mesh_has(tmp_path: Path, note: dict[str, object]) -> None:
    (tmp_path / "base.fx.txt").write_text(TEXT.format(rows=24, start=0))
    (tmp_path / "d.fx.txt").write_text(TEXT.format(rows=24, start=0))
    (tmp_path / "d.json").write_text(json.dumps(note))
    with pytest.raises(InputError, match=r"d\.json"):
        export(tmp_path / "base.fx.txt", tmp_path / "d.fx.txt", "tp=4")
