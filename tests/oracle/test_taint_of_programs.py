"""A message that nobody sends is bad input, not a value that a program invents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.pairing.export import export

HEAD = "class GraphModule(torch.nn.Module):\n    def forward(self, x: 'f32[4]'):\n"
BASE = "        y: 'f32[4]' = torch.ops.aten.exp.default(x)\n        return (y,)\n"
GIVES = """        y: 'f32[4]' = torch.ops.aten.tan.default(x)
        z: 'f32[4]' = torch.ops._c10d_functional.broadcast.default(y, 1, 'g')
        return (z,)
"""
RECEIVES = """        b: 'f32[4]' = torch.ops.aten.clone.default(x)
        k: 'f32[4]' = torch.ops._c10d_functional.irecv.default(b, 0, 0, 'g')
        z: 'f32[4]' = torch.ops._c10d_functional.broadcast.default(b, 1, 'g')
        return (z,)
"""


def test_a_message_that_nobody_sends_is_bad_input(tmp_path: Path) -> None:
    for name, body in (("base", BASE), ("r0", GIVES), ("r1", RECEIVES)):
        (tmp_path / f"{name}.fx.txt").write_text(HEAD + body)
        note = {"groups": {"g": [0, 1]}, "outputs": [["z", "output y"]], "inputs": [["x", "x"]]}
        (tmp_path / f"{name}.json").write_text(json.dumps(note if name != "base" else note | {"groups": {}}))
    files = [tmp_path / f"r{rank}.fx.txt" for rank in range(2)]
    with pytest.raises(InputError, match="is not sent before"):  # what nobody sends is nobody's to invent
        export(tmp_path / "base.fx.txt", files, "pp=2")
