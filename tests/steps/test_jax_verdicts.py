"""What is said of the JAX programs: the right ones are proved as far as lemmas go, the wrong ones never are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude
from tests.verify.bug_lines import captures, judge

from . import jax_captures, truth

pytestmark = pytest.mark.slow

OPEN = {
    "18_jax_ring_attention": "no lemma on running softmax",
}
"""Right programs that are not proved yet, and what is missing."""

UNPROVED_EDITS = {
    ("19_jax_moe_all_to_all", "wrong1"): "no lemma follows an all-to-all whose result is turned",
    ("17_jax_pipeline", "wrong1"): "no edit puts a micro-batch elsewhere",
    ("17_jax_pipeline", "wrong2"): "no edit sends elsewhere what a loop carries",
}
"""Wrong programs that no edit which is suggested makes right, or none that is proved then, and why."""
ELSEWHERE = {
    ("17_jax_pipeline", "wrong1"): "in the body of a scan: what goes into the loop, or all of it",
    ("17_jax_pipeline", "wrong2"): "in the body of a scan: what goes into the loop, or all of it",
    ("15_jax_pmean_grads", "wrong2"): "clipped before it is reduced: where the sum is made, as the edit says",
    ("19_jax_moe_all_to_all", "wrong2"): "means of ranks are multiplied: where one is made that is not reduced",
}
"""Wrong programs whose first cause is at another line, and at which."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of all variants, made where JAX has as many devices as the meshes want."""
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    made = tmp_path_factory.mktemp("captures")
    subprocess.run(
        [sys.executable, "-m", "tests.steps.jax_captures", str(made)], check=True, cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL, timeout=truth.SECONDS,
    )  # fmt: skip
    return made


def verdict(folder: Path, name: str, variant: str) -> Verdict:
    captured = folder / f"{name}.{variant}"
    axes = ",".join(f"{axis}={size}" for axis, size in truth.load(name).MESH.items())
    (dist,) = captured.glob("step.dist.*")
    return conclude(analyse(export(captured / "step.base.mlir", [dist], axes), Options())).verdict


@pytest.mark.parametrize("name", jax_captures.PROGRAMS)
def test_a_right_step_is_proved(folder: Path, name: str) -> None:
    assert verdict(folder, name, "right") is (Verdict.UNKNOWN if name in OPEN else Verdict.PROVED)


@pytest.mark.parametrize("variant", ["wrong1", "wrong2"])
@pytest.mark.parametrize("name", jax_captures.PROGRAMS)
def test_a_wrong_step_is_refuted_and_its_line_named(folder: Path, name: str, variant: str) -> None:
    """… and where the right program is proved, so is the wrong one with the edits that are suggested."""
    found, _ = judge(captures(folder)[f"{name}.{variant}"])
    assert found is not None
    assert found.verdict is Verdict.REFUTED
    first = found.frontier[0]
    lines = captures(folder)[f"{name}.{variant}"].lines
    assert lines.isdisjoint(frame.line for frame in first.source) == ((name, variant) in ELSEWHERE)
    proved = name not in OPEN and (name, variant) not in UNPROVED_EDITS
    assert any("all outputs are PROVED" in text for text in first.tried) == proved
