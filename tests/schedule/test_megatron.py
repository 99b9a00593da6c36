"""Megatron-LM's own schedules, recorded: as they are, and with messages that wait for each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import judge

pytest.importorskip("torch")
pytest.importorskip("megatron.core", reason="needs megatron-core", exc_type=ImportError)
OVERLAP = {"batch_p2p_comm": False, "overlap_p2p_comm": True}


@pytest.mark.parametrize(
    ("ranks", "chunks", "options"),
    [
        (4, 1, {}),
        (4, 1, {"deallocate_pipeline_outputs": True}),
        (4, 1, {"batch_p2p_comm": False}),
        (2, 1, {"batch_p2p_comm": False}),
        (4, 2, {}),
        (4, 2, OVERLAP),
        (4, 2, {**OVERLAP, "overlap_p2p_comm_warmup_flush": True, "deallocate_pipeline_outputs": True}),
    ],
)
def test_they_have_no_findings(tmp_path: Path, ranks: int, chunks: int, options: dict[str, Any]) -> None:
    from scalify_dl.audit.schedules.megatron import record

    result = judge(read_schedule(record(tmp_path, ranks, 8, chunks, **options)), settings("both"))
    assert (result.verdict, result.findings) == ("PROVED", [])
    assert result.stats["messages"] == 2 * 8 * (ranks * chunks - 1)


def test_receives_that_come_before_their_sends_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator

    from scalify_dl.audit.schedules.megatron import record

    def forward(self: Any, sent: Any, shapes: Any, last: bool) -> Any:
        got = self.recv_backward(shapes, last)
        self.send_forward(sent, last)
        return got

    def backward(self: Any, sent: Any, shapes: Any, first: bool) -> Any:
        got = self.recv_forward(shapes, first)
        self.send_backward(sent, first)
        return got

    monkeypatch.setattr(P2PCommunicator, "send_forward_recv_backward", forward)
    assert judge(read_schedule(record(tmp_path, 4, 8)), settings("both")).findings == []  # the other one is a batch
    monkeypatch.setattr(P2PCommunicator, "send_backward_recv_forward", backward)
    result = judge(read_schedule(record(tmp_path, 4, 8)), settings("both"))
    assert result.verdict == "REFUTED"
    assert result.findings[0].kind == "deadlock"
