"""Certificates of schedules replay against the files they are about, and against nothing else."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scalify_dl.cli import app

from .orders import moved, one_f_one_b, with_messages, written


def run(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def certified(tmp_path: Path, orders: list[list[str]], *options: object) -> tuple[Path, Path, int]:
    file = written(tmp_path / "s.csv", orders)
    proof = tmp_path / "s.proof"
    return file, proof, run("schedule", file, "--certificate", proof, *options).exit_code


def test_a_proved_schedule_is_accepted_again(tmp_path: Path) -> None:
    file, proof, status = certified(tmp_path, with_messages(one_f_one_b(3, 4)), "--durations", "F=3")
    assert status == 0
    found = run("check", proof, file)
    assert (found.exit_code, found.stdout.split(",")[0]) == (0, "accepted: PROVED")
    assert json.loads(run("check", proof, file, "--json").stdout)["verdict"] == "PROVED"


def test_what_hangs_is_accepted_as_hanging(tmp_path: Path) -> None:
    orders = with_messages(one_f_one_b(2, 2))
    moved(orders[0], "0RECV_B0", "0SEND_F1")
    moved(orders[0], "0B0", "0SEND_F1")
    file, proof, status = certified(tmp_path, orders)
    assert status == 1
    assert run("check", proof, file).stdout.startswith("accepted: REFUTED")


def test_it_is_about_its_own_files_and_settings(tmp_path: Path) -> None:
    orders = with_messages(one_f_one_b(2, 3))
    file, proof, _ = certified(tmp_path, orders)
    other = written(tmp_path / "t.csv", with_messages(one_f_one_b(2, 4)))
    found = run("check", proof, other)
    assert found.exit_code == 3
    assert "other facts" in found.stderr
    assert run("check", tmp_path / "s.csv", file).exit_code == 3
    assert "no such certificate" in str(run("check", tmp_path / "none", file).exception)


Change = Callable[[list[dict[str, Any]]], None]


def forge(proof: Path, change: Change) -> None:
    lines = [json.loads(line) for line in gzip.decompress(proof.read_bytes()).splitlines()]
    change(lines[1:])
    body = "".join(json.dumps(line) + "\n" for line in lines[1:] if line).encode()
    lines[0]["sha256"] = hashlib.sha256(body).hexdigest()
    proof.write_bytes(gzip.compress(json.dumps(lines[0]).encode() + b"\n" + body))


FORGED: dict[str, Change] = {
    "a stuck event is left out": lambda lines: lines[1]["derived"]["stuck"].pop(),
    "no event is stuck": lambda lines: lines[1]["derived"].update({kind: [] for kind in ("stuck", "head")}),
    "the verdict": lambda lines: lines[0].update(verdict="PROVED"),
    "a run is left out": lambda lines: lines[2].clear(),
    "one run only, as if nothing else was asked": lambda lines: (lines[0]["schedule"].update(sends=[0]), None)[1],
    "the rules": lambda lines: lines[0]["rules"].update({"schedule/completion.dl": "0"}),
    "an assumption": lambda lines: lines[0]["assumptions"].append("nothing hangs"),
    "a relation that there is not": lambda lines: lines[1]["derived"].update(fine=[[1]]),
    "no runs": lambda lines: [line.clear() for line in lines[1:]].clear(),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_one_is_rejected(tmp_path: Path, what: str) -> None:
    orders = with_messages(one_f_one_b(2, 2))
    moved(orders[0], "0RECV_B0", "0SEND_F1")
    moved(orders[0], "0B0", "0SEND_F1")
    file, proof, _ = certified(tmp_path, orders)
    forge(proof, FORGED[what])
    assert run("check", proof, file).exit_code == 3


@pytest.mark.parametrize("room", ["any number of", -1, True, 1.5])
def test_how_much_a_channel_holds_is_a_number(tmp_path: Path, room: object) -> None:
    file, proof, _ = certified(tmp_path, with_messages(one_f_one_b(2, 2)))
    forge(proof, lambda lines: lines[0]["schedule"].update(sends=[0, room]))
    assert run("check", proof, file).exit_code == 3


def test_it_is_rejected_when_it_was_changed(tmp_path: Path) -> None:
    file, proof, _ = certified(tmp_path, with_messages(one_f_one_b(2, 2)))
    text = gzip.decompress(proof.read_bytes())
    proof.write_bytes(gzip.compress(text.replace(b"PROVED", b"UNKNOWN")))
    assert "changed after" in run("check", proof, file).stderr
