"""A stranger's custom call, given a meaning by the rules file that docs/adding_an_op.md shows."""

import re
from pathlib import Path

import pytest

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.report.conclude import conclude

DOC = Path(__file__).parents[2] / "docs" / "adding_an_op.md"
MODULE = """HloModule m

ENTRY %main (x: f32[8,{x},{l}], w: f32[{w}]) -> f32[8,{x},{l}] {{
  %x = f32[8,{x},{l}]{{2,1,0}} parameter(0)
  %w = f32[{w}]{{0}} parameter(1)
  ROOT %y = f32[8,{x},{l}]{{2,1,0}} custom-call(%x, %w), custom_call_target="GroupNormSilu"
}}
"""


def verify(folder: Path, rules: bool, x: int = 16, w: int = 16, l: int = 32) -> Report:  # noqa: E741
    """The verdict on two ranks that each hold x channels, w weights and l positions of 32, 32 and 32."""
    (folder / "base.hlo").write_text(MODULE.format(x=32, w=32, l=32))
    (folder / "dist.hlo").write_text(MODULE.format(x=x, w=w, l=l))
    file = folder / "meaning.dl"
    file.write_text(re.findall(r"```prolog\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)[0])
    facts = export(folder / "base.hlo", [folder / "dist.hlo"], "tp=2")
    return conclude(analyse(facts, Options(rules=(file,) if rules else (), refute=False)))


def test_without_a_meaning_it_is_unknown_and_the_missing_lemma_is_named(tmp_path: Path) -> None:
    found = verify(tmp_path, rules=False)
    assert found.verdict is Verdict.UNKNOWN
    (cause,) = found.frontier
    assert cause.kind == "custom:GroupNormSilu"
    assert cause.lemma_missing is not None
    assert "custom:GroupNormSilu" in cause.lemma_missing


def test_with_ten_lines_it_is_proved_and_the_claim_is_listed(tmp_path: Path) -> None:
    found = verify(tmp_path, rules=True)
    assert found.verdict is Verdict.PROVED
    assert found.outputs[0].pattern == "a (tp b) c -> a b c"
    assert any(a.why == "opaque" and "GroupNormSilu" in a.text for a in found.assumptions)


@pytest.mark.parametrize("shapes", [{"x": 32, "w": 32, "l": 16}, {"x": 32, "w": 32, "l": 32}])
def test_only_what_the_meaning_allows_is_proved(tmp_path: Path, shapes: dict[str, int]) -> None:
    assert verify(tmp_path, rules=True, **shapes).verdict is (Verdict.PROVED if shapes["l"] == 32 else Verdict.UNKNOWN)
