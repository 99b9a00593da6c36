"""A power to a negative exponent needs what is raised not to be zero, and the assumption says so of that."""

from __future__ import annotations

from pathlib import Path

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

HEAD = 'class G(torch.nn.Module):\n    def forward(self, x: "f32[4]", y: "f32[4]"):\n'
BASE = """        r: "f32[4]" = torch.ops.aten.relu.default(x)
        p: "f32[4]" = torch.ops.aten.pow.Tensor_Scalar(r, -2)
        z: "f32[4]" = torch.ops.aten.mul.Tensor(p, y)
        return (z,)
"""
DIST = """        r: "f32[4]" = torch.ops.aten.relu.default(x)
        q: "f32[4]" = torch.ops.aten.pow.Tensor_Scalar(r, -1.5)
        h: "f32[4]" = torch.ops.aten.pow.Tensor_Scalar(r, -0.5)
        s: "f32[4]" = torch.ops.aten.mul.Tensor(q, h)
        z: "f32[4]" = torch.ops.aten.mul.Tensor(s, y)
        return (z,)
"""


def test_what_is_raised_to_a_negative_power_is_what_is_assumed_not_to_be_zero(tmp_path: Path) -> None:
    for name, text in (("base", BASE), ("dist", DIST)):
        (tmp_path / f"{name}.fx.txt").write_text(HEAD + text)
    analysis = analyse(export(tmp_path / "base.fx.txt", [tmp_path / "dist.fx.txt"], "tp=1", None), Options())
    assert {row[2] for row in analysis.rows("output_verdict")} == {"PROVED"}
    needed = {tensor for tensor, _, why in analysis.rows("assumption") if why == "nonzero"}
    makers = {tensor: op for op, _, tensor in analysis.facts["result"]}
    kinds = {op: kind for op, _, kind in analysis.facts["op"]}
    assert needed
    assert {kinds[makers[tensor]] for tensor in needed} <= {"relu", "maximum", "multiply"}, needed
