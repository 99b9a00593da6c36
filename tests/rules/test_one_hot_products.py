"""An embedding by products with one-hot vectors, rows in blocks over ranks: a mask that is cast to numbers."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program

PICKED = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [0]}


def one_hot(g: Graph, ids: Tensor, places: int, direction: str = "EQ") -> Tensor:
    shape = (*ids.shape, places)
    line = g.emit("iota", [], dtype=ids.dtype, shape=shape, dimension=1)
    return g.emit("convert", [g.emit("compare", [spread(g, ids, shape, [0]), line], direction=direction)], dtype="f32")


def embedding(*, rows: int = 4, stride: int = 4, direction: str = "EQ", told: bool = True) -> Pair:
    """Rows of a table[8,3], in blocks of four over two ranks, which number them from `stride` times theirs."""
    pair = Pair({"tp": 2})
    table, block = pair.input((8, 3), {0: "tp"})
    ids, own = pair.input((5,), {}, dtype="s32")
    b, d = pair.base, pair.dist
    rank = d.emit("convert", [d.emit("partition-id", [], shape=(), dtype="u32")], dtype="s32")
    near = d.emit("subtract", [own, spread(d, d.emit("multiply", [rank, d.constant(stride, "s32")]), (5,), [])])
    part = d.emit("dot", [one_hot(d, near, 4, direction), block], **PICKED)
    if told:
        part = d.emit("all-reduce", [part], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(b.emit("dot", [one_hot(b, ids, 8), table], **PICKED), part)
    return pair


def test_products_with_one_hot_vectors_over_blocks_of_places_add_up() -> None:
    tables = embedding().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("pair", [embedding(stride=3), embedding(direction="LE"), embedding(told=False)],
                         ids=["blocks that overlap", "all places from the id on", "a part of the sum"])  # fmt: skip
def test_other_products_do_not(pair: Pair) -> None:
    tables = pair.tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None
