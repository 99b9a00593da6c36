"""Python in a folder of sources without an engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from scalify_dl.pysouffle import _engine

ROOT = Path(__file__).parents[1]
ASK = "import scalify_dl.pysouffle as p; print(p.__file__); print(p.Program.from_source('.decl a(x:symbol)'))"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The project's folder as it is cloned: with rules, without an engine."""
    skip = shutil.ignore_patterns("_engine*.so", "__pycache__", "cpp")
    shutil.copytree(ROOT / "scalify_dl", tmp_path / "clone" / "scalify_dl", ignore=skip)
    return tmp_path / "clone"


@pytest.fixture
def installed(sources: Path, tmp_path: Path) -> Path:
    """The same with the engine, as `pip install .` leaves it somewhere else."""
    shutil.copytree(sources / "scalify_dl", tmp_path / "installed" / "scalify_dl")
    shutil.copy(_engine.__file__, tmp_path / "installed" / "scalify_dl" / "pysouffle")
    return tmp_path / "installed"


def ask(folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Without `site`, whose hooks find an editable installation before any folder."""
    packages = [*map(str, path), sysconfig.get_paths()["purelib"]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-S", "-c", ASK], cwd=folder, env=env, capture_output=True, text=True)


def test_the_installed_package_is_used_and_told(sources: Path, installed: Path) -> None:
    done = ask(sources, installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(installed / "scalify_dl" / "pysouffle" / "__init__.py")
    assert f"the installed {installed / 'scalify_dl'} is used, not these sources" in done.stderr


def test_without_one_it_is_said_what_to_do(sources: Path) -> None:
    done = ask(sources)
    assert done.returncode == 1
    assert f"ImportError: the engine of scalify_dl is not built for this Python in {sources}" in done.stderr
    for way in ("run from another folder", "pip install -e .", "tools/build_engine.sh"):
        assert way in done.stderr


def test_sources_with_an_engine_are_used_as_they_are(sources: Path, installed: Path) -> None:
    done = ask(installed, sources)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(installed))
