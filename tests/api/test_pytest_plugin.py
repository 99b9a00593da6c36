"""The pytest plugin, run as its users run it: in a process and a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HLO = ROOT / "examples" / "hlo"

TESTS = """\
import pytest

pytestmark = pytest.mark.dlverify(mesh="tp=2")


@pytest.mark.dlverify(relate="relations.yaml")
def test_right(dlverify):
    assert dlverify("base.hlo", "dist.hlo").verdict == "PROVED"


def test_wrong(dlverify):
    dlverify("base.hlo", "dist_gate_for_up.hlo", relate="relations.yaml")


def test_looked_at(dlverify):
    assert dlverify.report("base.hlo", "dist_gate_for_up.hlo", refute=False).verdict == "UNKNOWN"


def test_of_no_file(dlverify):
    dlverify("nowhere.hlo", "dist.hlo")


@pytest.mark.dlverify(allow_unknown=True)
def test_unknown_is_allowed(dlverify):
    dlverify("base.hlo", "dist_gate_for_up.hlo", refute=False)
"""
TOML = """\
[pairs.good]
base = "base.hlo"
dist = "dist.hlo"
mesh = "tp=2"
relate = "relations.yaml"
[pairs.bad]
base = "base.hlo"
dist = "dist_gate_for_up.hlo"
mesh = "tp=2"
relate = "relations.yaml"
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """pytest in a folder, with the plugin."""
    for file in HLO.iterdir():
        shutil.copy(file, folder)
    (folder / "test_mine.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    plugin = ["-p", "no:dlverify", "-p", "scalify_dl.testing.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *arguments], cwd=folder, capture_output=True, text=True, timeout=120,
        stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_fixture_and_marker(tmp_path: Path) -> None:
    status, out = run(tmp_path, "--junit-xml=junit.xml")
    assert status == 1
    assert "2 failed, 3 passed" in out
    assert "REFUTED  0 of 1 output" in out
    assert "1 root cause" in out
    assert "nowhere.hlo: cannot read the file" in out
    assert "scalify_dl/api" not in out, "frames of ours are hidden"
    assert "Report REFUTED" in (tmp_path / "junit.xml").read_text()


def test_pairs_of_the_configuration_are_tests(tmp_path: Path) -> None:
    (tmp_path / "dlverify.toml").write_text(TOML)
    status, out = run(tmp_path, "--dlverify", "--deselect", "test_mine.py", "-v")
    assert status == 1
    assert "dlverify::good PASSED" in out
    assert "dlverify::bad FAILED" in out
    assert "1 failed, 1 passed, 5 deselected" in out


def test_a_pair_without_dumps_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "dlverify.toml").write_text(TOML + '\n[pairs.none]\nbase = "b"\ndist = "none*.hlo"\nmesh = "tp=2"\n')
    status, out = run(tmp_path, "--dlverify", "--deselect", "test_mine.py", "-v")
    assert status == 1
    assert "dlverify::good PASSED" in out
    assert "dlverify::none FAILED" in out
    assert "matches no file" in out


@pytest.mark.parametrize("text", [None, "[pairs.x]\nbse = 1\n"])
def test_a_missing_or_wrong_configuration_is_an_error_of_usage(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "dlverify.toml").write_text(text)
    status, out = run(tmp_path, "--dlverify")
    assert status == 4
    assert "dlverify.toml" in out
    assert "Traceback" not in out
