"""Stages of different numbers of ranks are unknown, by name; ranks that are absent are bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.folds.draw import _plain, model
from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.plan_tables import Shape, write_plan
from scalify_dl.errors import InputError
from scalify_dl.plans.verdict import judge_plan
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict


def tables(directory: Path) -> Edited:
    return Edited(write_plan(directory / "right", model([_plain, _plain], None), Shape(tp=2, pp=2, unit=False)))


def test_a_stage_of_fewer_tp_ranks_is_unknown_by_name(tmp_path: Path) -> None:
    found = tables(tmp_path)
    found.drop([row[0] for row in found.tables["p_op"] if row[2] == "3"])
    found.tables["p_mesh"] = [row for row in found.tables["p_mesh"] if row[1] != "3"]
    report = judge_plan(found.write(tmp_path / "other"), Options(refute=False))
    assert report.verdict is Verdict.UNKNOWN
    assert "stage 0 1 copy of 2 tp ranks, stage 1 1 copy of 1 tp rank" in report.notes[0]
    assert {output.reason for output in report.outputs} == {report.notes[0]}


def test_a_rank_that_is_lost_from_the_mesh_is_bad_input(tmp_path: Path) -> None:
    found = tables(tmp_path)
    found.tables["p_mesh"] = [row for row in found.tables["p_mesh"] if row[1] != "3"]
    with pytest.raises(InputError, match="ranks are absent"):
        judge_plan(found.write(tmp_path / "other"), Options(refute=False))
