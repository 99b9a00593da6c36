"""What docs/without_a_baseline.md says of its program is so."""

from __future__ import annotations

from pathlib import Path

from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.fix import fix
from scalify_dl.lint.judge import lint, load
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations

PAGE = (Path(__file__).parents[2] / "docs" / "without_a_baseline.md").read_text("utf-8")
PROGRAM = PAGE.split("```text\n")[1].split("```")[0]
MESH = Mesh.parse("tp=2")


def saved(tmp_path: Path, text: str) -> list[Path]:
    file = tmp_path / "mlp.hlo"
    file.write_text(text)
    return [file]


def test_the_finding_and_its_fix_are_those_of_the_page(tmp_path: Path) -> None:
    dist = saved(tmp_path, PROGRAM)
    result = lint(dist, MESH)
    (finding,) = result.findings
    assert (result.verdict, finding.kind, finding.name) == (Verdict.REFUTED, "added-per-rank", "z")
    assert finding.source == (f"{dist[0]}:18",)
    ((edit,),) = fix(load(dist, MESH, Relations()), MESH).ways[:1]
    assert edit.text in PAGE
    assert edit.cost == 0


def test_the_mended_program_is_well_placed_and_sends_what_the_page_says(tmp_path: Path) -> None:
    sum_line = next(line for line in PROGRAM.splitlines() if "ROOT %r" in line)
    add_line = next(line for line in PROGRAM.splitlines() if "%z = " in line)
    text = PROGRAM.replace(add_line, sum_line.replace("ROOT ", "").replace("(%z)", "(%y)"))
    text = text.replace(sum_line, add_line.replace("%z =", "ROOT %z =").replace("%y", "%r"))
    result = lint(saved(tmp_path, text), MESH)
    assert result.verdict is Verdict.PROVED
    assert result.costs.by_axes == {"tp": 512}
