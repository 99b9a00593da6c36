"""Slices that ranks take along several dims at once, each at the offset of an axis of its own."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Tensor


def cut(axes: tuple[str, ...], *, order: tuple[int, ...] = (0, 1, 2), split: dict[int, str] | None = None) -> Pair:
    """x[8,8,8]: each rank takes its own part along the dims of `order`, by its number along the axis of each."""
    pair = Pair({"dp": 2, "tp": 2, "cp": 2})
    x, dx = pair.input((8, 8, 8), split or {})
    names = [name for name, _ in pair.mesh.axes]
    starts: list[Tensor] = [pair.dist.constant(0, "s32")] * 3
    sizes = list(dx.shape)
    for dim, axis in zip(order, axes, strict=False):
        at = names.index(axis)
        sizes[dim] //= 2
        op = pair.dist.add("constant", [], [("s32", ())])
        op.rank_numbers["value", 0] = {r: c[at] * sizes[dim] for r, c in enumerate(pair.mesh.coordinates)}
        starts[dim] = op.result
    pair.outputs(x, pair.dist.emit("dynamic-slice", [dx, *starts], sizes=sizes))
    return pair


RIGHT = [
    cut(("dp", "tp")), cut(("tp", "dp")), cut(("tp", "dp", "cp"), order=(2, 0, 1)), cut(("cp", "dp"), split={0: "tp"}),
]  # fmt: skip


@pytest.mark.parametrize("pair", RIGHT)
def test_own_blocks_along_several_dims_are_a_sharding_along_all_of_them(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("pair", [cut(("tp", "tp")), cut(("dp", "tp"), split={2: "tp"})])
def test_one_axis_for_two_dims_is_none(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert not derived.proved
    assert audit(tables, derived.corr).false == []
