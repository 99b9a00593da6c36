"""What is said of the torch programs: the right ones are proved as far as lemmas go, the wrong ones never are."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from scalify_dl.prove.verdict import Verdict
from tests.verify.bug_lines import captures, judge

from . import truth

pytestmark = pytest.mark.slow

OPEN: dict[str, str] = {}
"""Right programs that are not proved yet, and what is missing."""

TORCH = [name for name in truth.PROGRAMS if truth.uses_torch(name)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of all variants, as `bug_lines` reads them."""
    pytest.importorskip("torch")
    from scalify_dl import capture_step

    made = tmp_path_factory.mktemp("captures")
    for name in TORCH:
        program = truth.load(name)
        for variant in truth.VARIANTS:
            here = made / f"{name}.{variant}"
            here.mkdir()
            build = getattr(program, f"build_{variant}")
            captured = capture_step(build, program.MESH, here / "step", baseline=program.build_base)
            (here / "command.txt").write_text(captured.command + "\n", "utf-8")
    return made


@pytest.mark.parametrize("name", TORCH)
def test_a_right_step_is_proved(folder: Path, name: str) -> None:
    from scalify_dl.pairing.export import export
    from scalify_dl.prove.options import Options
    from scalify_dl.prove.pipeline import analyse
    from scalify_dl.report.conclude import conclude

    words = shlex.split((folder / f"{name}.right" / "command.txt").read_text("utf-8"))
    mesh = words.index("--mesh")
    found = conclude(analyse(export(words[2], words[3:mesh], words[mesh + 1]), Options()))
    assert found.verdict is (Verdict.UNKNOWN if name in OPEN else Verdict.PROVED)


@pytest.mark.parametrize("variant", ["wrong1", "wrong2"])
@pytest.mark.parametrize("name", TORCH)
def test_a_wrong_step_is_refuted(folder: Path, name: str, variant: str) -> None:
    found, _ = judge(captures(folder)[f"{name}.{variant}"])
    assert found is not None
    assert found.verdict is Verdict.REFUTED
