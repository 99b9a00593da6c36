"""Programs of posts, waits and reductions: as schedules, and a few on real processes."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest

from scalify_dl.audit.schedules.scripts import Call, Script, as_schedule, broken, right
from scalify_dl.schedule.run import decide


def stuck(script: Script) -> set[int]:
    return {e for (e,) in decide(as_schedule(script)[0], 0).rows["stuck"]}


def test_programs_made_of_things_that_happen_one_after_the_other_end() -> None:
    rng = random.Random(0)
    for _ in range(30):
        assert not stuck(right(rng))


def test_broken_programs_wait_once_for_each_handle_behind_its_post() -> None:
    rng = random.Random(1)
    hang = 0
    for _ in range(30):
        script = right(rng)
        broken(script, rng)
        for calls in script.ranks:
            names = [call.handle for call in calls if call.name == "wait"]
            posts = [call.handle for call in calls if call.name in ("isend", "irecv")]
            assert sorted(names) == sorted(posts)
        hang += bool(stuck(script))
    assert 5 < hang < 25


def test_two_ranks_that_both_wait_for_their_sends_first_hang() -> None:
    ranks = [[Call("isend", 1 - r, 0, 0), Call("wait", handle=0), Call("irecv", 1 - r, 0, 1), Call("wait", handle=1)]
             for r in range(2)]  # fmt: skip
    assert stuck(Script(ranks))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_processes_hang_or_end_as_the_rules_say() -> None:
    command = [sys.executable, "-m", "scalify_dl.audit.schedules.gloo", "--count", "6", "--seconds", "40"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL,
                           cwd=Path(__file__).parents[2], check=False)  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert "0 differences" in found.stdout
