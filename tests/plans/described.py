"""A pipeline of two stages by hand: FX graphs of the stages, a schedule, a plan file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HEAD = "class GraphModule(torch.nn.Module):\n    def forward(self, {}):\n"

FIRST = """        mm: "f32[2, 4]" = torch.ops.aten.mm.default(x, w0)
        y: "f32[2, 4]" = torch.ops.aten.tanh.default(mm)
        tanh_backward: "f32[2, 4]" = torch.ops.aten.tanh_backward.default(gy, y)
        t: "f32[4, 2]" = torch.ops.aten.t.default(x)
        gw0: "f32[4, 4]" = torch.ops.aten.mm.default(t, tanh_backward)
        return (y, gw0)
"""
SECOND = """        z: "f32[2, 4]" = torch.ops.aten.mm.default(y, w1)
        loss: "f32[]" = torch.ops.aten.mean.default(z)
        gz: "f32[2, 4]" = torch.ops.aten.full.default([2, 4], 0.125)
        t: "f32[4, 4]" = torch.ops.aten.t.default(w1)
        gy: "f32[2, 4]" = torch.ops.aten.mm.default(gz, t)
        t_1: "f32[4, 2]" = torch.ops.aten.t.default(y)
        gw1: "f32[4, 4]" = torch.ops.aten.mm.default(t_1, gz)
        return (loss, gy, gw1)
"""
WHOLE = """        mm: "f32[16, 4]" = torch.ops.aten.mm.default(x, w0)
        y: "f32[16, 4]" = torch.ops.aten.tanh.default(mm)
        z: "f32[16, 4]" = torch.ops.aten.mm.default(y, w1)
        loss: "f32[]" = torch.ops.aten.mean.default(z)
        gz: "f32[16, 4]" = torch.ops.aten.full.default([16, 4], 0.015625)
        t: "f32[4, 4]" = torch.ops.aten.t.default(w1)
        gy: "f32[16, 4]" = torch.ops.aten.mm.default(gz, t)
        t_1: "f32[4, 16]" = torch.ops.aten.t.default(y)
        gw1: "f32[4, 4]" = torch.ops.aten.mm.default(t_1, gz)
        tanh_backward: "f32[16, 4]" = torch.ops.aten.tanh_backward.default(gy, y)
        t_2: "f32[4, 16]" = torch.ops.aten.t.default(x)
        gw0: "f32[4, 4]" = torch.ops.aten.mm.default(t_2, tanh_backward)
        return (loss, gw0, gw1)
"""
FILES = {
    "first.fx.txt": HEAD.format('w0: "f32[4, 4]", x: "f32[2, 4]", gy: "f32[2, 4]"') + FIRST,
    "second.fx.txt": HEAD.format('w1: "f32[4, 4]", y: "f32[2, 4]"') + SECOND,
    "whole.fx.txt": HEAD.format('w0: "f32[4, 4]", w1: "f32[4, 4]", x: "f32[16, 4]"') + WHOLE,
    "gpipe.csv": "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,"
    "0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3\n"
    "1RECV_F0,1F0,1RECV_F1,1F1,1RECV_F2,1F2,1RECV_F3,1F3,1B0,1SEND_B0,1B1,1SEND_B1,1B2,1SEND_B2,1B3,1SEND_B3\n",
    "relations.yaml": "inputs:\n  x: {dims: {0: dp}}\n",
    "plan.yaml": """baseline: whole.fx.txt
mesh: {pp: 2, dp: 2}
relations: relations.yaml
schedule: gpipe.csv
reduction: {micro_batches: mean, copies: dp, over_copies: mean}
stages:
- program: first.fx.txt
  batch: x
  to_next: y
  from_next: gy
  gradients: {gw0: gw0}
- program: second.fx.txt
  from_previous: y
  to_previous: gy
  losses: {loss: loss}
  gradients: {gw1: gw1}
""",
}


def write_described(directory: Path, edits: Mapping[str, tuple[str, str]] | None = None) -> Path:
    """The files, in which a text may stand in place of another."""
    for name, text in FILES.items():
        before, after = (edits or {}).get(name, ("", ""))
        assert before in text
        (directory / name).write_text(text.replace(before, after, 1) if before else text, "utf-8")
    return directory / "plan.yaml"
