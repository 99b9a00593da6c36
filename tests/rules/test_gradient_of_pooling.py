"""The gradient of pooling (select-and-scatter) where the dim that is pooled is cut over ranks."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor


def gradient(g: Graph, x: Tensor, y: Tensor, size: int, stride: int, wide: int = 1) -> Tensor:
    """Of windows of that size along dim 1, so far apart; `wide`: along dim 2."""
    return g.emit(
        "select-and-scatter", [x, y], window_size=[1, size, wide], window_stride=[1, stride, wide],
        reducer="sum", select="max",
    )  # fmt: skip


def pair(size: int, stride: int, cut: int = 1, wide: int = 1) -> Pair:
    """Both sides have these windows, on blocks along that dim."""
    made = Pair({"tp": 2})
    axes = {cut: "tp"}
    windows = (16 - size) // stride + 1
    x, dx = made.input((4, 16, 6), axes)
    y, dy = made.input((4, windows, 6 // wide), axes)
    made.outputs(gradient(made.base, x, y, size, stride, wide), gradient(made.dist, dx, dy, size, stride, wide))
    return made


def proved(made: Pair) -> bool:
    """Whether the output is; nothing false may be derived."""
    tables = made.tables()
    derived = derive(tables)
    assert audit(tables, derived.claims, trials=2).false == []
    return not derived.unproved


@pytest.mark.parametrize(("size", "wide"), [(2, 1), (4, 1), (2, 3)])
def test_windows_that_adjoin_may_be_cut_between_them(size: int, wide: int) -> None:
    assert proved(pair(size, size, wide=wide))


def test_along_other_dims_nothing_is_asked_of_windows() -> None:
    assert proved(pair(2, 2, cut=0))
    assert proved(pair(3, 1, cut=0))
    assert proved(pair(2, 2, cut=2))


def test_windows_that_overlap_may_not_be_cut() -> None:
    made = Pair({"tp": 2})
    x, dx = made.input((4, 16, 6), {1: "tp"})
    y, dy = made.input((4, 15, 6))
    own = made.dist.emit("slice", [dy], start=[0, 0, 0], limit=[4, 7, 6], stride=[1, 1, 1])
    made.outputs(gradient(made.base, x, y, 2, 1), gradient(made.dist, dx, own, 2, 1))
    assert not proved(made)


def test_gradients_of_another_ranks_windows_prove_nothing() -> None:
    made = Pair({"tp": 2})
    x, dx = made.input((4, 16, 6), {1: "tp"})
    y, dy = made.input((4, 8, 6), {1: "tp"})
    turned = made.dist.emit("collective-permute", [dy], pairs=[(0, 1), (1, 0)])
    made.outputs(gradient(made.base, x, y, 2, 2), gradient(made.dist, dx, turned, 2, 2))
    assert not proved(made)


def test_gradients_that_are_parts_of_a_sum_give_parts_of_a_sum() -> None:
    made = Pair({"tp": 2})
    x, dx = made.input((4, 16, 6))
    y, dy = made.input((4, 8, 6), pending={"tp": "sum"})
    part = gradient(made.dist, dx, dy, 2, 2)
    whole = made.dist.emit("all-reduce", [part], reducer="sum", groups=made.groups("tp"))
    made.outputs(gradient(made.base, x, y, 2, 2), whole)
    assert proved(made)


def test_what_is_pooled_may_be_no_part_of_a_sum() -> None:
    made = Pair({"tp": 2})
    x, dx = made.input((4, 16, 6), pending={"tp": "sum"})
    y, dy = made.input((4, 8, 6))
    part = gradient(made.dist, dx, dy, 2, 2)
    whole = made.dist.emit("all-reduce", [part], reducer="sum", groups=made.groups("tp"))
    made.outputs(gradient(made.base, x, y, 2, 2), whole)
    assert not proved(made)


@pytest.mark.parametrize(
    ("reducer", "pending", "right"), [("sum", "sum", True), ("max", "max", True), ("max", "sum", False)]
)
@pytest.mark.parametrize("low", [0, 1])
def test_windows_of_parts_of_a_sum(reducer: str, pending: str, right: bool, low: int) -> None:
    """What windows are padded with adds nothing."""

    def windows(g: Graph, x: Tensor) -> Tensor:
        return g.emit(
            "reduce-window", [x], window_size=[1, 3, 1], window_stride=[1, 2, 1], window_pad_low=[0, low, 0],
            reducer=reducer,
        )  # fmt: skip

    made = Pair({"tp": 2})
    x, dx = made.input((4, 16, 6), pending={"tp": pending})
    whole = made.dist.emit("all-reduce", [windows(made.dist, dx)], reducer=pending, groups=made.groups("tp"))
    made.outputs(windows(made.base, x), whole)
    assert proved(made) == right
