"""Placements as layouts, and what shapes alone say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement, inferred

DP_TP = Mesh.parse("dp=2,tp=4")


def axes(*names: str) -> list[AxisPart]:
    return [AxisPart.parse(name) for name in names]


@pytest.mark.parametrize(
    ("dims", "shape", "expected"),
    [
        ({}, (8, 16), "[0:1x8][1:1x16]|dp=r2|tp=r4"),
        ({1: axes("tp")}, (8, 16), "[0:1x8][1:1x4]|dp=r2|tp=1:4x4"),
        ({0: axes("dp", "tp")}, (16,), "[0:1x2]|dp=0:8x2|tp=0:2x4"),
        ({0: axes("tp", "dp")}, (16,), "[0:1x2]|dp=0:2x2|tp=0:4x4"),
        ({0: axes("tp:2")}, (8,), "[0:1x4]|dp=r2|tp=0:4x2,r2"),
        ({0: axes("tp:(2)2")}, (8,), "[0:1x4]|dp=r2|tp=r2,0:4x2"),
        ({0: axes("tp:2"), 1: axes("tp:(2)2")}, (4, 4), "[0:1x2][1:1x2]|dp=r2|tp=0:2x2,1:2x2"),
        ({0: axes("tp")}, (4,), "[]|dp=r2|tp=0:1x4"),
    ],
)
def test_layouts_of_placements(dims: dict[int, list[AxisPart]], shape: tuple[int, ...], expected: str) -> None:
    assert str(Placement(dims).layout(shape, DP_TP)) == expected


def test_pending_axes() -> None:
    layout = Placement({0: axes("tp:2")}, {"dp": "sum", "tp": "max"}).layout((8,), DP_TP)
    assert str(layout) == "[0:1x4]|dp=sum2|tp=0:4x2,max2"


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({0: axes("pp")}, "no mesh axis `pp`"),
        ({0: axes("tp", "dp")}, "does not split evenly"),
        ({2: axes("tp")}, "no dim 2"),
        ({0: axes("tp:2"), 1: axes("tp:2")}, "used twice"),
        ({0: axes("tp"), 1: axes("tp")}, "used twice"),
        ({0: axes("tp:3")}, "does not divide mesh axis tp=4"),
    ],
)
def test_placements_that_do_not_fit(dims: dict[int, list[AxisPart]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Placement(dims).layout((12, 16), DP_TP)


@given(st.data())
def test_layouts_cover_the_baseline_exactly_once(data: st.DataObject) -> None:
    mesh = Mesh(
        tuple((f"a{n}", size) for n, size in enumerate(data.draw(st.lists(st.sampled_from([1, 2, 4, 6]), max_size=3))))
    )
    rank = data.draw(st.integers(1, 3))
    owner = [data.draw(st.integers(0, rank)) for _ in mesh.axes]  # the dim that each axis splits; rank: none
    dims = {d: [AxisPart(axis) for (axis, _), o in zip(mesh.axes, owner, strict=True) if o == d] for d in range(rank)}
    shape = tuple(64 * 216 * data.draw(st.integers(1, 3)) for _ in range(rank))
    layout = Placement(dims).layout(shape, mesh)
    assert layout.gaps(shape) is None
    assert layout.axis_sizes == dict(mesh.axes)


@pytest.mark.parametrize(
    ("mesh", "base", "dist", "expected"),
    [
        ("tp=4", (8, 16), (8, 16), {}),
        ("tp=4", (8, 16), (8, 4), {1: axes("tp")}),
        ("tp=4", (8, 16), (8, 8), None),  # 2 ways of 4: which positions?
        ("dp=2,tp=4", (8, 16), (4, 4), {0: axes("dp"), 1: axes("tp")}),
        ("dp=2,tp=2", (8, 16), (4, 16), None),  # which of the two axes?
        ("dp=2,tp=4", (8, 16), (1, 16), None),  # in which order?
        ("dp=1,tp=4", (8, 16), (8, 4), {1: axes("tp")}),
        ("tp=4", (8, 16), (2, 4), None),
        ("tp=4", (8, 16), (16, 16), None),
        ("tp=4", (8, 16), (8,), None),
    ],
)
def test_shapes_say_a_placement_only_where_there_is_one(
    mesh: str, base: tuple[int, ...], dist: tuple[int, ...], expected: dict[int, list[AxisPart]] | None
) -> None:
    placement = inferred(base, dist, Mesh.parse(mesh))
    assert (None if placement is None else dict(placement.dims)) == expected


@pytest.mark.parametrize("text", ["", "tp", "tp=", "tp=0", "tp=2,tp=2", "2=tp", "tp=2;dp=2", "tp=9999999", "tp=65537"])
def test_meshes_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        Mesh.parse(text)


def test_ranks_are_row_major() -> None:
    assert DP_TP.coordinates[5] == (1, 1)
    assert DP_TP.rank((1, 1)) == 5


def test_what_is_pending_over_an_axis_that_splits_the_value_is_no_placement() -> None:
    """It was left out, and an output proved without it."""
    with pytest.raises(InputError, match="nothing of it is left"):
        Placement({0: axes("tp")}, {"tp": "sum"}).layout((8, 16), DP_TP)
    half = Placement({0: [AxisPart("tp", 2)]}, {"tp": "sum"}).layout((8, 16), DP_TP)
    assert "sum2" in str(half)
