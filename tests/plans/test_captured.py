"""Live schedules of torch, captured with their plan files: right ones are proved, wrong ones refuted."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.plans.described import read_described, report_on_described
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

pytestmark = pytest.mark.slow

SCHEDULES = (
    "ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble",
    "ScheduleZBVZeroBubble", "ScheduleDualPipeV",
)  # fmt: skip
ERRORS = (
    "gradients not scaled", "no accumulation", "stages in the wrong order", "a stale activation",
    "a gradient not reduced", "copies added up", "loss averaged twice", "targets in another order",
    "the last loss only", "a micro-batch twice", "an activation of the run that tells shapes",
)  # fmt: skip


def captured(folder: Path, name: str, mesh: dict[str, int], batches: int, error: str = "") -> Report:
    pytest.importorskip("torch.distributed.pipelining")
    from scalify_dl import capture_step

    from .captured import builders

    build, baseline = builders(name, mesh, batches, error)
    capture_step(build, mesh, folder / "net", baseline=baseline)
    return report_on_described(read_described(folder / "net.plan.yaml"), Options())


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_live_schedule_is_proved(tmp_path: Path, name: str) -> None:
    report = captured(tmp_path, name, {"pp": 2, "dp": 2, "tp": 2}, 4)
    assert report.verdict is Verdict.PROVED
    assert report.picture


def test_the_schedule_is_what_ran(tmp_path: Path) -> None:
    captured(tmp_path, "Schedule1F1B", {"pp": 2, "dp": 1, "tp": 1}, 3)
    assert (tmp_path / "net.schedule.csv").read_text("utf-8") == "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"


def test_stages_that_torch_cuts_are_proved(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed.pipelining")
    from scalify_dl import capture_step

    from .captured import traced

    build, baseline = traced()
    capture_step(build, {"pp": 2}, tmp_path / "net", baseline=baseline)
    report = report_on_described(read_described(tmp_path / "net.plan.yaml"), Options())
    assert report.verdict is Verdict.PROVED


@pytest.mark.parametrize("error", ERRORS)
def test_a_wrong_pipeline_is_refuted(tmp_path: Path, error: str) -> None:
    report = captured(tmp_path, "ScheduleGPipe", {"pp": 2, "dp": 2, "tp": 1}, 2, error)
    assert report.verdict is Verdict.REFUTED
