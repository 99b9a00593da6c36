"""Plans that are written out: where all copies and micro-batches do the same, one of them stands for all."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from scalify_dl.audit.folds.draw import _across, _column_row, _gated, _norm, model
from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.folds.rows import CHANGES, seen
from scalify_dl.audit.plan_tables import Shape, write_plan
from scalify_dl.plans.prepare import REPEATED, prepare, prepare_repeated
from scalify_dl.plans.repeated import read_repeated
from scalify_dl.plans.verdict import judge_plan, report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict

SHAPE = Shape(dp=2, tp=2, pp=2, nm=2, unit=False)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of two stages, all ranks and micro-batches written out."""
    return write_plan(tmp_path_factory.mktemp("plan"), model([_column_row, _gated], "head"), SHAPE)


def test_a_regular_plan_is_proved_by_its_unit_form_without_assuming_it(written: Path) -> None:
    prepared = prepare_repeated(written)
    assert prepared is not None
    assert (prepared.world.copies, prepared.world.written) == (1, 1)
    report = report_on(prepared, Options(refute=False))
    assert report.verdict is Verdict.PROVED
    assert REPEATED in report.notes
    assert not [row for row in prepared.facts["assume"] if row[2] == "unit form"]
    whole = report_on(prepare(written), Options(refute=False))
    assert {o.name for o in report.outputs} == {o.name for o in whole.outputs}


def test_copies_that_share_weights_out_stay_together(tmp_path: Path) -> None:
    shape = Shape(dp=4, ep=2, tp=1, pp=1, nm=2, unit=False)
    found = read_repeated(write_plan(tmp_path, model([_across], None), shape))
    assert found is not None
    assert len(found.unit.places) == 2
    assert judge_plan(tmp_path, Options(refute=False)).verdict is Verdict.PROVED


def test_one_copy_and_one_micro_batch_stand_for_nothing(tmp_path: Path) -> None:
    write_plan(tmp_path, model([_column_row], None), Shape(dp=1, tp=2, pp=1, nm=1, unit=False))
    assert read_repeated(tmp_path) is None


@pytest.mark.parametrize("seed", range(48))
def test_no_row_of_any_copy_or_micro_batch_can_be_changed_unseen(written: Path, tmp_path: Path, seed: int) -> None:
    tables = Edited(written)
    name = list(CHANGES)[seed % len(CHANGES)]
    text = CHANGES[name](tables, random.Random(seed))
    assert seen(tables.write(tmp_path / "changed")), text


CELLS = {
    "p_op": (2, 3, 4, 6, 7, 8), "p_in": (2,), "p_out": (2,), "p_tensor": (2, 3, 4, 6), "p_attr": (1, 3),
    "p_const": (2, 3), "p_coll": (2, 3), "p_coll_member": (2,), "p_p2p": (1, 2), "p_adapter": (2,), "p_wred": (2,),
}  # fmt: skip


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of two copies and one micro-batch: where the copies are not alike, nothing stands for all."""
    shape = Shape(dp=2, tp=2, pp=2, nm=1, unit=False)
    return write_plan(tmp_path_factory.mktemp("plan"), model([_column_row, _norm], "head"), shape)


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in CELLS.items() for c in columns])
def test_a_cell_of_the_last_copy_makes_a_plan_irregular(copies: Path, tmp_path: Path, table: str, column: int) -> None:
    assert read_repeated(copies) is not None
    tables = Edited(copies)
    rows = tables.tables[table]
    pairs = ((row, other[column]) for row in reversed(rows) for other in rows if row[column] != other[column])
    row, value = next(pairs, (rows[-1], f"{rows[-1][column]}1"))
    row[column] = value
    assert read_repeated(tables.write(tmp_path / "changed")) is None


@pytest.mark.parametrize("table", ["p_op", "p_in", "p_tensor", "p_coll_member", "p_p2p", "p_mesh", "p_sub_slice"])
def test_a_lost_row_makes_a_plan_irregular(copies: Path, tmp_path: Path, table: str) -> None:
    tables = Edited(copies)
    tables.tables[table].pop()
    assert read_repeated(tables.write(tmp_path / "changed")) is None


def test_tables_that_cannot_be_read_are_read_the_long_way(copies: Path, tmp_path: Path) -> None:
    shutil.copytree(copies, tmp_path / "cut")
    (tmp_path / "cut" / "p_op.tsv").unlink()
    assert read_repeated(tmp_path / "cut") is None
    (tmp_path / "cut" / "p_op.tsv").mkdir()
    assert read_repeated(tmp_path / "cut") is None
    shutil.rmtree(tmp_path / "cut")
    shutil.copytree(copies, tmp_path / "cut")
    file = tmp_path / "cut" / "p_const.tsv"
    file.write_bytes(file.read_bytes()[:-3])
    assert read_repeated(tmp_path / "cut") is None
