"""HLO modules of one computation, for tests."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers import hlo

REDUCER = """\
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
"""


def module(body: str, before: str = "", header: str = "") -> str:
    return f"HloModule m{header}\n\n{before}\nENTRY %main (x: f32[8,16]) -> f32[8,16] {{\n{body}\n}}\n"


def read(body: str, before: str = "", mesh: str | None = None, header: str = "") -> Graph:
    return hlo.read_text(module(body, before, header), Mesh.parse(mesh) if mesh else None, file="m.hlo")


X = "  %x = f32[8,16]{1,0} parameter(0)\n"
