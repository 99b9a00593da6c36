"""What is made of constants alone decides choices on the machine as it is rounded there: that refutes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl import verify

BASE = """HloModule m
ENTRY main {
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} parameter(1)
  ROOT r = f32[4]{0} add(x, x)
}
"""
DIST = """HloModule m
ENTRY main {{
  x = f32[4]{{0}} parameter(0)
  y = f32[4]{{0}} parameter(1)
  a = {dtype}[] constant({a})
  b = {dtype}[] constant({b})
  c = {dtype}[] constant({c})
  made = {dtype}[] {kind}(a, b)
  p = pred[] compare(made, c), direction=EQ
  mask = pred[4]{{0}} broadcast(p), dimensions={{}}
  z = f32[4]{{0}} select(mask, x, y)
  ROOT r = f32[4]{{0}} add(z, x)
}}
"""


@pytest.mark.parametrize(
    ("dtype", "kind", "numbers", "said"),
    [
        ("f32", "add", "0.7 0.1 0.8", "UNKNOWN"),  # so it is in f32
        ("bf16", "add", "256 1 256", "UNKNOWN"),
        ("f16", "multiply", "0.0001 0.0001 0", "UNKNOWN"),
        ("f64", "add", "0.7 0.1 0.8", "REFUTED"),  # and not in f64
        ("f32", "add", "0.7 0.1 0.9", "REFUTED"),
        ("bf16", "add", "256 4 256", "REFUTED"),
    ],
)
def test_a_choice_by_what_is_made_of_constants(tmp_path: Path, dtype: str, kind: str, numbers: str, said: str) -> None:
    a, b, c = numbers.split()
    (tmp_path / "base.hlo").write_text(BASE)
    (tmp_path / "dist.hlo").write_text(DIST.format(dtype=dtype, kind=kind, a=a, b=b, c=c))
    assert verify(tmp_path / "base.hlo", tmp_path / "dist.hlo", mesh="tp=2").verdict.value == said


LEFT_OVER = """HloModule m
ENTRY main {
  x = f32[4]{0} parameter(0)
  a = f32[] constant(0.7)
  b = f32[] constant(0.1)
  c = f32[] constant(0.8)
  made = f32[] add(a, b)
  left = f32[] remainder(made, c)
  factor = f32[4]{0} broadcast(left), dimensions={}
  ROOT r = f32[4]{0} multiply(x, factor)
}
"""


@pytest.mark.parametrize(("factor", "said"), [("0", "UNKNOWN"), ("0.5", "REFUTED")])
def test_what_is_left_of_a_division_of_them(tmp_path: Path, factor: str, said: str) -> None:
    (tmp_path / "base.hlo").write_text(LEFT_OVER)
    head, tail = LEFT_OVER.split("  a = ")
    (tmp_path / "dist.hlo").write_text(f"{head}  left = f32[] constant({factor})\n{tail[tail.index('  factor') :]}")
    assert verify(tmp_path / "base.hlo", tmp_path / "dist.hlo", mesh="tp=2").verdict.value == said
