"""Micro-batches with fused attention, an op of several results, forward and backward; queries, keys and values are cut
out of one value, into as many parts as there are micro-batches, or not."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program

ROWS, SEQ, WIDTH = 12, 3, 2


def gradient(g: Graph, x: Tensor, w: Tensor, saved: list[Tensor], wrong: str) -> list[Tensor]:
    """Of a block of rows: the sum of attention and of its sums of exponentials, and the gradients of queries, keys and
    values, times the rows. `saved` are the sums of the first block."""
    rows = x.shape[0]
    fused = g.emit("dot", [x, w], lhs_contracting_dims=[2], rhs_contracting_dims=[0])
    parts = []
    for n in range(3):
        start, limit = [0, 0, n * WIDTH], [rows, SEQ, (n + 1) * WIDTH]
        part = g.emit("slice", [fused], start=start, limit=limit, stride=[1, 1, 1])
        parts.append(g.emit("reshape", [part], shape=[rows, 1, SEQ, WIDTH]))
    shape, first = parts[0].shape, not saved
    causal = {"causal": [int(first or wrong != "positions in one block")]}
    made = g.add("attention", parts, [("f32", shape), ("f32", shape[:3])], symbols={"scale": ["0.5"]}, numbers=causal)
    out, sums = made.results
    saved.append(sums)
    if wrong == "sums of another block":
        sums = saved[0]
    back = g.add("attention-backward", [parts[0], *parts, out, sums], [("f32", shape)] * 3,
                 symbols={"scale": ["0.5"]}, numbers=causal)  # fmt: skip
    slopes = list(back.results)
    if wrong == "gradients exchanged in one block" and not first:
        slopes = [slopes[1], slopes[0], slopes[2]]
    found = [g.emit("reduce", [y], dimensions=list(range(len(y.shape))), reducer="sum") for y in (out, sums)]
    for slope in slopes:
        slope = g.emit("reshape", [slope], shape=[rows, SEQ, WIDTH])
        found.append(g.emit("dot", [x, slope], lhs_contracting_dims=[0, 1], rhs_contracting_dims=[0, 1]))
    return found


def accumulated(base_blocks: int, dist_blocks: int, wrong: str = "") -> Pair:
    """The baseline adds up its blocks, each of two ranks others; `wrong` is wrong on the ranks."""
    pair = Pair({"dp": 2})
    x, own = pair.input((ROWS, SEQ, 4), {0: "dp"})
    w, held = pair.input((4, 3 * WIDTH))
    made = []
    for g, blocks, rows, weight in ((pair.base, base_blocks, x, w), (pair.dist, dist_blocks, own, held)):
        size, totals, saved = rows.shape[0] // blocks, list[Tensor](), list[Tensor]()
        for n in range(blocks):
            block = rows
            if blocks > 1:
                start, limit = [n * size, 0, 0], [n * size + size, SEQ, 4]
                block = g.emit("slice", [rows], start=start, limit=limit, stride=[1, 1, 1])
            found = gradient(g, block, weight, saved, wrong if g is pair.dist else "")
            totals = [g.emit("add", list(two)) for two in zip(totals, found, strict=True)] if totals else found
        made.append(totals)
    for base, dist in zip(*made, strict=True):
        pair.outputs(base, pair.dist.emit("all-reduce", [dist], reducer="sum", groups=pair.groups("dp")))
    return pair


@pytest.mark.parametrize(("base_blocks", "dist_blocks"), [(1, 2), (1, 3), (2, 1), (2, 3), (3, 2), (3, 3)])
def test_attention_in_micro_batches_is_attention_of_the_batch(base_blocks: int, dist_blocks: int) -> None:
    tables = accumulated(base_blocks, dist_blocks).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.claims, trials=2).false == []


@pytest.mark.parametrize("blocks", [(1, 2), (1, 3), (2, 3), (3, 3)])
@pytest.mark.parametrize(
    ("wrong", "outputs"),
    [("sums of another block", 3), ("positions in one block", 5), ("gradients exchanged in one block", 2)],
)
def test_attention_that_differs_in_one_micro_batch_is_not_joined(
    blocks: tuple[int, int], wrong: str, outputs: int
) -> None:
    tables = accumulated(*blocks, wrong).tables()
    derived = derive(tables)
    assert len(derived.unproved) >= outputs
    assert audit(tables, derived.claims, trials=2).false == []
    assert find_counterexample(load_program(tables)).best is not None
