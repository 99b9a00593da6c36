"""`dlverify schedule`: exit status, JSON, bad input."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import decide, settings

from .orders import moved, one_f_one_b, with_messages, written


def dlverify(*args: object) -> subprocess.CompletedProcess[str]:
    code = "from scalify_dl.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, "schedule", *map(str, args)], capture_output=True, text=True)


def test_the_exit_status_and_the_json_keys_are_a_contract(tmp_path: Path) -> None:
    rows = with_messages(one_f_one_b(4, 4))
    done = dlverify(written(tmp_path / "fine.csv", rows), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"verdict", "findings", "makespan", "idle", "peak", "stats"} <= report.keys()
    assert (report["verdict"], report["findings"], report["makespan"]) == ("PROVED", [], 210)
    moved(rows[1], "1RECV_B0", "1SEND_F1")
    done = dlverify(written(tmp_path / "stuck.csv", rows), "--json")
    assert done.returncode == 1, done.stderr
    finding = json.loads(done.stdout)["findings"][0]
    assert finding.keys() == {
        "kind", "level", "rank", "micro_batch", "op", "name", "source", "events", "text", "suggestion", "tried",
        "explains",
    }  # fmt: skip
    assert all(event.keys() == {"rank", "name", "source"} for event in finding["events"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0F0,0SEND_F0\n1RECV_F0,1FF0\n", ':2:2: unknown action "1FF0"'),
        ("0F0,0SEND_\n", ':1:2: unknown action "0SEND_"'),
        ("0F0,0SEND_F\n", ":1:2: action"),
        ("0F0,0REDUCE_GRAD3\n", ":1:2: action"),
        ("0F0,(0F1;0B0)OVERLAP\n", ":1:2: unknown action"),
        ("0F0,0SEND_F0\n", "talks to stage 1"),
        ("0F0,0SEND_F0\n2RECV_F0,2F0\n", "stage 1"),
        ("0F0\n0F1\n", ":2:1: 0F1 is on rank 1, but stage 0 on rank 0"),
        ("0F0,0F99999999\n", "too large"),
        ("hello\n", "no schedule that is known"),
        ("", "no schedule that is known"),
    ],
)
def test_bad_files_are_told_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    from scalify_dl.errors import InputError

    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_schedule([tmp_path / "s.csv"])
    assert said in str(error.value)


def test_asked_about_deadlocks_only_it_says_the_same_of_these(tmp_path: Path) -> None:
    rng, hung = random.Random(5), 0
    for n in range(40):
        rows = [list(row) for row in with_messages(one_f_one_b(3, 3))]
        row = rng.choice(rows)
        one = row.pop(rng.randrange(len(row)))
        if n % 3:
            row.insert(rng.randrange(len(row) + 1), one)
        file = written(tmp_path / f"{n}.csv", rows)
        for capacity in settings("both"):
            everything = decide(read_schedule([file]), capacity)
            alone = decide(read_schedule([file], check="deadlock"), capacity, check="deadlock")
            for relation in ("malformed", "unmatched", "circle", "root"):
                assert alone.ints(relation) == everything.ints(relation)
            ends = {e for _, e in read_schedule([file]).tuples("last")}
            stuck = [{e for (e,) in outcome.rows["stuck"]} - ends for outcome in (alone, everything)]
            assert stuck[0] == stuck[1]
            hung += bool(stuck[0])
    assert hung > 10


def test_what_was_not_looked_at_is_assumed(tmp_path: Path) -> None:
    rows = with_messages(one_f_one_b(2, 2))
    moved(rows[0], "0SEND_F0", "0F0")
    file = written(tmp_path / "early.csv", rows)
    assert dlverify(file).returncode == 1
    done = dlverify(file, "--check", "deadlock")
    assert done.returncode == 0, done.stderr
    assert "assumed: nothing races" in done.stdout


def test_bad_options_are_bad_input(tmp_path: Path) -> None:
    file = written(tmp_path / "s.csv", [["0F0"]])
    assert dlverify(file, "--sends", "some").returncode == 2
    assert dlverify(file, "--streams", "none").returncode == 2
    assert dlverify(file, "--durations", "F=-1").returncode == 2
    assert dlverify(file, "--check", "races").returncode == 2
    assert dlverify(file, "--check", "deadlock", "--plot", tmp_path / "p.svg").returncode == 2
    assert dlverify(tmp_path / "absent.csv").returncode == 2


def test_the_timeline_is_drawn_with_stuck_events_marked(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    rows = with_messages(one_f_one_b(4, 4))
    done = dlverify(written(tmp_path / "s.csv", rows), "--plot", tmp_path / "fine.svg")
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "fine.svg").read_text()
    ElementTree.fromstring(drawn)
    assert "1F3" in drawn
    assert "stuck" not in drawn
    moved(rows[1], "1RECV_B0", "1SEND_F1")
    assert dlverify(written(tmp_path / "s.csv", rows), "--plot", tmp_path / "stuck.html").returncode == 1
    assert "stuck events in red" in (tmp_path / "stuck.html").read_text()
    done = dlverify(tmp_path / "s.csv", "--plot", tmp_path / "picture.png")
    assert (done.returncode, list(tmp_path.glob("*.png"))) == (2, [])
