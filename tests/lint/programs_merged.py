"""Right programs in which ranks first do something for themselves and put it right behind: whatever lint says of
them, it is not that they are wrong."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair

from .zoo import MERGED, offset, program


@program("tp=2", wrong=False, into=MERGED)
def largest_of_the_largest(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.top_k(b.input("x", (8, 16)), 2)[0])
    values, _ = d.top_k(d.shard("x", {1: "tp"}), 2)
    d.output(d.top_k(d.all_gather(values, "tp", 1), 2)[0])


@program("tp=2", wrong=False, into=MERGED)
def sorted_parts_that_are_sorted_again(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.sort(b.input("x", (8, 4)), 0))
    d.output(d.sort(d.all_gather(d.sort(d.shard("x", {0: "tp"}), 0), "tp", 0), 0))


@program("cp=2", wrong=False, into=MERGED)
def running_sum_with_the_sums_of_those_before(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.cumulative(b.input("x", (8, 4)), 0))
    x = d.shard("x", {0: "cp"})
    totals = d.all_gather(d.reshape(d.reduce(x, 0), (1, 4)), "cp", 0)
    before = d.compare(d.iota((2, 4), 0), d.broadcast(offset(d, "cp", 1), (2, 4), []), direction="LT")
    sums = d.reduce(d.select(before, totals, d.full(0.0, (2, 4))), 0)
    d.output(d.add(d.cumulative(x, 0), d.broadcast(sums, (4, 4), [1])))


@program("tp=2", wrong=False, into=MERGED)
def softmax_rescaled_by_the_maximum_of_all(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.softmax(b.input("x", (8, 16)), 1))
    x = d.shard("x", {1: "tp"})
    mine = d.reduce(x, 1, "max")
    e = d.exponential(d.subtract(x, d.broadcast(mine, x.shape, [0])))
    top = d.all_reduce(mine, "tp", "max")
    rescale = d.exponential(d.subtract(mine, top))
    total = d.all_reduce(d.multiply(d.reduce(e, 1), rescale), "tp")
    d.output(d.multiply(e, d.broadcast(d.divide(rescale, total), x.shape, [0])))


@program("cp=2", wrong=False, into=MERGED)
def logarithms_of_sums_put_together(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.log(b.reduce(b.exponential(b.input("x", (8, 16))), 1)))
    mine = d.log(d.reduce(d.exponential(d.shard("x", {1: "cp"})), 1))
    d.output(d.log(d.all_reduce(d.exponential(mine), "cp")))


def _step(p: Program, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return p.matmul(p.matmul(q, p.transpose(k, 1, 0)), v)


@program("cp=2", wrong=False, into=MERGED)
def attention_round_a_ring(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(_step(b, *(b.input(n, (8, 4)) for n in "qkv")))
    q, k, v = (d.shard(n, {0: "cp"}) for n in "qkv")
    first = _step(d, q, k, v)
    pairs = [(0, 1), (1, 0)]
    d.output(d.add(first, _step(d, q, d.permute(k, pairs), d.permute(v, pairs))))


@program("tp=2", wrong=False, into=MERGED)
def part_of_a_whole_value_on_one_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))
    b.output(b.add(y, b.broadcast(b.input("bias", (32,)), (8, 32), [1])))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    first = d.compare(offset(d, "tp", 1), d.constant(0, "s32"), direction="EQ")
    bias = d.broadcast(d.shard("bias"), (8, 32), [1])
    kept = d.select(d.broadcast(first, (8, 32), []), bias, d.full(0.0, (8, 32)))
    d.output(d.all_reduce(d.add(y, kept), "tp"))


@program("tp=2", wrong=False, into=MERGED)
def own_softmax_rescaled_by_own_sum(p: Pair, ok: bool) -> None:
    """Each rank norms by its own sum first, and gives that back behind."""
    b, d = p.base, p.dist
    b.output(b.softmax(b.input("x", (8, 16)), 1))
    x = d.shard("x", {1: "tp"})
    total = d.reduce(d.exponential(x), 1)
    mine = d.exponential(d.subtract(x, d.broadcast(d.log(total), x.shape, [0])))
    share = d.divide(total, d.all_reduce(total, "tp"))
    d.output(d.multiply(mine, d.broadcast(share, x.shape, [0])))


@program("cp=2", wrong=False, into=MERGED)
def own_attention_put_together_by_logarithms(p: Pair, ok: bool) -> None:
    """Flash decoding: what each rank finds in its keys, weighted by exp(own log of sums - that of all)."""
    b, d = p.base, p.dist
    s, v = b.input("s", (8, 16)), b.input("v", (16, 4))
    b.output(b.matmul(b.softmax(s, 1), v))
    s, v = d.shard("s", {1: "cp"}), d.shard("v", {0: "cp"})
    own = d.log(d.reduce(d.exponential(s), 1))
    y = d.matmul(d.exponential(d.subtract(s, d.broadcast(own, s.shape, [0]))), v)
    both = d.reduce(d.exponential(d.all_gather(d.reshape(own, (1, 8)), "cp", 0)), 0)
    weight = d.exponential(d.subtract(own, d.log(both)))
    d.output(d.all_reduce(d.multiply(y, d.broadcast(weight, y.shape, [0])), "cp"))


@program("cp=2", wrong=False, into=MERGED)
def own_means_weighted_by_own_counts(p: Pair, ok: bool) -> None:
    """The mean over a rank's tokens, times its share of all tokens, summed."""
    b, d = p.base, p.dist
    x, mask = b.input("x", (8,)), b.input("mask", (8,))
    b.output(b.divide(b.reduce(b.multiply(x, mask), 0), b.reduce(mask, 0)))
    x, mask = d.shard("x", {0: "cp"}), d.shard("mask", {0: "cp"})
    count = d.reduce(mask, 0)
    own = d.divide(d.reduce(d.multiply(x, mask), 0), count)
    d.output(d.all_reduce(d.multiply(own, d.divide(count, d.all_reduce(count, "cp"))), "cp"))


@program("tp=2", wrong=False, into=MERGED)
def norms_of_all_ranks_gathered(p: Pair, ok: bool) -> None:
    """The norm of the norms."""
    b, d = p.base, p.dist
    g = b.input("g", (8, 4))
    b.output(b.divide(g, b.broadcast(b.sqrt(b.reduce(b.multiply(g, g), [0, 1])), (8, 4), [])))
    g = d.shard("g", {0: "tp"})
    own = d.sqrt(d.reduce(d.multiply(g, g), [0, 1]))
    each = d.all_gather(d.reshape(own, (1,)), "tp", 0)
    d.output(d.divide(g, d.broadcast(d.sqrt(d.reduce(d.multiply(each, each), 0)), (4, 4), [])))


@program("tp=2", wrong=False, into=MERGED)
def rows_whose_rank_is_a_quotient(p: Pair, ok: bool) -> None:
    """Row i is the rank's where i / rows is the rank, and its row i % rows there."""
    b, d = p.base, p.dist
    ids = b.input("ids", (6,), "s32", range=(0, 8))
    b.output(b.tanh(b.embedding(b.input("t", (8, 4)), ids)))
    ids, rows = d.shard("ids"), d.full(4, (6,), "s32")
    mine = d.compare(d.divide(ids, rows), d.broadcast(offset(d, "tp", 1), (6,), []), direction="EQ")
    found = d.embedding(d.shard("t", {0: "tp"}), d.remainder(ids, rows))
    found = d.select(d.broadcast(mine, (6, 4), [0]), found, d.full(0.0, (6, 4)))
    d.output(d.tanh(d.all_reduce(found, "tp")))


@program("tp=2", wrong=False, into=MERGED)
def taken_off_once_too_often_and_added_again(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 4)))
    b.output(b.tanh(b.subtract(y, b.input("r", (8, 4)))))
    y, r = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"})), d.shard("r")
    d.output(d.tanh(d.add(d.all_reduce(d.subtract(y, r), "tp"), r)))
