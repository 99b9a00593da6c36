"""Live schedules of torch: their own order, judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalify_dl.errors import InputError
from scalify_dl.schedule.live import judge_live, rows_of, write_live
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import judge

NAMES = (
    "ScheduleLoopedBFS", "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble",
    "ScheduleDualPipeV",
)  # fmt: skip


class Kept:
    """What has an order is a schedule."""

    def __init__(self, order: dict[int, list[str | None]]) -> None:
        self.pipeline_order = order


def stage(ranks: int, stages: int, index: int, rank_of: dict[int, int]) -> Any:
    """What schedules ask a stage."""
    pytest.importorskip("torch.distributed.pipelining")
    return type("Stage", (), {
        "group_rank": 0, "group_size": ranks, "num_stages": stages, "stage_index": index, "device": "cpu",
        "has_backward": True, "is_first": index == 0, "is_last": index == stages - 1, "group": None, "submod": None,
        "stage_index_to_group_rank": rank_of,
    })()  # fmt: skip


def live(name: str, ranks: int = 4, batches: int = 8) -> Any:
    from torch.distributed.pipelining import schedules

    v = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    stages = 2 * ranks
    rank_of = {s: (s if s < ranks else stages - 1 - s) if v else s % ranks for s in range(stages)}
    mine = [stage(ranks, stages, s, rank_of) for s in range(stages) if rank_of[s] == 0]
    return getattr(schedules, name)(mine, batches, loss_fn=lambda *a: None)


@pytest.mark.parametrize("name", NAMES)
def test_schedules_of_torch_have_no_findings(name: str) -> None:
    pytest.importorskip("torch.distributed.pipelining")
    result = judge_live(live(name))
    assert [f.text for f in result.findings if f.level == "error"] == []
    assert result.verdict in ("PROVED", "UNKNOWN")
    assert result.stats["ranks"] == 4


def test_an_order_that_waits_for_itself_is_refuted(tmp_path: Path) -> None:
    order: dict[int, list[str | None]] = {
        0: ["0F0", "0SEND_F0", None, "0RECV_B0", "0B0"], 1: ["1RECV_F0", "1F0", "1B0", "1SEND_B0"],
    }  # fmt: skip
    assert judge_live(Kept(order)).verdict == "PROVED"
    order[0] = ["0F0", "0RECV_B0", "0SEND_F0", "0B0"]
    assert judge_live(Kept(order)).findings[0].kind == "deadlock"
    write_live(Kept(order), tmp_path / "f.csv")
    assert judge(read_schedule([tmp_path / "f.csv"]), settings("both")).verdict == "REFUTED"


def test_what_has_no_order_is_bad_input() -> None:
    with pytest.raises(InputError, match="has no order"):
        rows_of(object())
    with pytest.raises(InputError, match="orders of ranks"):
        rows_of(Kept({1: ["0F0"]}))
