"""Complex inputs are assumed to be finite where formulas are compared, and complex values on the way are no cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

HEAD = 'class G(torch.nn.Module):\n    def forward(self, x: "{}"):\n'
MADE = '        z: "c64[4]" = torch.ops.aten.view_as_complex.default(x)\n'
END = '        r: "f32[4, 2]" = torch.ops.aten.view_as_real.default(o)\n        return (r,)\n'
PAIRS = [
    ("sub.Tensor({0}, {0})", "mul.Tensor({0}, 0)"),
    ("neg.default({0})", "mul.Tensor({0}, -1)"),  # -(inf + i) is -inf - i; times -1 + 0i it is no number
]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("given", [True, False])
def test_that_complex_numbers_are_finite_is_listed(tmp_path: Path, given: bool, pair: tuple[str, str]) -> None:
    for name, call in zip(("base", "dist"), pair, strict=True):
        body = f'        o: "c64[4]" = torch.ops.aten.{call.format("x" if given else "z")}\n'
        head = HEAD.format("c64[4]" if given else "f32[4, 2]") + ("" if given else MADE)
        (tmp_path / f"{name}.fx.txt").write_text(head + body + END)
    analysis = analyse(export(tmp_path / "base.fx.txt", [tmp_path / "dist.fx.txt"], "tp=1", None), Options())
    assert {row[2] for row in analysis.rows("output_verdict")} == {"PROVED"}
    assert "finite" in {row[2] for row in analysis.rows("assumption")}
