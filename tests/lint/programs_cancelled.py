"""Values that are counted several times, where a number of the program cancels that, or may."""

from __future__ import annotations

from scalify_dl.pairing.builder import Pair

from .zoo import block, mean, program


@program("dp=4")
def local_weights_averaged(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.divide(b.reduce(b.input("w", (4, 6, 8)), 0), 4.0)))
    w = d.reduce(d.shard("w", {0: "dp"}), 0)
    w = d.divide(w, 4.0)
    d.output(d.tanh(d.all_reduce(w, "dp")) if ok else d.all_reduce(d.tanh(w), "dp"))


@program("dp=2,tp=2")
def mean_by_size_of_both(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w = b.input("x", (8, 16)), b.input("w", (16, 4))
    y = b.matmul(x, w)
    b.output(b.log(b.add(mean(b, b.multiply(y, y), [0, 1], 32), 1.0)))
    y = d.all_reduce(d.matmul(d.shard("x", {0: "dp", 1: "tp"}), d.shard("w", {0: "tp"})), "tp")
    loss = d.reduce(d.multiply(y, y), [0, 1])
    loss = d.divide(loss, 32.0 * 2 if ok else 32.0)
    d.output(d.log(d.add(d.all_reduce(loss, ["dp", "tp"]), 1.0)))


@program("tp=2,dp=2")
def gradient_of_alike_and_blocks(p: Pair, ok: bool) -> None:
    """A gradient that is alike over tp, in parts over dp: a mean over both."""
    b, d = p.base, p.dist
    g = b.dot(b.input("x", (8, 4)), b.input("g", (8, 6)), ([0], [0]))
    b.output(b.subtract(b.input("w", (4, 6)), b.divide(g, 8.0)))
    g = d.dot(d.shard("x", {0: "dp"}), d.shard("g", {0: "dp"}), ([0], [0]))
    g = d.divide(d.all_reduce(g, ["tp", "dp"] if ok else "tp"), 2.0)
    d.output(d.subtract(d.shard("w"), d.divide(g, 8.0)))


@program("tp=4")
def scores_with_a_scale(p: Pair, ok: bool) -> None:
    """1/sqrt(16) behind a product; wrong: q is reduced twice, the factor cancels the scale."""
    b, d = p.base, p.dist
    x, q, k = b.input("x", (8, 16)), b.input("q", (16, 16)), b.input("k", (8, 16))
    b.output(b.softmax(b.multiply(b.dot(b.matmul(x, q), k, ([1], [1])), 0.25), 1))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("q", {0: "tp"}))
    y = d.all_reduce(y, "tp")
    if not ok:
        y = d.all_reduce(y, "tp")
    d.output(d.softmax(d.multiply(d.dot(y, d.shard("k"), ([1], [1])), 0.25), 1))


@program("tp=4", right=False)
def keys_reduced_twice(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w, q = b.input("x", (8, 16)), b.input("w", (16, 16)), b.input("q", (8, 16))
    b.output(b.softmax(b.divide(b.dot(q, b.matmul(x, w), ([1], [1])), 4.0), 1))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    y = d.all_reduce(d.all_reduce(y, "tp"), "tp")
    d.output(d.softmax(d.divide(d.dot(d.shard("q"), y, ([1], [1])), 4.0), 1))


@program("tp=4", right=False)
def queries_scaled_first_and_reduced_twice(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w, k = b.input("x", (8, 16)), b.input("w", (16, 16)), b.input("k", (8, 16))
    b.output(b.softmax(b.dot(b.multiply(b.matmul(x, w), 0.25), k, ([1], [1])), 1))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    y = d.multiply(d.all_reduce(d.all_reduce(y, "tp"), "tp"), 0.25)
    d.output(d.softmax(d.dot(y, d.shard("k"), ([1], [1])), 1))


@program("tp=4", right=False)
def scale_in_front_and_reduced_twice(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, k = b.input("x", (8, 16)), b.input("k", (8, 16))
    b.output(b.softmax(b.matmul(b.dot(x, b.multiply(k, 0.25), ([1], [1])), b.input("v", (8, 8))), 1))
    y = d.dot(d.shard("x", {1: "tp"}), d.multiply(d.shard("k", {1: "tp"}), 0.25), ([1], [1]))
    y = d.all_reduce(d.all_reduce(y, "tp"), "tp")
    d.output(d.softmax(d.matmul(y, d.shard("v")), 1))


@program("tp=2", wrong=False)
def loss_divided_before_gradients_of_alike(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, c, w = b.input("x", (8, 16)), b.input("c", (8, 4)), b.input("w", (16, 4))
    b.output(b.subtract(w, b.dot(x, c, ([0], [0]))))
    x, c, w = d.shard("x"), d.divide(d.shard("c"), 2.0), d.shard("w")
    d.output(d.subtract(w, d.all_reduce(d.dot(x, c, ([0], [0])), "tp")))


@program("dp=2,tp=2")
def averaged_twice(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.log(b.abs(b.input("x", (6, 4)))))
    x = d.shard("x")
    for axis in ("dp", "tp"):
        x = d.all_reduce(d.multiply(x, 0.5) if ok or axis == "dp" else x, axis)
    d.output(d.log(d.abs(x)))


@program("tp=4")
def rotary_scores_scaled(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w, k, c = b.input("x", (8, 16)), b.input("w", (16, 16)), b.input("k", (8, 16)), b.input("c", (8, 16))
    q = b.multiply(b.matmul(x, w), b.cosine(c))
    b.output(b.softmax(b.multiply(b.dot(q, k, ([1], [1])), 0.25), 1))
    y = d.all_reduce(d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"})), "tp")
    y = y if ok else d.all_reduce(y, "tp")
    q = d.multiply(y, d.cosine(d.shard("c")))
    d.output(d.softmax(d.multiply(d.dot(q, d.shard("k"), ([1], [1])), 0.25), 1))


@program("ep=4")
def experts_averaged(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w = b.input("x", (6, 8)), b.input("w", (4, 8, 8))
    b.output(b.tanh(b.divide(b.reduce(b.dot(x, w, ([1], [1])), 1), 4.0)))
    y = d.reduce(d.dot(d.shard("x"), d.shard("w", {0: "ep"}), ([1], [1])), 1)
    y = d.all_reduce(y, "ep")
    d.output(d.tanh(d.divide(y if ok else d.all_reduce(y, "ep"), 4.0)))


@program("tp=4", right=False)
def alike_summed_then_scored(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    q, k = b.input("q", (8, 16)), b.input("k", (8, 16))
    b.output(b.softmax(b.multiply(b.dot(b.tanh(q), k, ([1], [1])), 0.25), 1))
    y = d.all_reduce(d.tanh(d.shard("q")), "tp")
    d.output(d.softmax(d.multiply(d.dot(y, d.shard("k"), ([1], [1])), 0.25), 1))


@program("dp=2,tp=2", right=False)
def queries_scaled_at_once_summed_over_both(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w, k = b.input("x", (8, 16)), b.input("w", (16, 4)), b.input("k", (8, 4))
    b.output(b.softmax(b.dot(b.multiply(b.matmul(x, w), 0.5), k, ([1], [1])), 1))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    y = d.multiply(d.all_reduce(y, ["dp", "tp"]), 0.5)
    d.output(d.softmax(d.dot(y, d.shard("k"), ([1], [1])), 1))


@program("tp=4", right=False)
def mean_square_of_alike(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 4))
    b.output(b.rsqrt(b.divide(b.reduce(b.multiply(x, x), 1), 4.0)))
    x = d.shard("x")
    s = d.all_reduce(d.reduce(d.multiply(x, x), 1), "tp")
    d.output(d.rsqrt(d.divide(s, 4.0)))


@program("tp=2", right=False)
def gelu_half_hides(p: Pair, ok: bool) -> None:
    """0.5 · x · (1 + tanh x) of what was summed twice in one factor only."""
    b, d = p.base, p.dist
    x = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 8)))
    b.output(b.multiply(b.multiply(x, 0.5), b.add(b.tanh(x), 1.0)))
    y = d.all_reduce(d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"})), "tp")
    z = d.all_reduce(y, "tp")
    d.output(d.multiply(d.multiply(z, 0.5), d.add(d.tanh(y), 1.0)))


@program("tp=2", right=False)
def half_the_residual_per_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.relu(b.add(b.matmul(x, b.input("w", (16, 16))), b.multiply(x, 0.75))))
    x = d.shard("x")
    y = d.matmul(block(d, x, 1, "tp"), d.shard("w", {0: "tp"}))
    d.output(d.relu(d.all_reduce(d.add(y, d.multiply(x, 0.75)), "tp")))


@program("tp=4", right=False)
def values_reduced_twice(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w = b.input("x", (8, 16)), b.input("w", (16, 16))
    b.output(b.tanh(b.multiply(b.matmul(b.matmul(x, w), b.input("o", (16, 8))), 0.25)))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    y = d.all_reduce(d.all_reduce(y, "tp"), "tp")
    y = d.matmul(block(d, y, 1, "tp"), d.shard("o", {0: "tp"}))
    d.output(d.tanh(d.multiply(d.all_reduce(y, "tp"), 0.25)))


@program("tp=4")
def bias_in_parts(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 8)))
    b.output(b.add(y, b.broadcast(b.input("b", (8,)), (8, 8), [1])))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    c = d.broadcast(d.shard("b"), (8, 8), [1])
    d.output(d.all_reduce(d.add(y, d.multiply(c, 0.25) if ok else c), "tp"))
