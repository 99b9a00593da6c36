"""What the text prints as a tensor is one: it is checked like others, though nothing may be known of its values."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

CALLS = {
    "without a lowering": "renorm.default(x, 2, 0, {eps})",
    "statistics that are not kept": "batch_norm.default(x, None, None, None, None, True, 0.1, {eps}, False)",
    "statistics that are written": "batch_norm.default(x, None, None, m, v, True, 0.1, {eps}, False)",
    "of each instance": "instance_norm.default(x, None, None, None, None, True, 0.1, {eps}, False)",
}
TEXT = """class G(torch.nn.Module):
    def forward(self, x: "f32[2, 4, 3]", m: "f32[4]", v: "f32[4]"):
        norm: "f32[2, 4, 3]" = torch.ops.aten.{call}
        twice: "f32[2, 4, 3]" = torch.ops.aten.mul.Tensor(x, 2)
        return (norm, twice)
"""


def verdicts(tmp_path: Path, base: str, dist: str) -> list[str]:
    for name, call in (("base", base), ("dist", dist)):
        (tmp_path / f"{name}.fx.txt").write_text(TEXT.format(call=call))
    analysis = analyse(export(tmp_path / "base.fx.txt", [tmp_path / "dist.fx.txt"], "tp=1", None), Options())
    return [row[2] for row in analysis.rows("output_verdict")]


@pytest.mark.parametrize("name", CALLS)
def test_a_result_that_differs_is_no_value_that_is_left_out(tmp_path: Path, name: str) -> None:
    found = verdicts(tmp_path, CALLS[name].format(eps=1e-5), CALLS[name].format(eps=1.0))
    assert len(found) >= 2
    assert len(found) - found.count("PROVED") == 1


MASKED = """class G(torch.nn.Module):
    def forward(self, x: "f32[2, 3]", m: "f32[3]", v: "f32[3]"):
        grads = torch.ops.aten.native_batch_norm_backward.default(
            x, x, None, None, None, m, v, True, 0.125, [False, True, False])
        getitem: "f32[2, 3]" = grads[0]
        getitem_1: "f32[3]" = grads[1]
        return ({returned},)
"""


@pytest.mark.parametrize(("returned", "proved"), [("getitem_1", True), ("getitem", False)])
def test_a_gradient_that_a_mask_leaves_out_is_unknown_where_it_is_read(
    tmp_path: Path, returned: str, proved: bool
) -> None:
    for name in ("base", "dist"):  # torch.export prints a type of it, and its kernels give none
        (tmp_path / f"{name}.fx.txt").write_text(MASKED.format(returned=returned))
    analysis = analyse(export(tmp_path / "base.fx.txt", [tmp_path / "dist.fx.txt"], "tp=1", None), Options())
    assert [row[2] == "PROVED" for row in analysis.rows("output_verdict")] == [proved]
