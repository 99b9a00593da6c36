"""Micro-batches of different sizes are not folded: UNKNOWN, by name, never another verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.folds.draw import _column_row, _twice, model
from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.plan_tables import Shape, write_plan
from scalify_dl.plans.verdict import judge_plan
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

MODEL = model([_column_row, _twice], "head")


def said(report: Report) -> str:
    return " ".join([*report.notes, *(finding.text for finding in report.findings)])


@pytest.mark.parametrize("dp", [1, 2])
def test_a_batch_that_micro_batches_do_not_share_evenly_is_unknown(tmp_path: Path, dp: int) -> None:
    plan = Edited(write_plan(tmp_path / "two", MODEL, Shape(dp=dp, tp=2, pp=1, nm=2, unit=False)))
    base = Edited(write_plan(tmp_path / "three", MODEL, Shape(dp=1, tp=2, pp=1, nm=2 * dp + 1, unit=False)))
    plan.tables |= {name: rows for name, rows in base.tables.items() if name.startswith("s_")}
    report = judge_plan(plan.write(tmp_path / "uneven"), Options())
    assert report.verdict is Verdict.UNKNOWN
    assert "even micro-batches are expected" in said(report)


@pytest.mark.parametrize("pp", [1, 2])
def test_micro_batches_of_different_sizes_are_unknown(tmp_path: Path, pp: int) -> None:
    small, large = (
        Edited(write_plan(tmp_path / str(batch), MODEL, Shape(dp=1, tp=2, pp=pp, nm=2, batch=batch, unit=False)))
        for batch in (1, 2)
    )
    base = Edited(write_plan(tmp_path / "whole", MODEL, Shape(dp=1, tp=2, pp=pp, nm=3, unit=False)))
    tables = small.tables
    tables |= {name: rows for name, rows in base.tables.items() if name.startswith("s_")}
    later = {row[4] for row in large.tables["p_tensor"] if row[3] == "1"}
    for row in tables["p_tensor"]:
        row[4] = f"b{row[4]}" if row[3] == "1" else row[4]
    parts = [row for row in large.tables["p_sub_slice"] if row[1] in later]
    fulls = {row[2] for row in parts}
    tables["p_sub_slice"] += [[row[0], f"b{row[1]}", f"b{row[2]}", *row[3:]] for row in parts]
    tables["p_sub_val"] += [[row[0], f"b{row[1]}", *row[2:]] for row in large.tables["p_sub_val"] if row[1] in later]
    tables["p_full"] += [[row[0], f"b{row[1]}", *row[2:]] for row in large.tables["p_full"] if row[1] in fulls]
    second = {row[0] for row in large.tables["p_op"] if row[3] == "1"}
    tables["p_attr"] = [row for row in tables["p_attr"] if row[0] not in second]
    tables["p_attr"] += [row for row in large.tables["p_attr"] if row[0] in second]
    report = judge_plan(small.write(tmp_path / "uneven"), Options())
    assert report.verdict is Verdict.UNKNOWN
    assert "different parts of `tokens`" in said(report)
