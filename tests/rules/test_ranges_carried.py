"""Ranges of ids and labels are those of what is taken from them, and of what other ranks bring."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .test_counted_positions import ROWS, counted, share

RANGE = (3, 9)


def moved(g: Graph, labels: Tensor, how: str) -> Tensor:
    """Labels by way of an op that computes nothing."""
    zero = g.constant(0, "s32")
    match how:
        case "window":
            return g.emit("dynamic-slice", [g.emit("reshape", [labels], shape=(1, ROWS)), zero, zero], sizes=[1, ROWS])
        case "gathered":
            return g.emit("all-gather", [labels], groups=[[0, 1]], dimension=0, shape=(2 * ROWS,))
        case "sent to both":
            return g.emit("collective-permute", [labels], pairs=[(0, 1), (1, 0)])
    return g.emit("collective-permute", [labels], pairs=[(0, 0)])


def counts(how: str, ignored: int) -> Pair:
    """x over how many labels are not ignored, of labels that ranks have whole and move about."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((ROWS,), {})
    labels, ours = pair.input((ROWS,), {}, dtype="s32", range=RANGE)
    pair.dist.inputs[-1].range = RANGE
    pair_count = counted(pair.base, labels, ignored)
    there = moved(pair.dist, ours, how)
    flat = pair.dist.emit("reshape", [there], shape=(there.shape[-1],)) if len(there.shape) > 1 else there
    count = counted(pair.dist, flat, ignored)
    if how == "gathered":
        count = pair.dist.emit("multiply", [count, pair.dist.constant(0.5, "f32")])
    pair.outputs(share(pair.base, x, pair_count), share(pair.dist, dx, count))
    return pair


@pytest.mark.parametrize(("how", "ignored"), [
    ("window", 0), ("window", -100), ("gathered", 2), ("sent to both", -100), ("sent to one", -100),
])  # fmt: skip
def test_no_label_out_of_range_is_ignored(how: str, ignored: int) -> None:
    assert not derive(counts(how, ignored).tables()).unproved


def test_a_rank_that_gets_no_labels_has_zeros() -> None:
    assert derive(counts("sent to one", 0).tables()).unproved
