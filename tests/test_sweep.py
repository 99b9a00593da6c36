"""Sweeps: what is listed is run once, by whoever comes first, and kept until something that it rests on changes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scalify_dl.commands.sweep import row
from scalify_dl.errors import InputError
from scalify_dl.sweep import runs
from scalify_dl.sweep.file import load

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "hlo"
GRID = """
runs:
  "{dist} tp={tp}":
    over: {dist: [dist, dist_gate_for_up], tp: [2]}
    base: base.hlo
    dist: "{dist}.hlo"
    mesh: "tp={tp}"
    relate: relations.yaml
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The example's programs, and a sweep over them."""
    for file in EXAMPLE.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "sweep.yaml").write_text(GRID, "utf-8")
    return tmp_path


def dlverify(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scalify_dl", *arguments], capture_output=True, text=True, timeout=timeout,
        stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip


def test_a_sweep_ends_with_a_table(folder: Path) -> None:
    done = dlverify("sweep", str(folder / "sweep.yaml"), "--json")
    rows = {r["name"]: r for r in json.loads(done.stdout)["runs"]}
    assert rows["dist tp=2"]["verdict"] == "PROVED"
    assert rows["dist_gate_for_up tp=2"]["verdict"] != "PROVED"
    assert done.returncode in (1, 3), done.stderr
    text = dlverify("sweep", str(folder / "sweep.yaml"), "--jobs", "1", "--junit", str(folder / "j.xml")).stdout
    cases = {c.get("name"): c.find("failure") for c in ElementTree.parse(folder / "j.xml").iter("testcase")}
    assert [name for name, wrong in cases.items() if wrong is not None] == ["dist_gate_for_up tp=2"]
    assert "2 runs" in text
    assert "dist_gate_for_up tp=2" in text


class Counted:
    """In place of processes: counts what is run, and says PROVED."""

    def __init__(self, status: int = 0) -> None:
        self.ran: list[list[str]] = []
        self.status = status
        self.lock = threading.Lock()

    def __call__(self, arguments: list[str], limit: float | None, stopping: list[bool]) -> tuple[str, str, int]:
        with self.lock:
            self.ran.append(arguments)
        threading.Event().wait(0.05)
        report = {"verdict": "PROVED", "outputs": [], "frontier": [], "notes": [], "stats": {}}
        return ("" if self.status else json.dumps(report)), "", self.status


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted()
    monkeypatch.setattr(runs, "_ran", found)
    return found


def swept(folder: Path) -> list[runs.Result]:
    return runs.sweep(load(folder / "sweep.yaml"), folder / "results", 2, lambda result: None)


def test_what_is_kept_is_not_run_again(folder: Path, counted: Counted) -> None:
    first = swept(folder)
    assert len(counted.ran) == 2
    assert swept(folder) == first
    assert len(counted.ran) == 2


@pytest.mark.parametrize("what", ["base.hlo", "dist.hlo", "relations.yaml", "timeout", "rules"])
def test_a_result_is_stale_when_anything_it_rests_on_changes(
    folder: Path, counted: Counted, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(folder)
    if what == "timeout":
        (folder / "sweep.yaml").write_text("timeout: 9\n" + GRID, "utf-8")
    elif what == "rules":
        monkeypatch.setattr(runs, "package_hash", lambda: "another")
    else:
        with (folder / what).open("a") as file:
            file.write("\n# one more line\n")
    swept(folder)
    assert len(counted.ran) == (3 if what == "dist.hlo" else 4)


def test_what_front_ends_write_beside_a_dump_counts(tmp_path: Path, counted: Counted) -> None:
    for name in ("a.base.fx.txt", "a.base.json", "a.r0.fx.txt"):
        (tmp_path / name).write_text("{}", "utf-8")
    run = "{base: a.base.fx.txt, dist: a.r0.fx.txt, mesh: tp=1}"
    (tmp_path / "sweep.yaml").write_text(f"runs:\n  a: {run}\n", "utf-8")
    swept(tmp_path)
    (tmp_path / "a.base.json").write_text('{"inputs": []}', "utf-8")
    swept(tmp_path)
    assert len(counted.ran) == 2


@pytest.mark.parametrize("how", ["truncated", "altered", "foreign", "empty"])
def test_a_result_that_is_not_whole_is_noticed(folder: Path, counted: Counted, how: str) -> None:
    swept(folder)
    one, other = sorted((folder / "results").glob("*.json"))
    text = one.read_text("utf-8")
    changed = {
        "truncated": text[:-20],
        "altered": text.replace("PROVED", "REFUTED"),
        "foreign": other.read_text("utf-8"),
        "empty": "",
    }
    one.write_text(changed[how], "utf-8")
    assert all(result["report"]["verdict"] == "PROVED" for result in swept(folder))
    assert len(counted.ran) == 3


@pytest.mark.skipif(runs.fcntl is None, reason="no locks of files on this system")
def test_two_sweeps_of_one_folder_share_the_work(folder: Path, counted: Counted) -> None:
    found: list[list[runs.Result]] = []
    threads = [threading.Thread(target=lambda: found.append(swept(folder))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(counted.ran) == 2
    assert found[0] == found[1] == found[2]


def test_a_run_whose_process_is_killed_is_begun_again_and_not_kept(folder: Path, counted: Counted) -> None:
    counted.status = -signal.SIGKILL
    assert all("signal 9" in result["error"] for result in swept(folder))
    assert len(counted.ran) == 2 * runs.ATTEMPTS
    counted.status = 0
    assert all("report" in result for result in swept(folder))


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_where_it_stopped(folder: Path) -> None:
    arguments = [sys.executable, "-m", "scalify_dl", "sweep", str(folder / "sweep.yaml"), "--jobs", "1"]
    results = folder / "sweep.results"
    first = subprocess.Popen(
        arguments, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    assert first.stderr is not None
    assert first.stderr.readline().startswith("1/2")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(30)
    kept = {file: file.stat().st_mtime_ns for file in results.glob("*.json")}
    assert len(kept) >= 1
    again = json.loads(dlverify("sweep", str(folder / "sweep.yaml"), "--json").stdout)
    assert len(again["runs"]) == 2
    assert all(r["verdict"] != "ERROR" for r in again["runs"])
    assert all(file.stat().st_mtime_ns == before for file, before in kept.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no runs"),
        ("runs: [a]\n", "runs"),
        ("runs:\n  a: {base: base.hlo}\n", "dist"),
        ("runs:\n  a: {facts: x}\n  a: {facts: y}\n", "twice"),
        ("runs:\n  a: {over: {tp: [2, 4]}, facts: x}\n", "two runs"),
        ("runs:\n  a: {over: {tp: 2}, facts: x}\n", "over"),
        ("runs:\n  a: {fact: x}\n", "unknown key"),
        ("run:\n  a: {facts: x}\n", "unknown key"),
        ("runs:\n  - [", "YAML"),
    ],
)
def test_a_sweep_file_that_is_not_understood_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "sweep.yaml").write_text(text, "utf-8")
    with pytest.raises(InputError, match=message) as told:
        load(tmp_path / "sweep.yaml")
    assert "sweep.yaml" in str(told.value)


def test_a_file_that_is_missing_is_an_error_of_its_run_alone(folder: Path, counted: Counted) -> None:
    (folder / "dist.hlo").unlink()
    missing, other = swept(folder)
    assert row(missing, "PROVED")["verdict"] == "ERROR"
    assert "dist.hlo" in missing["error"]
    assert row(other, "PROVED")["verdict"] == "PROVED"


def test_a_run_whose_dumps_are_not_there_is_told_and_ends_no_other(folder: Path) -> None:
    gone = '  gone: {base: base.hlo, dist: "gone*.txt", mesh: tp=2}\n'
    (folder / "sweep.yaml").write_text(GRID + gone, "utf-8")
    done = dlverify("sweep", str(folder / "sweep.yaml"))
    assert done.returncode == 2
    assert "matches no file" in done.stdout + done.stderr
    assert "dist tp=2" in done.stdout
