"""Calls of one communicator meet in their order; what a receiving op calls its operand is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy")

from scalify_dl.audit.folds.compare import outcome
from scalify_dl.audit.folds.draw import _column_row, _gated, model
from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.plan_tables import Shape, write_plan
from scalify_dl.plans.repeated import read_repeated
from scalify_dl.plans.verdict import judge_plan
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict


@pytest.mark.parametrize("nm", [1, 2])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("ep", [1, 2])
def test_reducers_of_one_group_in_another_order_on_one_rank_are_refuted(
    tmp_path: Path, nm: int, unit: bool, ep: int
) -> None:
    shape = Shape(dp=4, tp=1, pp=2, nm=nm, ep=ep, unit=unit)
    tables = Edited(write_plan(tmp_path / "right", model([_column_row, _gated], "head"), shape))
    rank = "0" if unit and ep == 1 else "2"  # of one copy that is written alone, all others do the same
    first, second = [row for row in tables.tables["p_op"] if row[2] == rank and row[7] == "reducer"][:2]
    first[4], second[4] = second[4], first[4]
    wrong = tables.write(tmp_path / "wrong")
    found, verdict = outcome(wrong), judge_plan(wrong, Options(refute=False)).verdict
    assert found.mismatches == []
    if rank == "0":
        assert (verdict, found.runs) == (Verdict.PROVED, "right")
    else:
        assert (verdict, found.runs) == (Verdict.REFUTED, "stuck")


def test_what_a_receiving_op_calls_its_operand_is_not_read(tmp_path: Path) -> None:
    tables = Edited(write_plan(tmp_path / "right", model([_column_row, _gated], "head"), Shape(1, 2, 2, 2, unit=False)))
    rank_of = {row[0]: row[2] for row in tables.tables["p_op"]}
    receive = next(row for row in tables.tables["p_p2p"] if row[2] == rank_of[row[0]])
    rank = receive[2]
    made = {row[2]: row[0] for row in tables.tables["p_out"]}
    later = [row[0] for row in tables.tables["p_tensor"] if row[2] == rank and row[0] in made]
    tables.of("p_in", receive[0])[0][2] = later[-1]
    found = outcome(tables.write(tmp_path / "odd"))
    assert (found.verdict, found.runs, found.mismatches) == ("PROVED", "right", [])
    assert read_repeated(tmp_path / "odd") is None
