"""Constants of which a dump tells only what they are rounded to: what follows from the rounding refutes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl import verify
from scalify_dl.ir.literals import is_rounded

BASE = """
class G(torch.nn.Module):
    def forward(self, v: "f32[6]"):
        corrected: "f32[6]" = torch.ops.aten.div.Tensor(v, 0.002997000999999999)
        root: "f32[6]" = torch.ops.aten.sqrt.default(corrected)
        return (root,)
"""
DIST = """
class G(torch.nn.Module):
    def forward(self, v: "f32[6]"):
        root: "f32[6]" = torch.ops.aten.sqrt.default(v)
        corrected: "f32[6]" = torch.ops.aten.div.Tensor(root, {number})
        return (corrected,)
"""


def verdict(folder: Path, number: float) -> str:
    (folder / "base.fx.txt").write_text(BASE)
    (folder / "dist.fx.txt").write_text(DIST.format(number=number))
    return verify(folder / "base.fx.txt", folder / "dist.fx.txt", mesh="tp=1").verdict.value


def test_the_root_of_a_double_is_not_refuted(tmp_path: Path) -> None:
    assert verdict(tmp_path, 0.002997000999999999**0.5) != "REFUTED"


def test_another_number_is_refuted(tmp_path: Path) -> None:
    assert verdict(tmp_path, 0.002997000999999999**0.5 + 1e-6) == "REFUTED"


CANCELS = """
class G(torch.nn.Module):
    def forward(self, v: "f32[6]"):
        most: "f32[6]" = torch.ops.aten.mul.Tensor(v, {most})
        large: "f32[6]" = torch.ops.aten.mul.Tensor(v, {root})
        difference: "f32[6]" = torch.ops.aten.sub.Tensor(large, most)
        return (difference,)
"""


@pytest.mark.parametrize(("most", "refuted"), [(1.414, False), (1.4145, True)])
def test_rounding_that_a_subtraction_makes_large_refutes_nothing(tmp_path: Path, most: float, refuted: bool) -> None:
    (tmp_path / "base.fx.txt").write_text(CANCELS.format(root=2**0.5, most=1.414))
    (tmp_path / "dist.fx.txt").write_text(CANCELS.format(root=1.4142135, most=most))
    found = verify(tmp_path / "base.fx.txt", tmp_path / "dist.fx.txt", mesh="tp=1").verdict.value
    assert (found == "REFUTED") == refuted


@pytest.mark.parametrize("text", ["0.054744873", "0.35355338", "2997.0012"])
def test_as_many_digits_as_f32_holds_are_rounded(text: str) -> None:
    assert is_rounded(text, "f32")


@pytest.mark.parametrize("text", ["0.5", "0.001", "0.00390625", "1e-05", "123456.0", "inf", "65536"])
def test_what_is_short_is_meant_as_it_stands(text: str) -> None:
    assert not is_rounded(text, "f32")
