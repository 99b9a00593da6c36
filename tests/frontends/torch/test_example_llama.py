"""The Llama example, from its dump: what is right is proved, each bug is refuted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "examples" / "hf_llama" / "dump.py"
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_is_proved() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PROVED  17 of 17 outputs")


@pytest.mark.parametrize("bug", ["missing-allreduce", "bias-per-rank", "wrong-slice"])
def test_each_bug_is_refuted(bug: str) -> None:
    done = run("--bug", bug)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("REFUTED")
