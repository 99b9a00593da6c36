"""Dims of which every rank has one element (one head, one expert): programs leave them out and put them in (zoo)."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair

from .zoo import offset, program

ROWS = 8


def softmax_backward(p: Program, scores: Tensor, g: Tensor, gone: tuple[int, ...]) -> Tensor:
    """Of [heads, queries, keys], as JAX writes it: a sum that goes back to the shape of the row sums leaves out dims of
    size 1 and puts them back."""
    heads, queries, _ = scores.shape
    e = p.exponential(scores)
    total = p.reduce(e, 2)
    whole = p.broadcast(total, e.shape, [0, 1])
    rows = p.reshape(p.reduce(p.multiply(p.divide(g, p.multiply(whole, whole)), e), 2), (heads, queries, 1))
    back = p.reduce(p.negate(rows), gone)
    kept = p.broadcast(back, (heads, queries), [d for d in (0, 1) if d not in gone])
    return p.multiply(p.add(p.divide(g, whole), p.broadcast(kept, e.shape, [0, 1])), e)


@program("tp=4")
def softmax_of_one_head_on_each_rank(p: Pair, ok: bool) -> None:
    """The sum over its one head is none; wrong: the gradient of the shared keys is not summed over heads."""
    b, d = p.base, p.dist
    q, k, g = b.input("q", (4, ROWS, 8)), b.input("k", (ROWS, 8)), b.input("g", (4, ROWS, ROWS))
    ds = softmax_backward(b, b.dot(q, k, ([2], [1])), g, (2,))
    b.output(b.dot(ds, q, ([0, 1], [0, 1])))
    q, k, g = d.shard("q", {0: "tp"}), d.shard("k"), d.shard("g", {0: "tp"})
    ds = softmax_backward(d, d.dot(q, k, ([2], [1])), g, (0, 2))
    dk = d.dot(ds, q, ([0, 1], [0, 1]))
    d.output(d.all_reduce(dk, "tp") if ok else dk)


@program("tp=4", wrong=False)
def head_left_out_by_a_reshape(p: Pair, ok: bool) -> None:
    """The sum over heads is a reshape on a rank that has one, and a sum over ranks behind a product."""
    b, d = p.base, p.dist
    g, x = b.input("g", (ROWS, 4, 8)), b.input("x", (ROWS, 16))
    b.output(b.dot(x, b.reduce(g, 1), ([0], [0])))
    g, x = d.shard("g", {1: "tp"}), d.shard("x")
    d.output(d.all_reduce(d.dot(x, d.reshape(g, (ROWS, 8)), ([0], [0])), "tp"))


@program("tp=4", wrong=False)
def experts_added_over_ranks(p: Pair, ok: bool) -> None:
    """Blocks of one element that are reduced over all ranks are a sum along their dim."""
    b, d = p.base, p.dist
    x = b.input("x", (4, ROWS, 8))
    b.output(b.tanh(b.reshape(b.reduce(x, 0), (1, ROWS, 8))))
    d.output(d.tanh(d.all_reduce(d.shard("x", {0: "tp"}), "tp")))


@program("tp=2", wrong=False)
def gradient_of_a_read_under_a_mask(p: Pair, ok: bool) -> None:
    """The rank's labels are written into its part of the vocabulary."""
    b, d = p.base, p.dist
    numbers = {"update_window_dims": [], "inserted_window_dims": [1], "scatter_dims_to_operand_dims": [1],
               "input_batching_dims": [0], "scatter_indices_batching_dims": [0], "index_vector_dim": [2]}  # fmt: skip
    ids, g = b.input("ids", (ROWS,), "s32", range=(0, 32)), b.input("g", (ROWS,))
    zeros, at = b.full(0.0, (ROWS, 32)), b.reshape(ids, (ROWS, 1, 1))
    b.output(b.op("scatter", zeros, at, b.reshape(g, (ROWS, 1)), reducer="sum", **numbers).result)
    ids, g = d.shard("ids"), d.shard("g")
    low = d.broadcast(offset(d, "tp", 16), (ROWS,), [])
    mine = d.subtract(ids, low)
    mask = getattr(d, "and")(d.compare(mine, 0, direction="GE"), d.compare(mine, 16, direction="LT"))
    at = d.reshape(d.select(mask, mine, d.full(0, (ROWS,), "s32")), (ROWS, 1, 1))
    kept = d.reshape(d.select(mask, g, d.full(0.0, (ROWS,))), (ROWS, 1))
    d.output(d.op("scatter", d.full(0.0, (ROWS, 16)), at, kept, reducer="sum", **numbers).result)


@program("dp=2,tp=2")
def embedding_gradient_of_some_tokens_and_some_rows(p: Pair, ok: bool) -> None:
    """Tokens over dp, rows of the table over tp; wrong: what ranks of dp have is not summed."""
    b, d = p.base, p.dist
    numbers = {"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
               "index_vector_dim": [1]}  # fmt: skip
    ids, g = b.input("ids", (ROWS,), "s32", range=(0, 32)), b.input("g", (ROWS, 4))
    zeros, at = b.full(0.0, (32, 4)), b.reshape(ids, (ROWS, 1))
    b.output(b.tanh(b.op("scatter", zeros, at, g, reducer="sum", **numbers).result))
    ids, g = d.shard("ids", {0: "dp"}), d.shard("g", {0: "dp"})
    mine = d.subtract(ids, d.broadcast(offset(d, "tp", 16), ids.shape, []))
    mask = getattr(d, "and")(d.compare(mine, 0, direction="GE"), d.compare(mine, 16, direction="LT"))
    at = d.reshape(d.select(mask, mine, d.full(0, ids.shape, "s32")), (*ids.shape, 1))
    kept = d.select(d.broadcast(mask, g.shape, [0]), g, d.full(0.0, g.shape))
    rows = d.op("scatter", d.full(0.0, (16, 4)), at, kept, reducer="sum", **numbers).result
    d.output(d.tanh(d.all_reduce(rows, "dp") if ok else rows))
