"""Recorded plans of a training step, and what goes wrong with them when tables are edited."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .bugs import ACCEPTED_ELSEWHERE, BUGS
from .tables import Edited

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "plans"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the recorded plans (../shared/data/plans) are not here")


def verified(directory: Path, *, refute: bool = False) -> Report:
    return report_on(prepare(directory), Options(refute=refute))


@pytest.mark.parametrize("name", ["ly2", "base"])
def test_recorded_plans_are_proved(name: str) -> None:
    report = verified(DATA / name)
    assert (report.verdict, len(report.outputs), report.findings) == (Verdict.PROVED, 22, [])
    assert {"loss", "layers.1.feed_forward.w2.weight", "tok_embeddings.weight"} <= {o.name for o in report.outputs}


@pytest.mark.parametrize(
    ("name", "blamed", "kind"),
    [("bug1", "cid 987", "declared"), ("bug2", "cid 48", "undefined"), ("bug7", "cid 6", "constant"),
     ("bug14", "cid 218", "segment")],
)  # fmt: skip
def test_recorded_bugs_are_refuted_and_the_edited_op_is_told_first(name: str, blamed: str, kind: str) -> None:
    report = verified(DATA / name, refute=True)
    assert report.verdict is Verdict.REFUTED
    assert blamed in report.findings[0].name
    assert report.findings[0].kind == kind
    if name == "bug14":
        assert len(report.findings) == 1
        assert report.findings[0].explains


@pytest.mark.parametrize("name", [*BUGS, *ACCEPTED_ELSEWHERE])
def test_no_wrong_plan_is_proved_and_the_edited_op_is_told_first(tmp_path: Path, name: str) -> None:
    edit, blamed = (BUGS | ACCEPTED_ELSEWHERE)[name]
    tables = Edited(DATA / "ly2")
    edit(tables)
    report = verified(tables.write(tmp_path))
    assert report.verdict is not Verdict.PROVED
    assert any(text in report.findings[0].name for text in blamed)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_all_fourteen_are_refuted(tmp_path: Path, name: str) -> None:
    tables = Edited(DATA / "ly2")
    BUGS[name][0](tables)
    assert verified(tables.write(tmp_path), refute=True).verdict is Verdict.REFUTED
