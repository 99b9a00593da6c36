"""The composite action and the pre-commit hook: what they run is a command line that works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .test_cli import ROOT
from .test_project import HLO, TOML


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("arguments", "status"), [("mlp", 0), ("wrong", 0), ("base.hlo dist.hlo --mesh tp=2", 3)])
def test_the_action_writes_its_files(tmp_path: Path, arguments: str, status: int) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    step = action["runs"]["steps"][1]
    for file in HLO.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "dlverify.toml").write_text(TOML)
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "dlverify").write_text(f'#!/bin/sh\nexec {sys.executable} -m scalify_dl "$@"\n')
    (commands / "dlverify").chmod(0o755)
    inputs = {name.upper(): given.get("default", "") for name, given in action["inputs"].items()}
    inputs["ARGUMENTS"] = arguments
    assert {value.split()[1] for value in step["env"].values()} <= {f"inputs.{name}" for name in action["inputs"]}
    path = f"{commands}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL, env={**os.environ, **inputs, "PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert (tmp_path / "dlverify.sarif").is_file()
    assert (tmp_path / "dlverify.xml").is_file()
    assert ("::" in done.stdout) == (status != 0)  # what is REFUTED as it should be is no alert


def test_the_hook_runs_a_command_that_there_is() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["entry"].split()[:2] == ["dlverify", "verify"]
    assert hook["pass_filenames"] is False
