"""What a program writes into its inputs is checked: paired by the inputs, refused where only one side writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.pairing.export import export

TEXT = """class G(torch.nn.Module):
    def forward(self, a: "f32[4]", b: "f32[4]", x: "f32[4]"):
        y: "f32[4]" = torch.ops.aten.neg.default(x)
{writes}        return (y,)
"""


def pair(folder: Path, base: str, *dists: str) -> Facts:
    for name, written in (("base", base), *((f"dist.r{n}", each) for n, each in enumerate(dists))):
        lines = [
            f'        w{n}: "f32[4]" = torch.ops.aten.copy_.default({each}, x)\n' for n, each in enumerate(written)
        ]
        (folder / f"{name}.fx.txt").write_text(TEXT.replace("{writes}", "".join(lines)))
    return export(folder / "base.fx.txt", [folder / f"dist.r{n}.fx.txt" for n in range(len(dists))], "tp=2")


def test_written_inputs_are_paired_by_the_inputs(tmp_path: Path) -> None:
    assert len(pair(tmp_path, "ab", "ab").tables["expect"]) == 2  # `y`, and `x` that both inputs hold
    assert len(pair(tmp_path, "", "").tables["expect"]) == 1


@pytest.mark.parametrize(("base", "dist"), [("a", "b"), ("a", ""), ("", "a"), ("ab", "a"), ("a", "ab")])
def test_an_input_that_one_side_alone_writes_is_refused(tmp_path: Path, base: str, dist: str) -> None:
    with pytest.raises(InputError, match="does not write what corresponds to it"):
        pair(tmp_path, base, dist)


def test_ranks_that_write_other_inputs_are_not_one_program(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not write what corresponds to it"):
        pair(tmp_path, "a", "a", "b")
