"""The backward of slices that take one of several blocks of a batch: a block among zeros, on both sides."""

from __future__ import annotations

from typing import Any

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor


def among(
    g: Graph, x: Tensor, at: int = 1, blocks: int = 3, off: int = 0, between: int = 0, filler: float = 0.0
) -> Tensor:
    """The rows of x as one of so many blocks; behind that, what is not so."""
    rows = x.shape[0]
    edges = {"low": [at * rows + off, 0], "high": [(blocks - 1 - at) * rows - off, 0], "interior": [between, 0]}
    return g.emit("pad", [x, g.constant(filler, "f32")], **edges)


def gradients(**other: Any) -> Pair:
    """Rows that dp cuts, and a part of a sum over them, each among zeros."""
    pair = Pair({"dp": 2})
    x, part = pair.input((4, 3), {0: "dp"})
    over = {"lhs_contracting_dims": [0], "rhs_contracting_dims": [0]}
    interleaved = "[0:4x3,0:1x2][1:1x3]|dp=0:2x2"
    pair.outputs(among(pair.base, x), among(pair.dist, part, **other), layout=interleaved)
    product = among(pair.dist, pair.dist.emit("dot", [part, part], **over), **other)
    total = pair.dist.emit("all-reduce", [product], reducer="sum", groups=pair.groups("dp"))
    pair.outputs(among(pair.base, pair.base.emit("dot", [x, x], **over)), total)
    return pair


def test_gradients_of_slices_are_blocks_among_zeros() -> None:
    tables = gradients().tables()
    derived = derive(tables)
    assert derived.proved
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


WRONG: dict[str, dict[str, Any]] = {
    "another block": {"at": 2}, "half a block before it": {"off": -1}, "a filler of 1": {"filler": 1.0},
    "zeros between rows": {"between": 1}, "more blocks": {"blocks": 4},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_another_block_is_not_proved(name: str) -> None:
    tables = gradients(**WRONG[name]).tables()
    derived = derive(tables)
    assert not derived.proved
    assert audit(tables, derived.corr).false == []
