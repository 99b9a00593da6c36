"""Recorded runs of ranks: what they post, wait for and compute, judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.errors import InputError
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import Result, judge

torch = pytest.importorskip("torch")


def judged(tmp_path: Path, step: Callable[[int], Any], world: int = 2, streams: str = "pair") -> Result:
    """A step that every rank runs."""
    from scalify_dl.capture.torch.timeline import recording

    files = []
    for rank in range(world):
        with recording(rank, world) as run:
            step(rank)
        files.append(tmp_path / f"run_{rank}.json")
        run.write(files[-1])
    return judge(read_schedule(files, streams=streams), settings("both"))


def passed(*, wait: bool = True) -> Callable[[int], Any]:
    def step(rank: int) -> Any:
        dist = torch.distributed
        x = torch.ones(4)
        if rank == 0:
            y = x * 2
            sent = dist.isend(y, 1)
            if wait:
                sent.wait()
            y.add_(1)
            return sent.wait() if not wait else None
        got = torch.empty(4)
        dist.recv(got, 0)
        return got + x

    return step


def test_a_message_that_is_awaited_is_fine(tmp_path: Path) -> None:
    result = judged(tmp_path, passed())
    assert (result.verdict, result.findings, result.stats["messages"]) == ("PROVED", [], 1)


def test_a_tensor_that_is_written_while_it_is_sent_is_a_race_with_its_line(tmp_path: Path) -> None:
    result = judged(tmp_path, passed(wait=False))
    assert [f.kind for f in result.findings] == ["race"]
    lines = Path(__file__).read_text().splitlines()
    places = [int(e.source.rpartition(":")[2]) for e in result.findings[0].events]
    assert any("y.add_(1)" in lines[n - 1] for n in places)


def test_parts_of_one_tensor_are_told_apart(tmp_path: Path) -> None:
    def step(rank: int, part: int) -> None:
        x = torch.ones(4, 4)
        if rank == 0:
            sent = torch.distributed.isend(x[:, 0].t() if part < 0 else x[1], 1)
            x[part % 4].mul_(2)
            sent.wait()
        else:
            torch.distributed.recv(torch.empty(4), 0)

    assert judged(tmp_path, lambda rank: step(rank, 2)).verdict == "PROVED"
    assert judged(tmp_path, lambda rank: step(rank, 1)).findings[0].kind == "race"
    assert judged(tmp_path, lambda rank: step(rank, -1)).findings[0].kind == "race"


def test_ranks_that_both_receive_first_hang_and_a_batch_does_not(tmp_path: Path) -> None:
    def first(rank: int) -> None:
        x, y = torch.ones(4), torch.empty(4)
        torch.distributed.recv(y, 1 - rank)
        torch.distributed.send(x, 1 - rank)

    def batch(rank: int) -> None:
        dist = torch.distributed
        x, y = torch.ones(4), torch.empty(4)
        posts = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
        for work in dist.batch_isend_irecv(posts if rank else posts[::-1]):
            work.wait()
        dist.all_reduce(y)

    assert judged(tmp_path, first).findings[0].kind == "deadlock"
    assert judged(tmp_path, batch).verdict == "PROVED"


def test_collectives_that_differ_are_a_mismatch(tmp_path: Path) -> None:
    def step(rank: int) -> None:
        x = torch.ones(4)
        torch.distributed.all_reduce(x, torch.distributed.ReduceOp.MAX if rank else torch.distributed.ReduceOp.SUM)

    (finding,) = judged(tmp_path, step).findings
    assert finding.kind == "mismatch"
    assert "the reducer is max here, sum there" in finding.text


def test_an_asynchronous_result_that_is_read_before_its_wait_races(tmp_path: Path) -> None:
    def step(rank: int) -> None:
        x = torch.ones(4)
        work = torch.distributed.all_reduce(x, async_op=True)
        y = x + 1
        work.wait()
        y.add_(x)

    assert [f.kind for f in judged(tmp_path, step).findings] == ["race"]


def test_what_is_overwritten_is_not_read_and_what_is_added_to_is(tmp_path: Path) -> None:
    def fills(rank: int) -> None:
        a, b = torch.empty(4), torch.empty(4)
        a.uniform_()
        b.copy_(a)
        torch.add(a, b, out=torch.empty(4))
        torch.ones_like(torch.empty(4)).add_(b)
        torch.nn.Linear(4, 4)

    assert judged(tmp_path, fills).findings == []
    (finding,) = judged(tmp_path, lambda rank: torch.empty(4).add_(1)).findings
    assert finding.kind == "unread"


def test_bad_files_are_told(tmp_path: Path) -> None:
    judged(tmp_path, passed())
    files = [tmp_path / "run_0.json", tmp_path / "run_1.json"]
    with pytest.raises(InputError, match="runs of ranks"):
        read_schedule(files[:1])
    with pytest.raises(InputError, match="given twice"):
        read_schedule([files[0], files[0]])
    whole = files[0].read_text()
    changes = {"another version": ('"version": 1', '"version": 2'), "is no action": ('"wait"', '"hop"'),
               "not JSON": ("\n]}", "\n]"), "KeyError": ('"peer": 1, ', "")}  # fmt: skip
    for said, (old, new) in changes.items():
        assert old in whole
        files[0].write_text(whole.replace(old, new))
        with pytest.raises(InputError, match=said):
            read_schedule(files)
    json.loads(whole)
