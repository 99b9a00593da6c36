"""The recipes for other people's libraries: right ones are proved, with `--bug` they are not."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = {path.stem: path for path in sorted((ROOT / "examples" / "recipes").glob("with_*.py"))}
NEEDS = {"with_torchtitan": "torchtitan", "with_megatron_core": "megatron", "with_deepspeed": "deepspeed",
         "with_vllm": "vllm"}  # fmt: skip


def run(recipe: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", recipe, *words], cwd=ROOT, capture_output=True, text=True, timeout=600,
        stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip


def test_every_recipe_is_tried_here() -> None:
    assert {*RECIPES} == {*NEEDS}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.parametrize(("words", "verdict", "status"), [((), "PROVED", 0), (("--bug",), "REFUTED", 1)])
def test_a_recipe_gives_its_verdict(name: str, words: tuple[str, ...], verdict: str, status: int) -> None:
    for package in ("torch", NEEDS[name]):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    done = run(RECIPES[name], *words)
    assert done.returncode == status, done.stdout + done.stderr
    assert any(line.startswith(verdict) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", NEEDS)
def test_a_recipe_without_its_package_says_so(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    for package in NEEDS.values():
        (tmp_path / f"{package}.py").write_text(f"raise ImportError('no {package}')\n")
    done = run(RECIPES[name], PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 3
    assert done.stderr.startswith("skipped: ")
