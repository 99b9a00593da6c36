"""Programs of many corners, written without a look at the rules: optimisers, statistics, buffers, decoding."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair

from .zoo import block, mean, offset, program


@program("dp=2")
def contrastive_scores_of_gathered_rows(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.softmax(b.dot(b.input("i", (8, 4)), b.input("t", (8, 4)), ([1], [1])), 1))
    i, t = d.shard("i", {0: "dp"}), d.shard("t", {0: "dp"})
    rows = d.all_gather(t, "dp", 0) if ok else d.concatenate([t, t], 0)
    d.output(d.softmax(d.dot(i, rows, ([1], [1])), 1))


@program("dp=2,tp=2")
def gradient_scattered_over_one_axis_and_summed_over_the_other(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    g = b.dot(b.input("x", (8, 4)), b.input("g", (8, 6)), ([0], [0]))
    b.output(b.subtract(b.input("w", (4, 6)), b.multiply(g, 0.1)))
    both = ["dp", "tp"]
    g = d.reduce_scatter(d.dot(d.shard("x", {0: both}), d.shard("g", {0: both}), ([0], [0])), "tp", 0)
    g = d.all_reduce(g, "dp") if ok else g
    d.output(d.subtract(d.shard("w", {0: "tp"}), d.multiply(g, 0.1)))


def factored(p: Program, g: Tensor, rows: Tensor, columns: Tensor, total: Tensor) -> Tensor:
    """A gradient by its row and column means of squares, of a whole matrix of 8 by 4."""
    r = p.broadcast(p.divide(rows, 4.0), g.shape, [0])
    c = p.broadcast(p.divide(columns, 8.0), g.shape, [1])
    return p.multiply(g, p.rsqrt(p.divide(p.multiply(r, c), p.broadcast(p.divide(total, 32.0), g.shape, []))))


@program("tp=2")
def means_of_rows_and_columns(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    g = b.input("g", (8, 4))
    s = b.multiply(g, g)
    b.output(factored(b, g, b.reduce(s, 1), b.reduce(s, 0), b.reduce(s, [0, 1])))
    g = d.shard("g", {1: "tp"})
    s = d.multiply(g, g)
    rows = d.reduce(s, 1)
    rows = d.all_reduce(rows, "tp") if ok else rows
    d.output(factored(d, g, rows, d.reduce(s, 0), d.all_reduce(d.reduce(s, [0, 1]), "tp")))


@program("tp=2")
def trust_ratio(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    w, u = b.input("w", (8, 4)), b.input("u", (8, 4))
    norms = [b.sqrt(b.reduce(b.multiply(x, x), [0, 1])) for x in (w, u)]
    b.output(b.subtract(w, b.multiply(u, b.broadcast(b.divide(*norms), (8, 4), []))))
    w, u = d.shard("w", {0: "tp"}), d.shard("u", {0: "tp"})
    squares = [d.reduce(d.multiply(x, x), [0, 1]) for x in (w, u)]
    norms = [d.sqrt(d.all_reduce(s, "tp")) if ok else d.all_reduce(d.sqrt(s), "tp") for s in squares]
    d.output(d.subtract(w, d.multiply(u, d.broadcast(d.divide(*norms), (4, 4), []))))


@program("tp=2")
def step_of_an_orthogonaliser(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 4))
    b.output(b.subtract(x, b.matmul(x, b.dot(x, x, ([0], [0])))))
    x = d.shard("x", {0: "tp"})
    gram = d.dot(x, x, ([0], [0]))
    d.output(d.subtract(x, d.matmul(x, d.all_reduce(gram, "tp") if ok else gram)))


@program("ep=2")
def gate_of_scores_in_blocks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    values, _ = b.top_k(b.softmax(b.matmul(b.input("x", (6, 8)), b.input("r", (8, 4))), 1), 2)
    b.output(b.reduce(values, 1))
    s = d.matmul(d.shard("x"), d.shard("r", {1: "ep"}))
    s = d.softmax(d.all_gather(s, "ep", 1), 1) if ok else d.all_gather(d.softmax(s, 1), "ep", 1)
    d.output(d.reduce(d.top_k(s, 2)[0], 1))


@program("tp=2")
def word_of_the_largest_score(p: Pair, ok: bool) -> None:
    """The largest place among those that have the largest score; wrong: places are counted from the rank's first."""
    b, d = p.base, p.dist
    x = b.input("x", (6, 8))
    hit = b.compare(x, b.broadcast(b.reduce(x, 1, "max"), (6, 8), [0]), direction="EQ")
    b.output(b.reduce(b.select(hit, b.iota((6, 8), 1), b.full(-1, (6, 8), "s32")), 1, "max"))
    x = d.shard("x", {1: "tp"})
    top = d.all_reduce(d.reduce(x, 1, "max"), "tp", "max")
    hit = d.compare(x, d.broadcast(top, (6, 4), [0]), direction="EQ")
    places = d.iota((6, 4), 1)
    places = d.add(places, d.broadcast(offset(d, "tp", 4), (6, 4), [])) if ok else places
    d.output(d.all_reduce(d.reduce(d.select(hit, places, d.full(-1, (6, 4), "s32")), 1, "max"), "tp", "max"))


@program("tp=2")
def square_of_the_logarithm_of_sums(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    z = b.log(b.reduce(b.exponential(b.input("x", (6, 8))), 1))
    b.output(b.reduce(b.multiply(z, z), 0))
    s = d.reduce(d.exponential(d.shard("x", {1: "tp"})), 1)
    z = d.log(d.all_reduce(s, "tp")) if ok else d.all_reduce(d.log(s), "tp")
    d.output(d.reduce(d.multiply(z, z), 0))


@program("tp=2")
def two_sums_in_one_buffer(p: Pair, ok: bool) -> None:
    """Sums and sums of squares, reduced together; wrong: the mean is taken of the rank's own."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    m = mean(b, x, [1], 16)
    b.output(b.rsqrt(b.add(b.subtract(mean(b, b.multiply(x, x), [1], 16), b.multiply(m, m)), 1.0)))
    x = d.shard("x", {1: "tp"})
    sums = d.concatenate([d.reduce(x, 1), d.reduce(d.multiply(x, x), 1)], 0)
    sums = d.divide(d.all_reduce(sums, "tp"), 16.0)
    m = d.slice(sums, 0, 0, 8) if ok else mean(d, x, [1], 8)
    d.output(d.rsqrt(d.add(d.subtract(d.slice(sums, 0, 8, 16), d.multiply(m, m)), 1.0)))


@program("dp=2")
def gradients_in_a_flat_buffer(p: Pair, ok: bool) -> None:
    """Wrong: the second is not read back from it."""
    b, d = p.base, p.dist
    x, g, h = b.input("x", (8, 4)), b.input("g", (8, 6)), b.input("h", (8, 3))
    b.output(b.tanh(b.dot(x, g, ([0], [0]))), b.tanh(b.dot(x, h, ([0], [0]))))
    x, g, h = (d.shard(n, {0: "dp"}) for n in "xgh")
    u, v = d.dot(x, g, ([0], [0])), d.dot(x, h, ([0], [0]))
    flat = d.all_reduce(d.concatenate([d.reshape(u, (24,)), d.reshape(v, (12,))], 0), "dp")
    second = d.reshape(d.slice(flat, 0, 24, 36), (4, 3)) if ok else v
    d.output(d.tanh(d.reshape(d.slice(flat, 0, 0, 24), (4, 6))), d.tanh(second))


@program("tp=2")
def one_hot_rows_of_a_split_table(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    ids, t = b.input("ids", (6,), "s32", range=(0, 8)), b.input("t", (8, 4))
    hot = b.compare(b.broadcast(ids, (6, 8), [0]), b.iota((6, 8), 1), direction="EQ")
    b.output(b.tanh(b.matmul(b.convert(hot, "f32"), t)))
    rows = d.iota((6, 4), 1)
    rows = d.add(rows, d.broadcast(offset(d, "tp", 4), (6, 4), [])) if ok else rows
    hot = d.compare(d.broadcast(d.shard("ids"), (6, 4), [0]), rows, direction="EQ")
    d.output(d.tanh(d.all_reduce(d.matmul(d.convert(hot, "f32"), d.shard("t", {0: "tp"})), "tp")))


@program("dp=2")
def centred_by_the_mean_of_all(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.tanh(b.input("x", (8, 4)))
    b.output(b.exponential(b.subtract(x, b.broadcast(mean(b, x, [0], 8), (8, 4), [1]))))
    x = d.tanh(d.shard("x", {0: "dp"}))
    m = mean(d, x, [0], 4)
    m = d.multiply(d.all_reduce(m, "dp"), 0.5) if ok else m
    d.output(d.exponential(d.subtract(x, d.broadcast(m, (4, 4), [1]))))


@program("cp=2")
def causal_rows_of_ones_own(p: Pair, ok: bool) -> None:
    """Keys of all, queries of a block; wrong: rows are counted from the block's first."""
    b, d = p.base, p.dist
    q, k = b.input("q", (8, 4)), b.input("k", (8, 4))
    seen = b.compare(b.iota((8, 8), 0), b.iota((8, 8), 1), direction="GE")
    b.output(b.softmax(b.select(seen, b.dot(q, k, ([1], [1])), b.full(-1e9, (8, 8))), 1))
    q, k = d.shard("q", {0: "cp"}), d.all_gather(d.shard("k", {0: "cp"}), "cp", 0)
    rows = d.iota((4, 8), 0)
    rows = d.add(rows, d.broadcast(offset(d, "cp", 4), (4, 8), [])) if ok else rows
    seen = d.compare(rows, d.iota((4, 8), 1), direction="GE")
    d.output(d.softmax(d.select(seen, d.dot(q, k, ([1], [1])), d.full(-1e9, (4, 8))), 1))


@program("ep=2")
def weights_of_ones_own_experts(p: Pair, ok: bool) -> None:
    """Wrong: every rank takes the weights of the first experts."""
    b, d = p.base, p.dist
    x, g, w = b.input("x", (6, 4)), b.input("g", (6, 4)), b.input("w", (4, 4, 5))
    y = b.multiply(b.dot(x, w, ([1], [1])), b.broadcast(g, (6, 4, 5), [0, 1]))
    b.output(b.tanh(b.reduce(y, 1)))
    g = d.shard("g")
    g = block(d, g, 1, "ep") if ok else d.slice(g, 1, 0, 2)
    y = d.dot(d.shard("x"), d.shard("w", {0: "ep"}), ([1], [1]))
    y = d.reduce(d.multiply(y, d.broadcast(g, (6, 2, 5), [0, 1])), 1)
    d.output(d.tanh(d.all_reduce(y, "ep")))


@program("dp=2")
def means_by_class_of_all(p: Pair, ok: bool) -> None:
    """Wrong: at least one of each class is counted on every rank."""
    b, d = p.base, p.dist
    x, o = b.input("x", (8, 3)), b.input("o", (8, 5))
    count = b.maximum(b.reduce(o, 0), 1.0)
    b.output(b.divide(b.dot(o, x, ([0], [0])), b.broadcast(count, (5, 3), [0])))
    x, o = d.shard("x", {0: "dp"}), d.shard("o", {0: "dp"})
    count = d.reduce(o, 0)
    count = d.maximum(d.all_reduce(count, "dp"), 1.0) if ok else d.all_reduce(d.maximum(count, 1.0), "dp")
    d.output(d.divide(d.all_reduce(d.dot(o, x, ([0], [0])), "dp"), d.broadcast(count, (5, 3), [0])))
