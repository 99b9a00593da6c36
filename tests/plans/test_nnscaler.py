"""Plan objects as nnScaler has them, written as tables: stand-ins with the attributes that the exporter reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.plans.nnscaler import export_plan
from scalify_dl.plans.verdict import judge_plan
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .standins import AllReduceIdentityPrim, IRAdapter, step


def verified(directory: Path) -> Report:
    return judge_plan(directory, Options(refute=False))


@pytest.mark.parametrize(("micro_batches", "ways", "copies"), [(1, 1, 1), (1, 2, 1), (2, 2, 1), (3, 2, 4)])
def test_a_right_plan_is_proved(tmp_path: Path, micro_batches: int, ways: int, copies: int) -> None:
    base, sequences = step(micro_batches, ways, copies)
    places = {rank: (0, 0, rank) for rank in range(ways)}
    export_plan(tmp_path, base, sequences, places, micro_batches=micro_batches, ranks=ways * copies)
    report = verified(tmp_path)
    assert (report.verdict, report.findings) == (Verdict.PROVED, [])
    assert [output.name for output in report.outputs] == ["loss", "w2", "w1"]


def test_what_runs_is_written_not_what_should(tmp_path: Path) -> None:
    base, sequences = step(2, 2, 1)
    segment = sequences[1][1].cell
    segment.cells = [cell for cell in segment.cells if not isinstance(cell, IRAdapter)]
    export_plan(tmp_path, base, sequences, {0: (0, 0, 0), 1: (0, 0, 1)}, micro_batches=2)
    report = verified(tmp_path)
    assert report.verdict is Verdict.REFUTED
    assert report.findings[0].kind == "segment"


def test_a_backward_that_is_left_out_is_missed(tmp_path: Path) -> None:
    base, sequences = step(2, 2, 1)
    sequences[0] = [cell for n, cell in enumerate(sequences[0]) if n != 5]
    export_plan(tmp_path, base, sequences, {0: (0, 0, 0), 1: (0, 0, 1)}, micro_batches=2)
    report = verified(tmp_path)
    assert report.verdict is not Verdict.PROVED
    assert (report.findings[0].kind, report.findings[0].rank, report.findings[0].micro_batch) == ("segment", 0, 1)


def test_other_members_are_written_as_they_are(tmp_path: Path) -> None:
    base, sequences = step(1, 2, 1)
    (adapter,) = [cell for cell in sequences[1][1].cell.cells if isinstance(cell, IRAdapter)]
    (prim,) = adapter.prims
    assert isinstance(prim, AllReduceIdentityPrim)
    prim.kwargs["ranks"] = [1]
    export_plan(tmp_path, base, sequences, {0: (0, 0, 0), 1: (0, 0, 1)}, micro_batches=1)
    assert verified(tmp_path).verdict is Verdict.REFUTED


def test_a_rank_without_a_place_is_refused(tmp_path: Path) -> None:
    base, sequences = step(1, 2, 1)
    with pytest.raises(InputError, match="no place"):
        export_plan(tmp_path, base, sequences, {0: (0, 0, 0)}, micro_batches=1)
    with pytest.raises(InputError, match="no copies"):
        export_plan(tmp_path, base, sequences, {0: (0, 0, 0), 1: (0, 0, 1)}, micro_batches=1, ranks=3)
