"""Which of two equal elements comes first is not said by every sort: what relies on it lists it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

HEAD = 'class G(torch.nn.Module):\n    def forward(self, x: "f32[4, 5]"):\n'
TOP = """        found = torch.ops.aten.topk.default(x, 2, 1)
        values: "f32[4, 2]" = found[0]
        places: "i64[4, 2]" = found[1]
        return ({},)
"""
SORTED = """        found = torch.ops.aten.sort.{}
        every: "f32[4, 5]" = found[0]
        each: "i64[4, 5]" = found[1]
        values: "f32[4, 2]" = torch.ops.aten.slice.Tensor(every, 1, 0, 2)
        places: "i64[4, 2]" = torch.ops.aten.slice.Tensor(each, 1, 0, 2)
        return ({},)
"""
LOOSE, STABLE = "default(x, 1, True)", "stable(x, stable = True, dim = 1, descending = True)"


def reasons(folder: Path, base: str, dist: str) -> tuple[set[str], set[str]]:
    """Verdicts, and the reasons of what is assumed."""
    for name, text in (("base", base), ("dist", dist)):
        (folder / f"{name}.fx.txt").write_text(HEAD + text)
    analysis = analyse(export(folder / "base.fx.txt", [folder / "dist.fx.txt"], "tp=1", None), Options())
    return {row[2] for row in analysis.rows("output_verdict")}, {row[2] for row in analysis.rows("assumption")}


@pytest.mark.parametrize("call", [LOOSE, STABLE])
def test_a_sort_against_the_largest_lists_that_equals_are_found_in_order(tmp_path: Path, call: str) -> None:
    """torch.topk(torch.zeros(5), 2) gives places 2 and 4, torch.sort 0 and 1."""
    verdicts, why = reasons(tmp_path, TOP.format("places"), SORTED.format(call, "places"))
    assert (verdicts, "order" in why) == ({"PROVED"}, True)


def test_one_op_on_both_sides_lists_nothing(tmp_path: Path) -> None:
    verdicts, why = reasons(tmp_path, TOP.format("places"), TOP.format("places"))
    assert (verdicts, "order" in why) == ({"PROVED"}, False)


def test_a_stable_sort_against_one_that_is_not_lists_it(tmp_path: Path) -> None:
    verdicts, why = reasons(tmp_path, SORTED.format(STABLE, "places"), SORTED.format(LOOSE, "places"))
    assert (verdicts, "order" in why) == ({"PROVED"}, True)


def test_the_largest_of_a_row_that_may_have_zeros_of_both_signs_lists_it(tmp_path: Path) -> None:
    """XLA's top-k of [-0, 0] gives place 1, argmax place 0."""
    verdicts, why = reasons(tmp_path, TOP.format("places"), SORTED.format(STABLE, "places"))
    assert (verdicts, "precision" in why) == ({"PROVED"}, True)
