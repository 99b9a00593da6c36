"""Steps whose values are right, and whose ranks wait for each other: sends and receives that block, in each order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from scalify_dl import capture_step  # noqa: E402
from scalify_dl.schedule.programs import ROOM  # noqa: E402

Order = Callable[[Any, Any, int], None]


def sends_first(mine: Any, other: Any, peer: int) -> None:
    dist.send(mine, peer)
    dist.recv(other, peer)


def receives_first(mine: Any, other: Any, peer: int) -> None:
    dist.recv(other, peer)
    dist.send(mine, peer)


def in_turns(mine: Any, other: Any, peer: int) -> None:
    (receives_first if peer == 0 else sends_first)(mine, other, peer)


def sent_in_the_meantime(mine: Any, other: Any, peer: int) -> None:
    work = dist.isend(mine, peer)
    dist.recv(other, peer)
    work.wait()


def waited_for_before(mine: Any, other: Any, peer: int) -> None:
    dist.isend(mine, peer).wait()
    dist.recv(other, peer)


def in_a_batch(mine: Any, other: Any, peer: int) -> None:
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, other, peer)]):
        work.wait()


def verified(order: Order, path: Path) -> Any:
    def build(mesh: Any = None) -> Any:
        torch.manual_seed(0)

        def step(model: Any, x: Any) -> Any:
            mine = model(x).detach()
            if mesh is None:
                return {"sum": mine + mine}
            other = torch.empty_like(mine)
            order(mine, other, 1 - mesh.get_local_rank("pp"))
            return {"sum": mine + other}

        return torch.nn.Linear(4, 4), (torch.randn(2, 4),), step

    return capture_step(build, {"pp": 2}, path / "step", baseline=build).verify()


@pytest.mark.parametrize("order", [in_turns, sent_in_the_meantime, in_a_batch])
def test_an_order_in_which_messages_meet_is_proved(order: Order, tmp_path: Path) -> None:
    report = verified(order, tmp_path)
    assert report.verdict == "PROVED"
    assert not [a.text for a in report.assumptions if a.text.startswith(ROOM)]


@pytest.mark.parametrize("order", [sends_first, waited_for_before])
def test_sends_that_wait_for_each_other_are_said_to_need_room(order: Order, tmp_path: Path) -> None:
    report = verified(order, tmp_path)
    (text,) = [a.text for a in report.assumptions if a.text.startswith(ROOM)]
    assert "test_order_of_messages.py" in text


def test_receives_that_wait_for_each_other_hang(tmp_path: Path) -> None:
    report = verified(receives_first, tmp_path)
    assert report.verdict == "REFUTED"
    assert [f.kind for f in report.findings] == ["deadlock"]
