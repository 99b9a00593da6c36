"""Recorded steps of torch's pipelines with an optimiser on shards (ZeRO-1): right ones proved, wrong ones not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.plans.described import read_described, report_on_described
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

pytestmark = pytest.mark.slow


def captured(folder: Path, name: str, error: str = "", *, in_place: bool = False) -> Report:
    pytest.importorskip("torch.distributed.pipelining")
    from scalify_dl import capture_step

    from .captured_optimiser import builders

    mesh = {"pp": 2, "dp": 2}
    build, baseline = builders(name, mesh, 2, error, in_place=in_place)
    capture_step(build, mesh, folder / "net", baseline=baseline)
    return report_on_described(read_described(folder / "net.plan.yaml"), Options())


@pytest.mark.parametrize("name", ["ScheduleGPipe", "Schedule1F1B"])
def test_an_optimiser_on_shards_is_proved(tmp_path: Path, name: str) -> None:
    report = captured(tmp_path, name)
    assert report.verdict is Verdict.PROVED
    assert sum("new" in output.name for output in report.outputs) == 8


@pytest.mark.filterwarnings("ignore:.*reduce_scatter_tensor:FutureWarning")
@pytest.mark.parametrize("error", ["", "copies added up", "gathered in another order"])
def test_collectives_within_one_buffer(tmp_path: Path, error: str) -> None:
    report = captured(tmp_path, "ScheduleGPipe", error, in_place=True)
    assert report.verdict is (Verdict.REFUTED if error else Verdict.PROVED)


@pytest.mark.parametrize(
    "error",
    [
        "own gradients", "copies added up", "one shard of the weight", "a scale on one copy",
        "gathered in another order",
    ],
)  # fmt: skip
def test_a_wrong_optimiser_on_shards_is_refuted(tmp_path: Path, error: str) -> None:
    assert captured(tmp_path, "ScheduleGPipe", error).verdict is Verdict.REFUTED
