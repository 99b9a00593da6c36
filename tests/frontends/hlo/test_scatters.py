"""Scatters at indices without components: what the specification says of them is not what XLA does."""

from __future__ import annotations

import pytest

from scalify_dl.readers import hlo

SCATTER = """HloModule m
%f (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] multiply(%a, %b)
}
ENTRY %e (x: f32[1], i: s32[0,N], u: f32[N]) -> f32[1] {
  %x = f32[1]{0} parameter(0)
  %i = s32[0,N]{1,0} parameter(1)
  %u = f32[N]{0} parameter(2)
  ROOT %r = f32[1]{0} scatter(%x, %i, %u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=%f
}
"""  # noqa: E501


@pytest.mark.parametrize(("updates", "kind"), [(1, "scatter"), (3, "unknown:scatter")])
def test_several_updates_whose_indices_have_no_components_are_unknown(updates: int, kind: str) -> None:
    graph = hlo.read_text(SCATTER.replace("N", str(updates)))
    assert kind in [op.kind for op in graph.ops]
