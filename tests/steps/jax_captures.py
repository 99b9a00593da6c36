"""Captures of the JAX programs of `programs/`, as `tests.verify.bug_lines --captures FOLDER` reads them.

    python -m tests.steps.jax_captures FOLDER [NAME…]

writes FOLDER/PROGRAM.VARIANT with both dumps and the command that verifies them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from . import truth

PROGRAMS = [name for name in truth.PROGRAMS if not truth.uses_torch(name)]


def captured(name: str, variant: str, folder: Path) -> Any:
    """One variant and its baseline, as `capture_step` gives them; `command.txt` beside the dumps."""
    from scalify_dl.capture.jax import capture_step

    program = truth.load(name)
    found = capture_step(
        lambda mesh: (getattr(program, variant)(mesh), program.arguments()), program.MESH,
        folder / f"{name}.{variant}" / "step", baseline=lambda: (program.base, program.arguments()),
    )  # fmt: skip
    found.dist.with_name("command.txt").write_text(found.command + "\n", "utf-8")
    return found


def main() -> None:
    """Captures of all variants of the programs that are named, or of all."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    folder, *names = sys.argv[1:]
    for name in names or PROGRAMS:
        for variant in truth.VARIANTS:
            print(captured(name, variant, Path(folder)).command)


if __name__ == "__main__":
    main()
