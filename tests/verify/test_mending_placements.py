"""Values whose parts are with other ranks than their readers need: they are sent there, gathered, or summed where they
are made."""

from __future__ import annotations

import pytest

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import RootCause, Verdict
from scalify_dl.report.conclude import conclude


def first_cause(pair: Pair) -> RootCause:
    found = conclude(analyse(pair.facts(), Options()))
    assert found.verdict is Verdict.REFUTED
    return found.frontier[0]


def blocks_in_another_order(order: list[str]) -> Pair:
    """A product of two values cut along the same dim, one over the axes of the mesh in this order."""
    pair = Pair("dp=2,tp=2")
    b, d = pair.base, pair.dist
    b.output(b.exponential(b.multiply(b.tanh(b.input("x", (8, 3))), b.input("y", (8, 3)))))
    d.output(d.exponential(d.multiply(d.tanh(d.shard("x", {0: order})), d.shard("y", {0: ["dp", "tp"]}))))
    return pair


def test_blocks_in_the_order_of_the_axes_are_right() -> None:
    assert conclude(analyse(blocks_in_another_order(["dp", "tp"]).facts(), Options())).verdict is Verdict.PROVED


def test_blocks_that_are_with_other_ranks_are_sent_to_theirs() -> None:
    cause = first_cause(blocks_in_another_order(["tp", "dp"]))
    assert cause.suggestion[0].startswith("collective-permute tanh: rank 2's part to rank 1")
    assert any("PROVED" in text for text in cause.tried)


def test_a_block_of_another_dim_is_sent_where_the_product_needs_it() -> None:
    """A reader has rows over one axis, what it reads has them over another: both are right placements."""
    pair = Pair("dp=2,tp=2")
    b, d = pair.base, pair.dist
    b.output(b.matmul(b.tanh(b.input("x", (4, 8))), b.input("w", (8, 3))))
    y = d.matmul(d.tanh(d.shard("x", {1: "dp"})), d.shard("w", {0: "tp"}))
    d.output(d.all_reduce(y, "tp"))
    cause = first_cause(pair)
    assert cause.suggestion[0].startswith("collective-permute tanh: ")
    assert any("PROVED" in text for text in cause.tried)


def scored(p: Program, x: Tensor, w: Tensor, k: Tensor) -> None:
    """Scores of queries, and their gradient of the keys."""
    q = p.multiply(p.matmul(x, w), 0.5)
    scores = p.exponential(p.dot(q, k, ([1], [1])))
    largest = p.reduce(scores, [0, 1], "max")
    p.output(p.all_reduce(largest, "tp", "max") if p.graph.name == "dist" else largest)
    p.output(p.dot(scores, q, ([0], [0])))


def test_a_sum_whose_parts_are_read_by_a_backward_too_is_taken_where_they_are_made() -> None:
    """Queries in parts: scores are linear in them, so the first to need the whole is a mask; the gradient of the keys
    needs it, too, and comes later."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    scored(b, b.input("x", (4, 8)), b.input("w", (8, 6)), b.input("k", (5, 6)))
    scored(d, d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}), d.shard("k"))
    cause = first_cause(pair)
    assert cause.suggestion == ("all-reduce(sum) over tp after dot",)
    assert cause.tried == ("with this edit all outputs are PROVED",)


@pytest.mark.parametrize("axis", ["tp", "dp"])
def test_a_repeated_part_of_a_mask_is_gathered(axis: str) -> None:
    pair = Pair("dp=2,tp=2")
    b, d = pair.base, pair.dist
    mask = b.compare(b.input("m", (8,)), 0.0, direction="GT")
    b.output(b.select(mask, b.exponential(b.input("x", (8,))), b.full(-1.0, (8,))))
    mask = d.compare(d.shard("m", {0: axis}), 0.0, direction="GT")
    d.output(d.select(d.concatenate([mask, mask], 0), d.exponential(d.shard("x")), d.full(-1.0, (8,))))
    cause = first_cause(pair)
    assert cause.suggestion == (f"all-gather over {axis}",)
    assert cause.tried == ("with this edit the output is PROVED",)


def test_a_repeated_part_whose_numbers_are_those_of_the_whole_is_gathered_where_the_proof_stops() -> None:
    """Blocks of columns, put one below the other and then side by side: every number is there, as often as others."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    b.output(b.exponential(b.matmul(b.input("x", (4, 6)), b.input("w", (6, 8)))))
    y = d.matmul(d.shard("x"), d.shard("w", {1: "tp"}))
    rows = d.concatenate([y, y], 0)
    d.output(d.exponential(d.reshape(d.transpose(d.reshape(rows, (2, 4, 4)), 1, 0, 2), (4, 8))))
    cause = first_cause(pair)
    assert cause.suggestion == ("all-gather over tp",)
    assert cause.tried == ("with this edit the output is PROVED",)


def test_a_value_in_blocks_of_whole_axes_is_not_said_to_be_with_other_ranks() -> None:
    """Of four blocks over one axis, another order (of the axis in two pieces) is no likelier than the one that is."""
    pair = Pair("tp=4")
    b, d = pair.base, pair.dist
    b.output(b.matmul(b.sine(b.tanh(b.input("x", (8, 8)))), b.input("w", (8, 8))))
    d.shard("w", {})
    d.output(d.cumulative(d.tanh(d.shard("x", {0: "tp"})), 1))
    found = conclude(analyse(pair.facts(), Options()))
    assert found.verdict is Verdict.REFUTED
    assert [cause.op for cause in found.frontier] == ["cumulative"]
