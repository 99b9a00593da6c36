"""How many labels are not ignored, where the program makes the labels: positions, from each rank's own on."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

ROWS = 8


def counted(g: Graph, labels: Tensor, ignored: int, dtype: str = "s32") -> Tensor:
    """How many labels are another number."""
    kept = g.emit("compare", [labels, g.splat(ignored, dtype, labels.shape)], direction="NE")
    return g.emit("reduce", [g.emit("convert", [kept], dtype="f32")], dimensions=[0], reducer="sum")


def share(g: Graph, x: Tensor, count: Tensor) -> Tensor:
    return g.emit("divide", [x, g.emit("broadcast", [count], shape=x.shape, dimensions=[])])


def labels_of_a_rank(ignored: int, first: int = 4, factor: float = 0.5, dtype: str = "s32") -> Pair:
    """Each rank divides by how many of its own four positions count."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((ROWS,), {0: "dp"})
    pair_count = counted(pair.base, pair.base.emit("iota", [], shape=(ROWS,), dtype="s32", dimension=0), -100)
    g = pair.dist
    own = g.emit("iota", [], shape=(ROWS // 2,), dtype=dtype, dimension=0)
    rank = g.emit("convert", [g.emit("partition-id", [], shape=(), dtype="u32")], dtype=dtype)
    start = g.emit("multiply", [rank, g.constant(first, dtype)])
    places = g.emit("add", [own, g.emit("broadcast", [start], shape=own.shape, dimensions=[])])
    part = g.emit("multiply", [share(g, dx, counted(g, places, ignored, dtype)), g.splat(factor, "f32", dx.shape)])
    pair.outputs(share(pair.base, x, pair_count), part)
    return pair


def test_positions_from_a_ranks_own_on_are_all_counted() -> None:
    assert not derive(labels_of_a_rank(-100).tables()).unproved
    assert not derive(labels_of_a_rank(8).tables()).unproved


@pytest.mark.parametrize(("ignored", "first", "factor", "dtype"), [
    (5, 4, 0.5, "s32"), (0, 4, 0.5, "s32"), (7, 4, 0.5, "s32"), (11, 8, 0.5, "s32"), (-100, 4, 1.0, "s32"),
    (-126, 127, 0.5, "s8"),
])  # fmt: skip
def test_a_position_that_is_ignored_is_not_counted(ignored: int, first: int, factor: float, dtype: str) -> None:
    assert derive(labels_of_a_rank(ignored, first, factor, dtype).tables()).unproved
