"""Values side by side that are cut and regrouped, look-ups of which one rank has what is not zero, heads that ranks
share."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.pairing.builder import Distributed, Pair

from .zoo import MERGED, attention, offset, program, rms

SIZES = (16, 8, 8)


def fused(p: Pair) -> tuple[Tensor, Tensor]:
    """x @ w, of which the columns are three values side by side."""
    y = p.base.matmul(p.base.input("x", (8, 16)), p.base.input("w", (16, sum(SIZES))))
    return y, p.dist.matmul(p.dist.shard("x"), p.dist.shard("w", {1: "tp"}, parts=(1, SIZES)))


def looked_up(p: Pair) -> tuple[Tensor, Tensor]:
    """Rows of a table that ranks hold in blocks: each keeps its own under a mask."""
    b, d = p.base, p.dist
    whole = b.embedding(b.input("table", (32, 8)), b.input("ids", (6,), "s32", range=(0, 32)))
    return whole, masked_rows(d, d.shard("table", {0: "tp"}), d.shard("ids"))


def masked_rows(d: Distributed, table: Tensor, ids: Tensor) -> Tensor:
    """What a rank finds in its block of rows, zero for the others."""
    rows, width = table.shape
    first = d.broadcast(offset(d, "tp", rows), ids.shape, [])
    own = d.subtract(ids, first)
    kept = d.compare(own, d.broadcast(d.constant(0, "s32"), ids.shape, []), direction="GE")
    kept = getattr(d, "and")(kept, d.compare(own, d.broadcast(d.constant(rows, "s32"), ids.shape, []), direction="LT"))
    safe = d.select(kept, own, d.broadcast(d.constant(0, "s32"), ids.shape, []))
    found = d.embedding(table, safe)
    mask = d.broadcast(kept, (*ids.shape, width), [0])
    return d.select(mask, found, d.full(0.0, (*ids.shape, width)))


@program("tp=2")
def cut_where_the_parts_meet(p: Pair, ok: bool) -> None:
    y, mine = fused(p)
    p.base.output(p.base.tanh(p.base.slice(y, 1, 16, 24)))
    start = 8 if ok else 7
    p.dist.output(p.dist.tanh(p.dist.slice(mine, 1, start, start + 4)))


@program("tp=2", wrong=False, into=MERGED)
def pieces_across_parts_put_together(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y, mine = fused(p)
    b.output(b.matmul(b.tanh(y), b.input("v", (32, 4))))
    mine = d.concatenate([d.tanh(d.slice(mine, 1, 0, 6)), d.tanh(d.slice(mine, 1, 6, 16))], 1)
    d.output(d.all_reduce(d.matmul(mine, d.shard("v", {0: "tp"}, parts=(0, SIZES))), "tp"))


@program("tp=2", wrong=False, into=MERGED)
def pieces_across_parts_gathered(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y, mine = fused(p)
    b.output(b.tanh(b.slice(y, 1, 16, 32)))
    whole = d.all_gather(d.reshape(d.slice(mine, 1, 7, 16), (1, 8, 9)), "tp", 0)
    cut = d.slice(whole, 2, 1, 9)
    both = [d.reshape(d.slice(cut, 0, n, n + 1), (8, 8)) for n in (0, 1)]
    keys, values = ([d.slice(x, 1, at, at + 4) for x in both] for at in (0, 4))
    d.output(d.tanh(d.concatenate([*keys, *values], 1)))


@program("tp=2")
def rows_side_by_side_regrouped(p: Pair, ok: bool) -> None:
    """Two sequences whose positions are over ranks, one behind the other, as rows of one matrix."""
    b, d = p.base, p.dist
    x, y = (b.input(n, (8, 2, 4)) for n in "xy")
    both = b.reshape(b.concatenate([x, y], 0), (32, 4))
    b.output(b.slice(b.tanh(b.matmul(both, b.input("w", (4, 8)))), 0, 0, 16))
    x, y = (d.shard(n, {0: "tp"}) for n in "xy")
    both = d.reshape(d.concatenate([x, y], 0), (16, 4))
    d.output(d.slice(d.tanh(d.matmul(both, d.shard("w"))), 0, 0 if ok else 1, 8 if ok else 9))


@program("tp=2", right=False)
def rows_of_a_sequence_twice(p: Pair, ok: bool) -> None:
    """A block repeated where all blocks were to be gathered, in front of columns over the same ranks."""
    b, d = p.base, p.dist
    b.output(b.tanh(b.matmul(b.input("x", (8, 4)), b.input("w", (4, 8)))))
    x = d.shard("x", {0: "tp"})
    d.output(d.tanh(d.matmul(d.concatenate([x, x], 0), d.shard("w", {1: "tp"}))))


@program("tp=2")
def rows_of_a_split_table_normed(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, mine = looked_up(p)
    b.output(b.add(b.matmul(rms(b, x, b.input("g", (8,)), 1), b.input("w", (8, 4))), b.input("bias", (6, 4))))
    mine = d.all_reduce(mine, "tp") if ok else mine
    d.output(d.add(d.matmul(rms(d, mine, d.shard("g"), 1), d.shard("w", {1: "tp"})), d.shard("bias", {1: "tp"})))


@program("tp=2", wrong=False, into=MERGED)
def squares_of_rows_of_a_split_table(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, mine = looked_up(p)
    b.output(b.reduce(b.multiply(x, x), 1))
    d.output(d.all_reduce(d.reduce(d.multiply(mine, mine), 1), "tp"))


@program("tp=2", wrong=False, into=MERGED)
def rows_of_a_split_table_normed_and_then_reduced(p: Pair, ok: bool) -> None:
    """What is zero stays zero: where no rank's zeros become something else, the sum may be taken behind."""
    b, d = p.base, p.dist
    x, mine = looked_up(p)
    b.output(rms(b, x, b.input("g", (8,)), 1))
    d.output(d.all_reduce(rms(d, mine, d.shard("g"), 1), "tp"))


@program("tp=4")
def keys_that_two_ranks_share(p: Pair, ok: bool) -> None:
    """Fewer heads of keys than ranks: each rank has a head of queries, and the one of keys that it goes with."""
    b, d = p.base, p.dist
    k, v = (b.broadcast(b.input(name, (2, 8, 16)), (2, 2, 8, 16), [0, 2, 3]) for name in "kv")
    b.output(attention(b, b.input("q", (4, 8, 16)), b.reshape(k, (4, 8, 16)), b.reshape(v, (4, 8, 16))))
    here = "tp:2" if ok else "tp:(2)2"
    d.output(attention(d, d.shard("q", {0: "tp"}), d.shard("k", {0: here}), d.shard("v", {0: here})))


@program("tp=4", wrong=False)
def one_head_of_keys_for_all(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    k, v = (b.broadcast(b.reshape(b.input(name, (1, 8, 16)), (8, 16)), (4, 8, 16), [1, 2]) for name in "kv")
    b.output(attention(b, b.input("q", (4, 8, 16)), k, v))
    d.output(attention(d, d.shard("q", {0: "tp"}), d.shard("k"), d.shard("v")))


@program("tp=2", right=False)
def parts_of_a_sum_rounded_to_integers(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.convert(b.multiply(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 4))), 8.0), "s32"))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    d.output(d.all_reduce(d.convert(d.multiply(y, 8.0), "s32"), "tp"))


@program("tp=2", wrong=False)
def bias_times_a_mask_of_the_rank(p: Pair, ok: bool) -> None:
    """Added on one rank, as a product with 1 or 0."""
    b, d = p.base, p.dist
    y, bias = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 4))), b.input("b", (4,))
    b.output(b.tanh(b.add(y, b.broadcast(bias, (8, 4), [1]))))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    first = d.convert(d.compare(offset(d, "tp", 1), d.constant(0, "s32"), direction="EQ"), "f32")
    bias = d.multiply(d.broadcast(d.shard("b"), (8, 4), [1]), d.broadcast(first, (8, 4), []))
    d.output(d.tanh(d.all_reduce(d.add(y, bias), "tp")))
