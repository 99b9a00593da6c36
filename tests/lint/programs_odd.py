"""Right programs that go an odd way: sums of blocks before a sum within them, repeats that are averaged, maxima of what
one rank has. Whatever lint says of them, it is not that they are wrong."""

from __future__ import annotations

from scalify_dl.pairing.builder import Pair

from .programs_parts import masked_rows
from .zoo import MERGED, block, mean, offset, program


@program("dp=2", wrong=False, into=MERGED)
def blocks_added_and_then_summed(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.reduce(b.input("x", (8, 4)), 0)))
    d.output(d.tanh(d.reduce(d.all_reduce(d.shard("x", {0: "dp"}), "dp"), 0)))


@program("dp=2", wrong=False, into=MERGED)
def largest_of_blocks_and_then_within(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.reduce(b.input("x", (8, 4)), 0, "max")))
    d.output(d.tanh(d.reduce(d.all_reduce(d.shard("x", {0: "dp"}), "dp", "max"), 0, "max")))


@program("dp=2", wrong=False, into=MERGED)
def blocks_averaged_and_then_averaged(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(mean(b, b.input("x", (8, 4)), [0, 1], 32))
    d.output(mean(d, d.divide(d.all_reduce(d.shard("x", {0: "dp"}), "dp"), 2.0), [0, 1], 16))


@program("tp=2", wrong=False, into=MERGED)
def repeats_averaged(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.input("x", (8, 4))))
    both = d.all_gather(d.reshape(d.shard("x"), (1, 8, 4)), "tp", 0)
    d.output(d.tanh(mean(d, both, [0], 2)))


@program("tp=2", wrong=False, into=MERGED)
def first_of_the_repeats(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.input("x", (8, 4))))
    both = d.all_gather(d.shard("x"), "tp", 0)
    d.output(d.tanh(d.slice(both, 0, 0, 8)))


@program("tp=2", wrong=False, into=MERGED)
def rows_that_are_never_negative_by_the_maximum(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    ids = b.input("ids", (6,), "s32", range=(0, 32))
    b.output(b.embedding(b.exponential(b.input("table", (32, 8))), ids))
    rows = masked_rows(d, d.exponential(d.shard("table", {0: "tp"})), d.shard("ids"))
    d.output(d.all_reduce(rows, "tp", "max"))


@program("tp=2", wrong=False, into=MERGED)
def bias_halved_on_either_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 4)))
    b.output(b.tanh(b.add(y, b.broadcast(b.input("bias", (4,)), (8, 4), [1]))))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    half = d.broadcast(d.multiply(d.shard("bias"), 0.5), (8, 4), [1])
    d.output(d.tanh(d.all_reduce(d.add(y, half), "tp")))


@program("tp=2", wrong=False, into=MERGED)
def correction_of_a_bias_counted_twice(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 4)))
    b.output(b.tanh(b.add(y, b.broadcast(b.input("bias", (4,)), (8, 4), [1]))))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    bias = d.broadcast(d.shard("bias"), (8, 4), [1])
    d.output(d.tanh(d.subtract(d.all_reduce(d.add(y, bias), "tp"), bias)))


@program("tp=2", wrong=False, into=MERGED)
def square_of_a_sum_from_both_parts(p: Pair, ok: bool) -> None:
    """(a + b)^2 = a^2 + b^2 + 2ab, with the other's part sent over."""
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 4)))
    b.output(b.multiply(y, y))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    other = d.permute(y, [(0, 1), (1, 0)])
    d.output(d.all_reduce(d.add(d.multiply(y, y), d.multiply(y, other)), "tp"))


@program("tp=2", wrong=False, into=MERGED)
def variance_from_the_ranks_own(p: Pair, ok: bool) -> None:
    """Variances of equal shares: mean of variances plus variance of means."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    m = mean(b, x, [1], 16)
    b.output(b.subtract(mean(b, b.multiply(x, x), [1], 16), b.multiply(m, m)))
    x = d.shard("x", {1: "tp"})
    m = mean(d, x, [1], 8)
    own = d.subtract(mean(d, d.multiply(x, x), [1], 8), d.multiply(m, m))
    whole = d.divide(d.all_reduce(m, "tp"), 2.0)
    off = d.subtract(m, whole)
    d.output(d.divide(d.all_reduce(d.add(own, d.multiply(off, off)), "tp"), 2.0))


@program("tp=2", wrong=False, into=MERGED)
def residual_kept_by_one_rank_as_a_number(p: Pair, ok: bool) -> None:
    """Times one on the first rank, times zero on the other."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.tanh(b.add(x, b.matmul(x, b.input("w", (16, 16))))))
    x = d.shard("x")
    y = d.matmul(block(d, x, 1, "tp"), d.shard("w", {0: "tp"}))
    first = d.subtract(d.constant(1, "s32"), offset(d, "tp", 1))
    share = d.multiply(x, d.broadcast(d.convert(first, "f32"), x.shape, []))
    d.output(d.tanh(d.all_reduce(d.add(y, share), "tp")))


@program("tp=2", wrong=False, into=MERGED)
def heads_in_turn_on_every_rank(p: Pair, ok: bool) -> None:
    """Blocks that are gathered in another order, and put in theirs by a reshape and a transpose."""
    b, d = p.base, p.dist
    b.output(b.tanh(b.input("x", (8, 4))))
    x = d.all_to_all(d.shard("x", {0: "tp"}), "tp", 1, 0)
    d.output(d.tanh(d.all_gather(x, "tp", 1)))


@program("ep=2")
def all_tokens_for_each_expert_beside_a_shared_one(p: Pair, ok: bool) -> None:
    """Tokens are repeated for the rank's experts, as many as it holds of them; wrong: the shared expert is added once
    per rank."""
    b, d = p.base, p.dist
    x, experts, shared = b.input("x", (8, 6)), b.input("experts", (4, 6, 6)), b.input("shared", (6, 6))
    every = b.dot(b.broadcast(x, (4, 8, 6), [1, 2]), experts, ([2], [1]), ([0], [0]))
    b.output(b.add(b.reduce(every, 0), b.matmul(x, shared)))
    x, experts, shared = d.shard("x"), d.shard("experts", {0: "ep"}), d.shard("shared")
    mine = d.reduce(d.dot(d.broadcast(x, (2, 8, 6), [1, 2]), experts, ([2], [1]), ([0], [0])), 0)
    more = d.matmul(x, shared)
    d.output(d.add(d.all_reduce(mine, "ep"), more) if ok else d.all_reduce(d.add(mine, more), "ep"))


@program("tp=2")
def columns_summed_by_a_row_of_one_number(p: Pair, ok: bool) -> None:
    """The row is as long as the rank's block; wrong: not summed over ranks."""
    b, d = p.base, p.dist
    b.output(b.matmul(b.broadcast(b.tanh(b.input("s", ())), (1, 8), []), b.input("x", (8, 4))))
    y = d.matmul(d.broadcast(d.tanh(d.shard("s")), (1, 4), []), d.shard("x", {0: "tp"}))
    d.output(d.all_reduce(y, "tp") if ok else y)
