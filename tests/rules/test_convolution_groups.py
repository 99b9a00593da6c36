"""Convolutions in groups whose groups, or whose batch, are cut over ranks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor


def convolved(g: Graph, x: Tensor, kernel: Tensor, features: int, batches: int = 1) -> Tensor:
    """Of x[batch, window, feature] and kernel[window, feature, output], so many groups."""
    return g.emit(
        "convolution", [x, kernel], window_size=[3], window_stride=[1], window_dilation=[1], base_dilation=[1],
        window_pad_low=[1], window_pad_high=[1], input_batch=[0], input_feature=[2], input_spatial=[1],
        kernel_input_feature=[1], kernel_output_feature=[2], kernel_spatial=[0], output_batch=[0], output_feature=[2],
        output_spatial=[1], feature_group_count=[features], batch_group_count=[batches],
    )  # fmt: skip


def pair(
    x: tuple[int, int, int], kernel: tuple[int, int, int], cuts: tuple[Mapping[int, str], Mapping[int, str]],
    groups: tuple[int, int], *, batches: bool = False,
) -> Pair:  # fmt: skip
    """Operands cut along these dims; how many groups the baseline and a rank count."""
    made = Pair({"tp": 2})
    (a, da), (b, db) = made.input(x, dict(cuts[0])), made.input(kernel, dict(cuts[1]))
    base, dist = ((1, n) if batches else (n, 1) for n in groups)
    made.outputs(convolved(made.base, a, b, *base), convolved(made.dist, da, db, *dist))
    return made


def proved(made: Pair) -> bool:
    """Whether the output is; nothing false may be derived."""
    tables = made.tables()
    derived = derive(tables)
    assert audit(tables, derived.claims, trials=2).false == []
    return not derived.unproved


CUT = {2: "tp"}, {2: "tp"}


@pytest.mark.parametrize(
    ("x", "kernel", "groups"),
    [((2, 4, 8), (3, 1, 8), (8, 4)), ((2, 4, 8), (3, 2, 12), (4, 2)), ((2, 4, 8), (3, 4, 6), (2, 1))],
)
def test_each_rank_may_convolve_its_own_groups_of_features(
    x: tuple[int, int, int], kernel: tuple[int, int, int], groups: tuple[int, int]
) -> None:
    assert proved(pair(x, kernel, CUT, groups))


def test_each_rank_may_convolve_its_own_groups_of_batches() -> None:
    made = ({0: "tp"}, {2: "tp"})
    assert proved(pair((4, 4, 3), (3, 3, 8), made, (4, 2), batches=True))
    assert proved(pair((4, 4, 3), (3, 3, 8), made, (2, 1), batches=True))


def test_groups_of_batches_sum_over_features_that_are_cut() -> None:
    """The gradient of a kernel in groups where the batch is cut: its features are the batch."""
    for summed in (True, False):
        made = Pair({"tp": 2})
        (x, dx), (y, dy) = made.input((4, 4, 6), {2: "tp"}), made.input((3, 6, 8), {1: "tp"})
        base, dist = convolved(made.base, x, y, 1, 4), convolved(made.dist, dx, dy, 1, 4)
        if summed:
            dist = made.dist.emit("all-reduce", [dist], groups=made.groups("tp"), reducer="sum")
        made.outputs(base, dist)
        assert proved(made) == summed


def test_as_many_groups_of_half_of_the_features_are_other_groups() -> None:
    assert not proved(pair((2, 4, 8), (3, 2, 8), ({2: "tp"}, {1: "tp"}), (4, 4)))
    assert not proved(pair((4, 4, 4), (3, 4, 8), ({0: "tp"}, {2: "tp"}), (2, 2), batches=True))


def test_channels_in_turn_are_no_groups() -> None:
    """Every other channel, of groups that have two each."""
    for stride in (1, 2):
        made = Pair({"tp": 2})
        (x, dx), (kernel, dk) = made.input((2, 4, 8)), made.input((3, 2, 4))
        some = made.dist.emit("slice", [dx], start=[0, 0, 0], limit=[2, 4, 4 * stride], stride=[1, 1, stride])
        own = made.dist.emit("slice", [dk], start=[0, 0, 0], limit=[3, 2, 2], stride=[1, 1, 1])
        whole = convolved(made.base, x, kernel, 4)
        base = made.base.emit("slice", [whole], start=[0, 0, 0], limit=[2, 4, 2], stride=[1, 1, 1])
        made.outputs(base, convolved(made.dist, some, own, 2))
        assert not (proved(made) and stride == 2)
