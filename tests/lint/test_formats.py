"""What lint finds is told in all formats that the other commands have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from scalify_dl.lint.judge import lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.lint.reported import reported

from .test_lint import HLO

ROOT = Path(__file__).parents[2]

WRONG = HLO.replace("  ROOT %r = f32[8,16] all-reduce(%y), replica_groups={{0,1}}, use_global_device_ids=true, "
                    "channel_id=1, to_apply=%sum", "  ROOT %r = f32[8,16] tanh(%y)")  # fmt: skip
LINE = WRONG.splitlines().index("  ROOT %r = f32[8,16] tanh(%y)") + 1


def command(tmp_path: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    """In the folder of the dump, which is then the repository that places are told in."""
    (tmp_path / "dist.hlo").write_text(text)
    argv = [sys.executable, "-m", "scalify_dl", "lint", "dist.hlo", "--mesh", "tp=2", *more]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_violation_is_in_every_format_at_its_line(tmp_path: Path) -> None:
    sarif, html, junit = (tmp_path / f"out.{end}" for end in ("sarif", "html", "xml"))
    done = command(tmp_path, WRONG, "--sarif", str(sarif), "--html", str(html), "--junit", str(junit),
                   "--output-format", "github")  # fmt: skip
    assert done.returncode == 1, done.stderr
    ((run,),) = [json.loads(sarif.read_text())["runs"]]
    first = run["results"][0]
    assert first["level"] == "error"
    assert "non-linear" in first["message"]["text"]
    assert first["locations"][0]["physicalLocation"]["region"]["startLine"] == LINE
    assert run["properties"]["verdict"] == "REFUTED"
    assert f"line={LINE}" in done.stdout
    assert "::error file=" in done.stdout
    assert "non-linear" in html.read_text()
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == "1"


def test_what_a_finding_leads_to_is_told_at_it_and_once(tmp_path: Path) -> None:
    """A bias is added on every rank: what is made of it is not placed, for one reason."""
    step = ROOT / "examples" / "steps" / "tensor_parallel_mlp"
    sarif = tmp_path / "out.sarif"
    argv = [*map(str, sorted(step.glob("wrong.r*.fx.txt"))), "--mesh", "tp=2", "--sarif", str(sarif)]
    done = subprocess.run(
        [sys.executable, "-m", "scalify_dl", "lint", *argv],
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False, cwd=ROOT,
    )  # fmt: skip
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    assert "added-per-rank" in result["message"]["text"]
    assert "It leads to 16 outputs that are not proved: output loss, " in result["message"]["text"]
    assert len(result["relatedLocations"]) == 16
    assert done.stdout.count("its placement rests on what is not proved") == 1
    assert "UNKNOWN  16 outputs: output loss, output prediction, written blocks.0.norm.weight, " in done.stdout
    assert "what it is of one device's values is not known" not in done.stdout


def test_a_right_program_fails_nothing(tmp_path: Path) -> None:
    sarif, junit = tmp_path / "out.sarif", tmp_path / "out.xml"
    done = command(tmp_path, HLO, "--sarif", str(sarif), "--junit", str(junit), "--output-format", "quiet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PROVED  well placed")
    assert json.loads(sarif.read_text())["runs"][0]["results"] == []
    assert ElementTree.parse(junit).getroot().get("failures") == "0"


def test_what_is_legal_but_odd_is_a_note(tmp_path: Path) -> None:
    twice = WRONG.replace("ROOT %r = f32[8,16] tanh(%y)", "%r = f32[8,16] all-reduce(%y), replica_groups={{0,1}}, "
                          "use_global_device_ids=true, channel_id=1, to_apply=%max\n  ROOT %s = f32[8,16] add(%x, %x)")
    twice = twice.replace("all-reduce(%y)", "all-reduce(%x)").replace("add(%x, %x)", "add(%r, %r)")
    largest = "%max (c: f32[], d: f32[]) -> f32[] {\n  %c = f32[] parameter(0)\n  %d = f32[] parameter(1)\n" + (
        "  ROOT %m = f32[] maximum(%c, %d)\n}\n\nENTRY")
    sarif = tmp_path / "out.sarif"
    done = command(tmp_path, twice.replace("ENTRY", largest), "--sarif", str(sarif), "--output-format", "github")
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    assert result["level"] == "note"
    assert "::notice file=" in done.stdout


def test_a_place_that_cannot_be_written_to_is_said_first(tmp_path: Path) -> None:
    done = command(tmp_path, HLO, "--sarif", str(tmp_path / "no" / "out.sarif"))
    assert done.returncode == 2
    assert "cannot write here" in done.stderr


def test_a_program_that_was_lifted_in_part_returns_nothing_yet() -> None:
    """Values that are there to be looked at are no outputs of it."""
    p = Alone("tp=2")
    y = p.matmul(p.place("x", (4, 8), {1: "tp"}), p.place("w", (8, 6), {0: "tp"}))
    p.result(p.relu(y))
    lines = reported(lint_graph(p.graph, p.mesh), Path("p")).more["baseline"]
    assert lines[-2] == "  // what it returns is not known"
