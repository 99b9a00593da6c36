"""Tables that are no plan: status 2, with the file, the line and what would be right."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl import cli

from .small import write_small
from .tables import Edited


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["dlverify", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def cell(table: str, row: int, column: int, value: str) -> Callable[[Edited], None]:
    def edit(t: Edited) -> None:
        t.tables[table][row][column] = value

    return edit


def misspelt(t: Edited) -> None:
    next(row for row in t.tables["p_op"] if row[7] == "AllReducePrim")[7] = "AllReducePrm"


BAD: dict[str, tuple[Callable[[Edited], None], str]] = {
    "an op that no row describes": (cell("p_in", 4, 0, "nobody"), "p_in.tsv:5: unknown op `nobody`"),
    "a tensor that no row describes": (cell("p_out", 0, 2, "nothing"), "p_out.tsv:1: unknown tensor `nothing`"),
    "a rank that is nowhere": (cell("p_op", 2, 2, "77"), "p_op.tsv:3: rank 77 is absent"),
    "a member that does not run": (cell("p_coll_member", 0, 2, "99"), "p_coll_member.tsv:1: rank 99 is absent"),
    "a peer that is nowhere": (cell("p_p2p", 0, 2, "99"), "p_p2p.tsv:1: rank 99 is absent"),
    "no number": (cell("p_op", 1, 4, "first"), "p_op.tsv:2:5: `first` is no number"),
    "ranks absent": (lambda t: t.tables["p_mesh"].pop() and None, "p_mesh.tsv:7: ranks are absent"),
    "two ranks at one place": (cell("p_mesh", 1, 4, "0"), "p_mesh.tsv:2: rank 1 is at (0, 0, 0)"),
    "a slice out of its tensor": (cell("p_sub_slice", 0, 5, "999"), "p_sub_slice.tsv:1: 0:999 in dim 0"),
    "a row cut off": (lambda t: t.tables["p_attr"][-1].pop() and None, "p_attr.tsv:"),
    "no size of the world": (lambda t: t.tables["p_world"].pop(2) and None, "p_world.tsv: no row says `num_dp`"),
    "a size of the world twice": (lambda t: t.tables["p_world"].append(["p", "num_dp", "4"]), "`num_dp` is "),
    "a tensor of the model twice": (lambda t: t.tables["p_full"].append(t.tables["p_full"][0]), "a second time"),
    "two weights of one name": (cell("s_full", 5, 2, "w1"), "another tensor is called `w1`, too"),
    "a gradient of two weights": (lambda t: t.tables["p_grad_of"].append(["p", "dw3", "w2@0"]), "as well"),
    "an op twice": (lambda t: t.tables["p_op"].append(t.tables["p_op"][0]), "a second time"),
    "a gap between positions": (cell("p_in", 0, 1, "3"), "p_in.tsv:"),
    "the other side's rows": (cell("p_full", 0, 0, "s"), "p_full.tsv:1: a row of side `s`"),
    "a misspelt direction": (cell("p_op", 2, 8, "fwd"), "p_op.tsv:3:9: direction `fwd`"),
    "a misspelt collective": (
        cell("p_coll", 0, 2, "AllReducePrm"), "p_coll.tsv:1:3: collective `AllReducePrm`",
    ),
    "a misspelt kind of a collective": (misspelt, "did you mean `AllReducePrim`?"),
    "a tensor of another rank": (cell("p_in", 0, 2, "p.r1.m0.h@1.v1"), "p_in.tsv:1: "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_are_told_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    edit, message = BAD[name]
    tables = Edited(write_small(tmp_path / "right"))
    edit(tables)
    assert status(monkeypatch, "plan", tables.write(tmp_path / "bad"), "--out", tmp_path / "out") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_table_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (write_small(tmp_path) / "p_coll.tsv").unlink()
    assert status(monkeypatch, "plan", tmp_path) == 2
    assert "p_coll.tsv" in capsys.readouterr().err


def test_time_is_over_while_a_plan_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(monkeypatch, "plan", write_small(tmp_path), "--timeout", "0.0001", "--json") == 3
    got = json.loads(capsys.readouterr().out)
    assert (got["verdict"], got["outputs"]) == ("UNKNOWN", [])
    assert got["notes"] == ["no time was left (--timeout) to read and fold the plan"]


def test_no_directory_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status(monkeypatch, "plan", tmp_path / "nowhere") == 2


def test_json_has_findings_with_the_keys_of_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = Edited(write_small(tmp_path / "right"))
    tables.drop(tables.ops(rank=2, mb=0, cid=6))
    assert status(monkeypatch, "plan", tables.write(tmp_path / "wrong"), "--json") == 1
    got = json.loads(capsys.readouterr().out)
    assert got["verdict"] == "REFUTED"
    assert got["counterexample"] is None
    assert {"kind", "level", "rank", "micro_batch", "op", "name", "source", "events", "text", "suggestion", "tried",
            "explains"} == set(got["findings"][0])  # fmt: skip
    assert got["outputs"][0]["reason"] == "structure"


def test_a_proof_exits_with_0_and_writes_facts_that_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(monkeypatch, "plan", write_small(tmp_path / "right"), "--out", tmp_path / "out") == 0
    assert capsys.readouterr().out.startswith("PROVED  4 of 4 outputs proved\n")
    assert status(monkeypatch, "run", tmp_path / "out") == 0
