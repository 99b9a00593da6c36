"""What one rank does besides, and others do not: right where it changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.plan_tables import llama, write_plan
from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .test_generated import LLAMA, shape


def inserted(t: Edited, op: str, pos: int, kind: str, constant: str = "") -> None:
    """An op before an operand of another one."""
    rows = t.tables["p_op"]
    at = next(n for n, row in enumerate(rows) if row[0] == op)
    new = f"{op}.before"
    (read,) = [row for row in t.of("p_in", op) if row[1] == str(pos)]
    (tensor,) = [row for row in t.tables["p_tensor"] if row[0] == read[2]]
    made = f"{tensor[0]}.{new}"
    t.tables["p_tensor"].append([made, *tensor[1:5], str(int(tensor[5]) + 100), "0"])
    t.tables["p_in"].append([new, "0", read[2]])
    t.tables["p_out"].append([new, "0", made])
    read[2] = made
    if constant:
        t.tables["p_const"].append([new, "0", "float", constant])
    _, side, rank, mb, seq, cid, *_, direction = rows[at]
    rows.insert(at, [new, side, rank, mb, str(int(seq) - 1), str(int(cid) + 5000), kind, kind, direction])


def edited(folder: Path, *, ranks: list[str], reader: str, pos: int, kind: str, constant: str = "") -> Report:
    t = Edited(write_plan(folder / "before", llama(LLAMA), shape(unit=False)))
    for row in t.tables["p_op"]:
        row[4] = str(2 * int(row[4]))
    for op in [row[0] for row in t.tables["p_op"] if row[2] in ranks and row[7:9] == [reader, "fw"]]:
        inserted(t, op, pos, kind, constant)
    return report_on(prepare(t.write(folder / "after")), Options(refute=kind == "mul"))


@pytest.mark.parametrize("ranks", [["0"], ["0", "1", "4"]], ids=["one rank", "most ranks"])
@pytest.mark.parametrize("kind", ["IdentityPrim", "identity"])
@pytest.mark.parametrize(("reader", "pos"), [("silu", 0), ("linear", 1)], ids=["an activation", "a weight"])
def test_an_identity_on_some_ranks_changes_nothing(
    tmp_path: Path, ranks: list[str], kind: str, reader: str, pos: int
) -> None:
    report = edited(tmp_path, ranks=ranks, reader=reader, pos=pos, kind=kind)
    assert report.verdict is Verdict.PROVED
    assert {finding.kind for finding in report.findings} <= {"extra", "segment", "operand"}
    assert {finding.level for finding in report.findings} == {"difference"}


@pytest.mark.parametrize(
    ("kind", "constant", "verdict"),
    [("mul", "1.0", Verdict.PROVED), ("add", "0.0", Verdict.PROVED), ("add", "1.0", Verdict.UNKNOWN)],
)
def test_a_neutral_op_on_one_rank_changes_nothing(tmp_path: Path, kind: str, constant: str, verdict: Verdict) -> None:
    report = edited(tmp_path, ranks=["0"], reader="silu", pos=0, kind=kind, constant=constant)
    assert report.verdict is verdict


def test_a_scale_on_one_rank_is_refuted(tmp_path: Path) -> None:
    report = edited(tmp_path, ranks=["0"], reader="silu", pos=0, kind="mul", constant="1.5")
    assert report.verdict is Verdict.REFUTED
