"""Means over ranks that have the same, and shares of a sum, in the ways that people write them."""

from __future__ import annotations

from scalify_dl.pairing.builder import Pair

from .zoo import MERGED, block, mean, program


@program("tp=4")
def mean_of_alike_divided_before(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.multiply(b.input("x", (8, 16)), 2.0)))
    x = d.multiply(d.shard("x"), 2.0)
    y = d.divide(x, 4.0) if ok else x
    d.output(d.tanh(d.all_reduce(y, "tp")))


@program("tp=4")
def mean_of_alike_divided_behind(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.exponential(b.tanh(b.input("x", (8, 16)))))
    y = d.all_reduce(d.tanh(d.shard("x")), "tp")
    d.output(d.exponential(d.divide(y, 4.0 if ok else 2.0)))


@program("dp=2,tp=2")
def loss_averaged_over_all(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 8)))
    b.output(mean(b, b.multiply(y, y), [0, 1], 64))
    y = d.matmul(d.shard("x", {0: "dp"}), d.shard("w"))
    loss = mean(d, d.multiply(y, y), [0, 1], 32)
    loss = d.all_reduce(loss, ["dp", "tp"])
    d.output(d.divide(loss, 4.0) if ok else d.multiply(loss, loss))


@program("dp=4")
def weights_averaged(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.relu(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 8)))))
    w = d.all_reduce(d.shard("w"), "dp")
    if ok:
        w = d.divide(w, 4.0)
    d.output(d.relu(d.matmul(d.shard("x", {0: "dp"}), w)))


@program("dp=2")
def weights_moved_on_each_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    g = b.divide(b.matmul(b.input("x", (16, 8)), b.input("y", (8, 4))), 8.0)
    b.output(b.subtract(b.input("w", (16, 4)), g))
    g = d.divide(d.matmul(d.shard("x", {1: "dp"}), d.shard("y", {0: "dp"})), 4.0)
    w = d.all_reduce(d.subtract(d.shard("w"), g), "dp")
    d.output(d.divide(w, 2.0) if ok else w)


@program("dp=2")
def ema_synced(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.add(b.multiply(b.input("e", (16, 8)), 0.75), b.multiply(b.input("w", (16, 8)), 0.25)))
    e = d.add(d.multiply(d.shard("e"), 0.75), d.multiply(d.shard("w"), 0.25))
    e = d.all_reduce(e, "dp")
    d.output(d.multiply(e, 0.5) if ok else e)


@program("dp=2,tp=2")
def mean_in_two_steps(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.sqrt(b.abs(mean(b, b.input("x", (8,)), [0], 8))))
    loss = mean(d, d.shard("x", {0: "dp"}), [0], 4)
    loss = d.divide(d.all_reduce(loss, "dp"), 2.0)
    loss = d.all_reduce(loss, "tp")
    d.output(d.sqrt(d.abs(d.divide(loss, 2.0) if ok else loss)))


@program("dp=4")
def loss_times_quarter(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(mean(b, b.input("x", (8, 4)), [0, 1], 32))
    loss = d.multiply(mean(d, d.shard("x", {0: "dp"}), [0, 1], 8), 0.25)
    loss = d.all_reduce(loss, "dp")
    d.output(loss if ok else d.exponential(d.all_reduce(loss, "dp")))


@program("tp=2")
def whole_gradient_divided_in_norm(p: Pair, ok: bool) -> None:
    """A replicated weight's square is divided by tp, so that a sum over tp counts it once."""
    b, d = p.base, p.dist
    g, h = b.input("g", (16, 8)), b.input("h", (8,))
    b.output(b.sqrt(b.add(b.reduce(b.multiply(g, g), [0, 1]), b.reduce(b.multiply(h, h), 0))))
    g, h = d.shard("g", {0: "tp"}), d.shard("h")
    s, t = d.reduce(d.multiply(g, g), [0, 1]), d.reduce(d.multiply(h, h), 0)
    t = d.divide(t, 2.0) if ok else t
    d.output(d.sqrt(d.all_reduce(d.add(s, t), "tp")))


@program("tp=4", wrong=False)
def mean_gradient_of_a_sum_of_means(p: Pair, ok: bool) -> None:
    """psum of a cotangent that is alike, undone by the mean of gradients over the same ranks."""
    b, d = p.base, p.dist
    x, w = b.input("x", (8, 16)), b.input("w", (16, 4))
    y = b.matmul(x, w)
    g = b.dot(x, b.multiply(y, 0.125), ([0], [0]))
    b.output(b.subtract(w, g))
    x, w = d.shard("x", {0: "tp"}), d.shard("w")
    y = d.matmul(x, w)
    c = d.all_reduce(d.constant(0.125), "tp")
    g = d.dot(x, d.multiply(y, d.broadcast(c, y.shape, [])), ([0], [0]))
    d.output(d.subtract(w, d.divide(d.all_reduce(g, "tp"), 4.0)))


@program("dp=4", wrong=False)
def mean_by_a_reshaped_and_cast_value(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.reshape(b.transpose(b.input("x", (8, 4)), 1, 0), (32,))))
    x = d.reshape(d.transpose(d.all_reduce(d.shard("x"), "dp"), 1, 0), (32,))
    d.output(d.tanh(d.multiply(x, 0.25)))


@program("dp=4", wrong=False)
def mean_by_a_scattered_sum(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.input("x", (8, 4))))
    x = d.all_gather(d.divide(d.reduce_scatter(d.shard("x"), "dp", 0), 4.0), "dp", 0)
    d.output(d.tanh(x))


@program("dp=2,tp=2", wrong=False)
def metrics_stacked_and_averaged(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, y = b.input("x", (8,)), b.input("y", (8,))
    b.output(b.concatenate([b.reshape(mean(b, x, [0], 8), (1,)), b.reshape(mean(b, y, [0], 8), (1,))], 0))
    x, y = d.shard("x", {0: "dp"}), d.shard("y", {0: "dp"})
    m = d.concatenate([d.reshape(mean(d, x, [0], 4), (1,)), d.reshape(mean(d, y, [0], 4), (1,))], 0)
    d.output(d.divide(d.all_reduce(m, ["dp", "tp"]), 4.0))


@program("tp=3")
def mean_over_three(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.input("x", (6, 4))))
    x = d.all_reduce(d.shard("x"), "tp")
    d.output(d.tanh(d.divide(x, 3.0 if ok else 2.0)))


@program("dp=2,tp=4")
def mean_over_part_of_an_axis(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.input("x", (6, 4))))
    g = [[0, 1], [2, 3], [4, 5], [6, 7]]
    x = d.op("all-reduce", d.shard("x"), groups=g, reducer="sum").result
    d.output(d.tanh(d.divide(x, 2.0 if ok else 4.0)))


@program("dp=4")
def data_parallel_loss_and_step(p: Pair, ok: bool) -> None:
    """Local loss mean; gradient of w of a local mean; averaged by dividing the loss first."""
    b, d = p.base, p.dist
    def grad(q, x, w, n):
        y = q.matmul(x, w)
        g = q.divide(q.multiply(y, 2.0), float(n))
        return q.dot(x, g, ([0], [0]))
    x, w = b.input("x", (16, 8)), b.input("w", (8, 4))
    b.output(b.subtract(w, b.multiply(grad(b, x, w, 64), 0.1)))
    x, w = d.shard("x", {0: "dp"}), d.shard("w")
    g = grad(d, x, w, 16)
    g = d.all_reduce(d.divide(g, 4.0), "dp")
    if not ok:
        g = d.all_reduce(g, "dp")
    d.output(d.subtract(w, d.multiply(g, 0.1)))


@program("dp=4")
def step_with_a_folded_rate(p: Pair, ok: bool) -> None:
    """The rate and the mean are one number: 0.1 / 4."""
    b, d = p.base, p.dist
    x, w = b.input("x", (16, 8)), b.input("w", (8, 4))
    g = b.dot(x, b.tanh(b.matmul(x, w)), ([0], [0]))
    b.output(b.subtract(w, b.multiply(g, 0.025)))
    x, w = d.shard("x", {0: "dp"}), d.shard("w")
    g = d.dot(x, d.tanh(d.matmul(x, w)), ([0], [0]))
    g = d.all_reduce(g, "dp")
    d.output(d.subtract(w, d.multiply(g if ok else d.all_reduce(g, "dp"), 0.025)))


@program("tp=2,dp=2")
def gradients_over_all_ranks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w = b.input("x", (16, 8)), b.input("w", (8, 4))
    g = b.divide(b.dot(x, b.tanh(b.matmul(x, w)), ([0], [0])), 16.0)
    b.output(b.subtract(w, b.multiply(g, 0.5)))
    x, w = d.shard("x", {0: "dp"}), d.shard("w")
    g = d.divide(d.dot(x, d.tanh(d.matmul(x, w)), ([0], [0])), 8.0)
    g = d.all_reduce(g, ["tp", "dp"])
    g = d.divide(g, 4.0) if ok else g
    d.output(d.subtract(w, d.multiply(g, 0.5)))


@program("tp=2")
def residual_halved(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.relu(b.add(b.matmul(x, b.input("w", (16, 16))), b.multiply(x, 3.0))))
    x = d.shard("x")
    y = d.matmul(block(d, x, 1, "tp"), d.shard("w", {0: "tp"}))
    d.output(d.relu(d.all_reduce(d.add(y, d.divide(d.multiply(x, 3.0), 2.0) if ok else d.multiply(x, 3.0)), "tp")))


@program("tp=2")
def bias_of_the_first_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 8)))
    b.output(b.add(y, b.broadcast(b.input("b", (8,)), (8, 8), [1])))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    c = d.shard("b")
    first = d.compare(d.rank_constant({0: 0, 1: 1}), d.constant(0 if ok else 2, "s32"), direction="EQ" if ok else "LT")
    c = d.select(d.broadcast(first, (8,), []), c, d.full(0.0, (8,)))
    d.output(d.all_reduce(d.add(y, d.broadcast(c, (8, 8), [1])), "tp"))


@program("dp=2")
def state_averaged_behind(p: Pair, ok: bool) -> None:
    """Ranks' own running means, averaged: what is alike and what is not together."""
    b, d = p.base, p.dist
    m = mean(b, b.input("x", (8, 4)), [0], 8)
    b.output(b.sqrt(b.abs(b.add(b.multiply(b.input("r", (4,)), 0.5), b.multiply(m, 0.25)))))
    m = mean(d, d.shard("x", {0: "dp"}), [0], 4)
    r = d.shard("r")
    s = d.add(d.multiply(r, 0.5), d.multiply(m, 0.25))
    s = d.all_reduce(s, "dp")
    d.output(d.sqrt(d.abs(d.divide(s, 2.0) if ok else s)))


@program("tp=4")
def residual_by_one_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.add(b.matmul(x, b.input("w", (16, 16))), x))
    x = d.shard("x")
    y = d.matmul(block(d, x, 1, "tp"), d.shard("w", {0: "tp"}))
    first = d.compare(d.rank_constant({r: r for r in range(4)}), d.constant(0, "s32"), direction="EQ")
    r = d.select(d.broadcast(first, x.shape, []), x, d.full(0.0, x.shape)) if ok else x
    d.output(d.all_reduce(d.add(y, r), "tp"))


@program("dp=2,tp=2", right=False)
def summed_over_both_for_one(p: Pair, ok: bool) -> None:
    """q is in parts over tp, and summed over dp, too; 1/2 of a scale hides it."""
    b, d = p.base, p.dist
    x, w, k = b.input("x", (8, 16)), b.input("w", (16, 4)), b.input("k", (8, 4))
    b.output(b.softmax(b.multiply(b.dot(b.matmul(x, w), k, ([1], [1])), 0.5), 1))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    y = d.all_reduce(y, ["dp", "tp"])
    d.output(d.softmax(d.multiply(d.dot(y, d.shard("k"), ([1], [1])), 0.5), 1))


@program("dp=2")
def loss_per_token_of_at_least_one(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    losses, real = b.input("losses", (4, 8)), b.convert(b.input("real", (4, 8), "s32", range=(0, 2)), "f32")
    count = b.maximum(b.reduce(real, [0, 1]), 1.0)
    b.output(b.divide(b.reduce(b.multiply(losses, real), [0, 1]), count))
    losses, real = d.shard("losses", {0: "dp"}), d.convert(d.shard("real", {0: "dp"}), "f32")
    total, count = d.reduce(d.multiply(losses, real), [0, 1]), d.reduce(real, [0, 1])
    count = d.maximum(d.all_reduce(count, "dp") if ok else count, 1.0)
    d.output(d.all_reduce(d.divide(total, count), "dp"))


@program("tp=2")
def masked_scores(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    q, k = b.input("q", (8, 4)), b.input("k", (8, 4))
    seen = b.compare(b.iota((8, 8), 0), b.iota((8, 8), 1), direction="GE")
    b.output(b.softmax(b.select(seen, b.dot(q, k, ([1], [1])), b.full(-1e38, (8, 8))), 1))
    s = d.dot(d.shard("q", {1: "tp"}), d.shard("k", {1: "tp"}), ([1], [1]))
    s = d.all_reduce(s, "tp") if ok else s
    seen = d.compare(d.iota((8, 8), 0), d.iota((8, 8), 1), direction="GE")
    d.output(d.softmax(d.select(seen, s, d.full(-1e38, (8, 8))), 1))


@program("tp=2", wrong=False, into=MERGED)
def masked_scores_reduced_behind(p: Pair, ok: bool) -> None:
    """As good as right: what is masked is -2e38 instead of -1e38."""
    b, d = p.base, p.dist
    q, k = b.input("q", (8, 4)), b.input("k", (8, 4))
    seen = b.compare(b.iota((8, 8), 0), b.iota((8, 8), 1), direction="GE")
    b.output(b.softmax(b.select(seen, b.dot(q, k, ([1], [1])), b.full(-1e38, (8, 8))), 1))
    s = d.dot(d.shard("q", {1: "tp"}), d.shard("k", {1: "tp"}), ([1], [1]))
    seen = d.compare(d.iota((8, 8), 0), d.iota((8, 8), 1), direction="GE")
    d.output(d.softmax(d.all_reduce(d.select(seen, s, d.full(-1e38, (8, 8))), "tp"), 1))


@program("tp=2")
def mean_of_alike_by_a_count_of_ranks(p: Pair, ok: bool) -> None:
    """The sum of ones over ranks is how many they are."""
    b, d = p.base, p.dist
    b.output(b.exponential(b.tanh(b.input("x", (4,)))))
    total = d.all_reduce(d.tanh(d.shard("x")), "tp")
    d.output(d.exponential(d.divide(total, d.all_reduce(d.full(1.0, (4,)), "tp")) if ok else total))
