"""`examples/hlo` does what its README says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "hlo"


def verify(dist: str, *options: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "scalify_dl.cli", "verify", str(EXAMPLE / "base.hlo"), str(EXAMPLE / dist)]
    done = subprocess.run([*command, "--mesh", "tp=2", "--json", *options], cwd=ROOT, capture_output=True, check=False)
    return done.returncode, json.loads(done.stdout)


RELATE = ("--relate", str(EXAMPLE / "relations.yaml"))


def test_the_right_program_is_proved() -> None:
    code, verdict = verify("dist.hlo", *RELATE)
    assert (code, verdict["verdict"], verdict["frontier"]) == (0, "PROVED", [])


def test_the_bug_is_found_at_its_op() -> None:
    code, verdict = verify("dist_gate_for_up.hlo", *RELATE)
    assert (code, verdict["verdict"]) == (1, "REFUTED")
    (cause,) = verdict["frontier"]
    assert (cause["op"], cause["outputs"]) == ("up", ["y"])
    assert cause["source"][0] == "mlp_tp.py:7"


def test_without_relations_a_fused_weight_is_one_cause_with_the_line_that_mends_it() -> None:
    code, verdict = verify("dist.hlo")
    assert code == 3
    (cause,) = verdict["frontier"]
    assert 'inputs: {"gate_up": {dims: {1: [tp]}, parts: {dim: 1, sizes: [64, 64]}}}' in cause["suggestion"]
    assert cause["tried"] == "with this, all outputs are PROVED"


def test_what_the_parts_of_a_fused_weight_do_not_mend_has_other_causes() -> None:
    _, verdict = verify("dist_gate_for_up.hlo")
    assert not any("with this, all" in str(cause["tried"]) for cause in verdict["frontier"])


@pytest.mark.parametrize("file", sorted(EXAMPLE.glob("*.hlo")), ids=lambda path: path.name)
def test_the_readme_names_every_file(file: Path) -> None:
    assert file.name in (EXAMPLE / "README.md").read_text()
