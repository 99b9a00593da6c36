"""What ops are asked to round to: one op of real numbers; listed where the sides were asked for different things."""

from __future__ import annotations

from pathlib import Path

import pytest
from scalify_dl.api.report import Report

from scalify_dl import verify
from scalify_dl.readers import rounding

X = "%x = f32[4,8] parameter(0); %w = f32[8,8] parameter(1); "
DOT = "dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
HIGHEST = f"{DOT}, operand_precision={{highest,highest}}"
ACCURACIES = ", result_accuracy={mode=highest}", ""
SUM = """%sum (p: f32[], q: f32[]) -> f32[] {
  %p = f32[] parameter(0)
  %q = f32[] parameter(1)
  ROOT %s = f32[] add(%p, %q)
}
"""


def written(folder: Path, name: str, body: str, header: str, before: str = "") -> Path:
    path = folder / f"{name}.hlo"
    lines = "\n  ".join(body.split("; "))
    path.write_text(f"HloModule m{header}\n{before}ENTRY %main {{\n  {lines}\n}}\n")
    return path


def judged(tmp_path: Path, base: str, dist: str, before: str = "") -> Report:
    sides = written(tmp_path, "base", base, "", before), written(tmp_path, "dist", dist, ", num_partitions=2", before)
    return verify(*sides, mesh="tp=2")


def listed(report: Report) -> list[str]:
    assert str(report.verdict) == "PROVED"
    return sorted(str(row.text) for row in report.assumptions if row.why == "precision")


def root(op: str) -> str:
    return f"{X}ROOT %o = f32[4,8] {op}"


def chained(first: str, second: str) -> str:
    return f"{X}%a = f32[4,8] {first}; ROOT %o = f32[4,8] {second.replace('%x', '%a')}"


def test_a_dot_of_another_precision_is_listed(tmp_path: Path) -> None:
    assert listed(judged(tmp_path, root(HIGHEST), root(DOT))) == [
        "computed at `default`, the baseline's at `operands highest highest`"
    ]
    assert listed(judged(tmp_path, root(DOT), root(HIGHEST))) == [
        "computed at `operands highest highest`, the baseline's at `default`"
    ]


def test_one_precision_on_both_sides_is_not_listed(tmp_path: Path) -> None:
    assert listed(judged(tmp_path, root(HIGHEST), root(HIGHEST))) == []
    default = f"{DOT}, operand_precision={{default,default}}"
    assert listed(judged(tmp_path, root(default), root(DOT))) == []
    assert listed(judged(tmp_path, chained(HIGHEST, DOT), chained(HIGHEST, DOT))) == []


def test_precisions_that_change_places_are_listed(tmp_path: Path) -> None:
    assert len(listed(judged(tmp_path, chained(HIGHEST, DOT), chained(DOT, HIGHEST)))) == 2


def test_an_accuracy_of_results_is_listed(tmp_path: Path) -> None:
    highest, plain = (f"%x = f32[4,8] parameter(0); ROOT %o = f32[4,8] exponential(%x){end}" for end in ACCURACIES)
    assert listed(judged(tmp_path, highest, plain)) == ["computed at `default`, the baseline's at `result highest`"]


def test_an_op_that_the_other_side_does_otherwise_is_listed(tmp_path: Path) -> None:
    """A contraction that is written as products and sums; another dot of the kind is as the baseline's."""
    spread = (
        "%b = f32[4,8,8] broadcast(%x), dimensions={0,1}; %c = f32[4,8,8] broadcast(%w), dimensions={1,2}; "
        "%p = f32[4,8,8] multiply(%b, %c); %z = f32[] constant(0); "
        "%a = f32[4,8] reduce(%p, %z), dimensions={1}, to_apply=%sum"
    )
    dist = f"{X}{spread}; ROOT %o = f32[4,8] {DOT.replace('%x', '%a')}"
    found = listed(judged(tmp_path, chained(HIGHEST, DOT), dist, SUM))
    assert found == ["computed at `operands highest highest`, others of its kind otherwise"]


def test_one_of_two_ops_that_the_other_side_has_once_is_listed(tmp_path: Path) -> None:
    both = f"{X}%a = f32[4,8] {DOT}; %b = f32[4,8] {HIGHEST}; ROOT %o = f32[4,8] add(%a, %b)"
    once = f"{X}%a = f32[4,8] {DOT}; ROOT %o = f32[4,8] add(%a, %a)"
    assert listed(judged(tmp_path, both, once)) == [
        "computed at `operands highest highest`, by the distributed program otherwise"
    ]


@pytest.mark.parametrize(("word", "expected"), [("HIGHEST", 0), ("DEFAULT", 1)])
def test_stablehlo_says_the_same(tmp_path: Path, word: str, expected: int) -> None:
    pytest.importorskip("jaxlib")
    x, w = "tensor<4x8xf32>", "tensor<8x8xf32>"
    (tmp_path / "base.mlir").write_text(
        f"func.func public @main(%x: {x}, %w: {w}) -> {x} {{\n  %0 = stablehlo.dot_general %x, %w, contracting_dims ="
        f" [1] x [0], precision = [{word}, {word}] : ({x}, {w}) -> {x}\n  return %0 : {x}\n}}\n"
    )
    dist = written(tmp_path, "dist", root(HIGHEST), ", num_partitions=2")
    assert len(listed(verify(tmp_path / "base.mlir", dist, mesh="tp=2"))) == expected


def test_texts_of_both_formats() -> None:
    assert rounding.precision("{highest,default}") == "operands highest default"
    assert rounding.precision("[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]") == ""
    assert rounding.accuracy("{mode=highest}") == "result highest"
    highest = "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>"
    assert rounding.accuracy(highest) == "result highest"
    assert rounding.accuracy("#stablehlo.result_accuracy<mode = <DEFAULT>>") == ""
    assert rounding.accuracy("{tolerance={atol=0,rtol=0.1,ulps=3}}").startswith("result {tolerance")
