"""Ops without a meaning, whose operands are numbers or integers, leave an output to others: no formula, no error."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalify_dl
from scalify_dl.prove.verdict import Verdict

CALLS = {
    "unknown": "torch.ops.aten.add.out(u, i, out = e)",
    "custom": "torch.ops.mylib.mix.default(u, i)",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_integers_of_an_op_without_a_meaning_are_not_followed(call: str, tmp_path: Path) -> None:
    file = tmp_path / "integers.fx.txt"
    file.write_text(
        "class G(torch.nn.Module):\n"
        '    def forward(self, u: "u8[4, 6]", i: "i8[4, 6]"):\n'
        '        e: "i64[4, 6]" = torch.ops.aten.empty.memory_format([4, 6], dtype = torch.int64)\n'
        f'        k: "i64[4, 6]" = {call}\n'
        '        y: "i32[4, 6]" = torch.ops.aten._to_copy.default(k, dtype = torch.int32)\n'
        "        return (y,)\n"
    )
    assert scalify_dl.verify(file, file, mesh="tp=2", refute=False).verdict is not Verdict.REFUTED
