"""What is proved over the reals and is no number where a value leaves the range of its type lists that."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

HEAD = 'class G(torch.nn.Module):\n    def forward(self, x: "f32[4, 5]"):\n'
STABLE = """        y: "f32[4, 5]" = torch.ops.aten._softmax.default(x, 1, False)
        return (y,)
"""
SHIFTED = """        m: "f32[4, 1]" = torch.ops.aten.amax.default(x, [1], True)
        d: "f32[4, 5]" = torch.ops.aten.sub.Tensor(x, m)
        e: "f32[4, 5]" = torch.ops.aten.exp.default(d)
        s: "f32[4, 1]" = torch.ops.aten.sum.dim_IntList(e, [1], True)
        y: "f32[4, 5]" = torch.ops.aten.div.Tensor(e, s)
        return (y,)
"""
PLAIN = """        e: "f32[4, 5]" = torch.ops.aten.exp.default(x)
        s: "f32[4, 1]" = torch.ops.aten.sum.dim_IntList(e, [1], True)
        y: "f32[4, 5]" = torch.ops.aten.div.Tensor(e, s)
        return (y,)
"""
SIGMOID = """        y: "f32[4, 5]" = torch.ops.aten.sigmoid.default(x)
        return (y,)
"""
BY_EXP = """        n: "f32[4, 5]" = torch.ops.aten.neg.default(x)
        e: "f32[4, 5]" = torch.ops.aten.exp.default({})
        s: "f32[4, 5]" = torch.ops.aten.add.Tensor(e, 1)
        y: "f32[4, 5]" = torch.ops.aten.{}
        return (y,)
"""


@pytest.mark.parametrize(
    ("base", "dist", "listed"),
    [
        (STABLE, PLAIN, True),  # exp(100) is infinite in f32, and inf / inf no number
        (PLAIN, STABLE, False),  # here the baseline is none
        (STABLE, SHIFTED, False),
        (SIGMOID, BY_EXP.format("x", "div.Tensor(e, s)"), True),
        (SIGMOID, BY_EXP.format("n", "reciprocal.default(s)"), False),  # 1 / inf is 0
    ],
)
def test_an_exponential_that_overflows_lists_it(tmp_path: Path, base: str, dist: str, listed: bool) -> None:
    for name, text in (("base", base), ("dist", dist)):
        (tmp_path / f"{name}.fx.txt").write_text(HEAD + text)
    analysis = analyse(export(tmp_path / "base.fx.txt", [tmp_path / "dist.fx.txt"], "tp=1", None), Options())
    assert {row[2] for row in analysis.rows("output_verdict")} == {"PROVED"}
    assert ("precision" in {row[2] for row in analysis.rows("assumption")}) == listed
