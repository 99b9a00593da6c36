"""`dlverify watch` says a verdict at every change of what is read, the one that `verify` would say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scalify_dl.commands import watch as command
from scalify_dl.errors import InputError
from scalify_dl.families.capture import Capture
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report

PAIR = Path(__file__).parents[2] / "examples" / "hlo"


@pytest.fixture
def pair(tmp_path: Path) -> Capture:
    for name in ("base.hlo", "dist.hlo", "relations.yaml"):
        shutil.copy(PAIR / name, tmp_path)
    return Capture(tmp_path / "base.hlo", (tmp_path / "dist.hlo",), "tp=2", tmp_path / "relations.yaml")


def verdicts(pair: Capture, changes: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said, errors too, where the distributed program becomes each of these texts in turn."""
    (dist,) = pair.dist
    said: list[str] = []
    left = iter(changes)

    def told(report: Report, options: Options) -> int:
        said.append(report.verdict.value)
        return report.verdict.exit_code

    def looked(pause: float) -> None:
        """Between looks at the files, of which there are two before a change is taken up."""
        if settling:
            settling.clear()
            return
        fresh = dist.with_name("fresh")
        fresh.write_text(next(left), "utf-8")
        fresh.replace(dist)
        settling.append(True)

    settling: list[bool] = []
    monkeypatch.setattr(command, "print_report", told)
    monkeypatch.setattr(command.time, "sleep", looked)
    command.watch(pair, Options(refute=False), len(changes) + 1)
    return said


def test_every_change_is_verified(pair: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    right = pair.dist[0].read_text("utf-8")
    wrong = right.replace("all-reduce(", "copy(", 1)
    assert wrong != right
    assert verdicts(pair, [wrong, right + "\n"], monkeypatch) == ["PROVED", "UNKNOWN", "PROVED"]


def test_what_is_half_written_is_told_and_waited_for(
    pair: Capture, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = pair.dist[0].read_text("utf-8")
    assert verdicts(pair, [right[: len(right) // 2], right], monkeypatch) == ["PROVED", "PROVED"]
    assert "truncated" in capsys.readouterr().err


def test_a_file_that_is_not_there_at_first_is_bad_input(pair: Capture) -> None:
    pair.dist[0].unlink()
    with pytest.raises(InputError, match="cannot read"):
        command.watch(pair, Options(), None)
