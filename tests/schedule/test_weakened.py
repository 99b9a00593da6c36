"""Conditions of the rules that are needed: without them, rules and machine differ on some broken schedule."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scalify_dl.audit.schedules.campaign import campaign
from scalify_dl.pysouffle import Program, rules_dir
from scalify_dl.schedule import run

WEAKENED = [
    (
        "completion",
        "ends(r, max(t, u) + l) :- starts(r, t), pairs(s, r), starts(s, u),",
        "ends(r, t + l) :- starts(r, t), pairs(s, r),",
    ),
    (
        "completion",
        "no_wait(e, x) :- previous(e, x), !wait(e, 0, _).",
        "no_wait(e, x) :- previous(e, x).",
    ),
    (
        "completion",
        "one_wait(e, x, d) :- previous(e, x), wait(e, 0, d), !wait(e, 1, _).",
        "one_wait(e, x, d) :- previous(e, x), wait(e, 0, d).",
    ),
    (
        "completion",
        "starts(e, t) :- met(e, k, t), !wait(e, k + 1, _).",
        "starts(e, t) :- met(e, _, t).",
    ),
    (
        "completion",
        "capacity(k), n < k.",
        "capacity(k), n <= k.",
    ),
    (
        "completion",
        "recv(r, ch, n - k).",
        "recv(r, ch, n - k - 1).",
    ),
    (
        "completion",
        "ends(e, t + l) :- gathered(g, n, t), collective(e, g, n, _),",
        "ends(e, t + l) :- starts(e, t), collective(e, _, _, _),",
    ),
    (
        "matching",
        "carries(s, a, x), carries(r, a, y), x != y.",
        "carries(s, a, x), carries(r, a, y), x < y.",
    ),
    (
        "races",
        "wait(f, _, x), event(x, c, y), y >= p.",
        "wait(f, _, x), event(x, c, _).",
    ),
    (
        "races",
        "clock(f, c, y), y >= p.",
        "clock(f, c, _).",
    ),
    (
        "races",
        "examine(e, f), !through(e, f), !through(f, e).",
        "examine(e, f).",
    ),
    (
        "races",
        "l <= lo, hi <= h, q < p.",
        "l <= lo, hi <= h.",
    ),
    (
        "races",
        "l <= lo, hi <= h, q <= y.",
        "l <= lo, hi <= h.",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "old", "new"), WEAKENED, ids=[f"{f}: {old}" for f, old, _ in WEAKENED])
def test_a_rule_without_a_condition_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str
) -> None:
    shutil.copy(rules_dir() / "schedule.dl", tmp_path)
    shutil.copytree(rules_dir() / "schedule", tmp_path / "schedule")
    text = (tmp_path / "schedule" / f"{file}.dl").read_text()
    assert old in text
    (tmp_path / "schedule" / f"{file}.dl").write_text(text.replace(old, new))
    program = Program.from_file(tmp_path / "schedule.dl", include_dirs=[tmp_path])
    monkeypatch.setattr(run, "rules", lambda main: program)
    assert any(campaign(60, seed)[1] for seed in range(20))
