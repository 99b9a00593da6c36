"""Whole layers in tensor, sequence and context parallel: attention, caches, norms, forward and backward."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair

from .programs_parts import masked_rows
from .zoo import MERGED, attention, block, mean, offset, program, rms


def causal(p: Program, scores: Tensor, first: Tensor | int = 0) -> Tensor:
    """[heads, queries, keys]: keys behind the query, whose place begins at `first`, count nothing."""
    shape = scores.shape
    rows = p.iota(shape, 1)
    rows = p.add(rows, p.broadcast(first, shape, [])) if isinstance(first, Tensor) else p.add(rows, first)
    return p.select(p.compare(rows, p.iota(shape, 2), direction="GE"), scores, p.full(-1e9, shape))


def heads(p: Program, x: Tensor, count: int) -> Tensor:
    """[seq, heads * dim] as [heads, seq, dim]."""
    return p.transpose(p.reshape(x, (x.shape[0], count, x.shape[1] // count)), 1, 0, 2)


def merged(p: Program, x: Tensor) -> Tensor:
    """[heads, seq, dim] as [seq, heads * dim]."""
    return p.reshape(p.transpose(x, 1, 0, 2), (x.shape[1], x.shape[0] * x.shape[2]))


@program("tp=2")
def attention_layer_of_heads(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    q, k, v = (heads(b, b.matmul(x, b.input(n, (16, 16))), 4) for n in ("wq", "wk", "wv"))
    b.output(b.add(x, b.matmul(merged(b, attention(b, q, k, v)), b.input("wo", (16, 16)))))
    x = d.shard("x")
    q, k, v = (heads(d, d.matmul(x, d.shard(n, {1: "tp"})), 2) for n in ("wq", "wk", "wv"))
    y = d.matmul(merged(d, attention(d, q, k, v)), d.shard("wo", {0: "tp"}))
    d.output(d.add(x, d.all_reduce(y, "tp")) if ok else d.all_reduce(d.add(x, y), "tp"))


@program("dp=2,tp=2")
def attention_with_fewer_heads_of_keys(p: Pair, ok: bool) -> None:
    """Two heads of queries to each of keys, repeated on every rank; wrong: summed over the other axis."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))

    def layer(p: Program, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        groups = k.shape[0]
        k, v = (p.broadcast(t, (groups, 2, *t.shape[1:]), [0, 2, 3]) for t in (k, v))
        k, v = (p.reshape(t, (groups * 2, *t.shape[2:])) for t in (k, v))
        return merged(p, attention(p, q, k, v))

    q, k, v = (heads(b, b.matmul(x, b.input(n, (16, w))), w // 4) for n, w in (("wq", 16), ("wk", 8), ("wv", 8)))
    b.output(b.matmul(layer(b, q, k, v), b.input("wo", (16, 16))))
    x = d.shard("x")
    q, k, v = (heads(d, d.matmul(x, d.shard(n, {1: "tp"})), w // 8) for n, w in (("wq", 16), ("wk", 8), ("wv", 8)))
    y = d.matmul(layer(d, q, k, v), d.shard("wo", {0: "tp"}))
    d.output(d.all_reduce(y, "tp" if ok else "dp"))


@program("tp=2")
def queries_of_all_heads_with_keys_of_some(p: Pair, ok: bool) -> None:
    """The gather of queries is there in the wrong one, that of keys is not."""
    b, d = p.base, p.dist
    q, k, v = (b.input(n, (4, 8, 4)) for n in "qkv")
    b.output(attention(b, q, k, v))
    q, k, v = (d.shard(n, {0: "tp"}) for n in "qkv")
    if ok:
        d.output(attention(d, q, k, v))
    else:
        q = d.all_gather(q, "tp", 0)
        k, v = (d.concatenate([t, t], 0) for t in (k, v))
        d.output(attention(d, q, k, v))


@program("sp=2")
def heads_for_positions_and_back(p: Pair, ok: bool) -> None:
    """Ulysses: all-to-all from positions to heads, attention, and back; wrong: back to another dim order."""
    b, d = p.base, p.dist
    q, k, v = (b.input(n, (4, 8, 4)) for n in "qkv")
    b.output(b.tanh(attention(b, q, k, v)))
    q, k, v = (d.all_to_all(d.shard(n, {1: "sp"}), "sp", 0, 1) for n in "qkv")
    y = attention(d, q, k, v)
    d.output(d.tanh(d.all_to_all(y, "sp", 1, 0) if ok else d.reshape(d.all_to_all(y, "sp", 2, 0), (4, 4, 4))))


@program("sp=2", right=False)
def keys_of_other_positions(p: Pair, ok: bool) -> None:
    """Queries and values go to heads, keys stay with their positions: shapes fit by chance."""
    b, d = p.base, p.dist
    q, k, v = (b.input(n, (4, 4, 4)) for n in "qkv")
    b.output(attention(b, q, k, v))
    q, v = (d.all_to_all(d.shard(n, {1: "sp"}), "sp", 0, 1) for n in "qv")
    k = d.reshape(d.shard("k", {1: "sp"}), (2, 4, 4))
    d.output(attention(d, q, k, v))


@program("cp=2")
def causal_blocks_of_queries(p: Pair, ok: bool) -> None:
    """Every rank masks by the places of its own queries; wrong: as if they were the first."""
    b, d = p.base, p.dist
    q, k, v = (b.input(n, (2, 8, 4)) for n in "qkv")

    def layer(p: Program, q: Tensor, k: Tensor, v: Tensor, first: Tensor | int) -> Tensor:
        scores = causal(p, p.dot(q, k, ([2], [2]), ([0], [0])), first)
        return p.dot(p.softmax(scores, 2), v, ([2], [1]), ([0], [0]))

    b.output(layer(b, q, k, v, 0))
    q = d.shard("q", {1: "cp"})
    k, v = (d.all_gather(d.shard(n, {1: "cp"}), "cp", 1) for n in "kv")
    d.output(layer(d, q, k, v, offset(d, "cp", 4) if ok else 0))


@program("tp=2")
def rows_between_blocks(p: Pair, ok: bool) -> None:
    """Sequence parallel: rows are scattered, normed, gathered; wrong: the sum is taken once more behind."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    y = b.add(x, b.matmul(b.relu(b.matmul(rms(b, x, b.input("g", (16,)), 1), b.input("up", (16, 32)))),
                          b.input("down", (32, 16))))  # fmt: skip
    b.output(rms(b, y, b.input("h", (16,)), 1))
    x = d.shard("x", {0: "tp"})
    whole = d.all_gather(rms(d, x, d.shard("g"), 1), "tp", 0)
    y = d.matmul(d.relu(d.matmul(whole, d.shard("up", {1: "tp"}))), d.shard("down", {0: "tp"}))
    y = d.reduce_scatter(y, "tp", 0)
    y = d.add(x, y if ok else d.all_reduce(y, "tp"))
    d.output(rms(d, y, d.shard("h"), 1))


@program("tp=2")
def rows_scattered_where_columns_are(p: Pair, ok: bool) -> None:
    """The residual is in blocks of rows; wrong: the sum is scattered along the columns, of equal size."""
    b, d = p.base, p.dist
    x = b.input("x", (16, 16))
    b.output(b.tanh(b.add(x, b.matmul(b.tanh(x), b.input("w", (16, 16))))))
    x = d.shard("x", {0: "tp"})
    y = d.matmul(block(d, d.all_gather(d.tanh(x), "tp", 0), 1, "tp"), d.shard("w", {0: "tp"}))
    y = d.reduce_scatter(y, "tp", 0 if ok else 1)
    d.output(d.tanh(d.add(x, y if ok else d.reshape(y, (8, 16)))))


@program("tp=2")
def cache_of_heads(p: Pair, ok: bool) -> None:
    """One token's keys are written into a cache of the rank's heads; wrong: into that of positions."""
    b, d = p.base, p.dist
    at = b.input("at", (), "s32", range=(0, 8))
    zero = b.constant(0, "s32")
    q, k, v = (b.input(n, (4, 1, 4)) for n in "qkv")
    kc, vc = (b.dynamic_update_slice(b.input(n, (4, 8, 4)), t, [zero, at, zero]) for n, t in (("kc", k), ("vc", v)))
    b.output(attention(b, q, kc, vc), kc)
    at, zero = d.shard("at"), d.constant(0, "s32")
    axis = 0 if ok else 1
    q, k, v = (d.shard(n, {0: "tp"}) if ok else d.shard(n) for n in "qkv")
    kc, vc = (d.dynamic_update_slice(d.shard(n, {axis: "tp"}), t, [zero, at, zero]) for n, t in (("kc", k), ("vc", v)))
    y = attention(d, q, kc, vc)
    d.output(y, kc)


@program("tp=2")
def cache_read_to_where_it_is_filled(p: Pair, ok: bool) -> None:
    """A window of a cache of the rank's heads; wrong: the sum over ranks of what is split."""
    b, d = p.base, p.dist
    q = b.input("q", (4, 1, 4))
    kc, vc = (b.slice(b.input(n, (4, 16, 4)), 1, 0, 8) for n in ("kc", "vc"))
    b.output(attention(b, q, kc, vc))
    kc, vc = (d.slice(d.shard(n, {0: "tp"}), 1, 0, 8) for n in ("kc", "vc"))
    y = attention(d, d.shard("q", {0: "tp"}), kc, vc)
    d.output(y if ok else d.all_reduce(y, "tp"))


@program("cp=2", wrong=False, into=MERGED)
def filled_part_of_every_ranks_cache(p: Pair, ok: bool) -> None:
    """Each rank's half of a cache is filled to its half: attention over these, put together by sums."""
    b, d = p.base, p.dist
    kc, vc = (b.input(n, (2, 16, 4)) for n in ("kc", "vc"))
    kc, vc = (b.concatenate([b.slice(t, 1, 0, 4), b.slice(t, 1, 8, 12)], 1) for t in (kc, vc))
    b.output(attention(b, b.input("q", (2, 1, 4)), kc, vc))
    kc, vc = (d.slice(d.shard(n, {1: "cp"}), 1, 0, 4) for n in ("kc", "vc"))
    scores = d.exponential(d.dot(d.shard("q"), kc, ([2], [2]), ([0], [0])))
    total = d.all_reduce(d.reduce(scores, 2), "cp")
    y = d.all_reduce(d.dot(scores, vc, ([2], [1]), ([0], [0])), "cp")
    d.output(d.divide(y, d.broadcast(total, y.shape, [0, 1])))


@program("cp=2")
def scores_of_split_keys_put_together(p: Pair, ok: bool) -> None:
    """Decoding over keys in blocks: largest, sum and values are each reduced; wrong: every rank its own largest."""
    b, d = p.base, p.dist
    q, k, v = b.input("q", (2, 1, 4)), b.input("k", (2, 8, 4)), b.input("v", (2, 8, 4))
    b.output(attention(b, q, k, v))
    k, v = d.shard("k", {1: "cp"}), d.shard("v", {1: "cp"})
    scores = d.dot(d.shard("q"), k, ([2], [2]), ([0], [0]))
    top = d.reduce(scores, 2, "max")
    top = d.all_reduce(top, "cp", "max") if ok else top
    e = d.exponential(d.subtract(scores, d.broadcast(top, scores.shape, [0, 1])))
    total = d.all_reduce(d.reduce(e, 2), "cp")
    y = d.all_reduce(d.dot(e, v, ([2], [1]), ([0], [0])), "cp")
    d.output(d.divide(y, d.broadcast(total, y.shape, [0, 1])))


@program("tp=2")
def tied_embedding_and_head(p: Pair, ok: bool) -> None:
    """One table for rows of a split vocabulary and for scores of it; wrong: the scores are summed."""
    b, d = p.base, p.dist
    table = b.input("table", (32, 8))
    x = b.embedding(table, b.input("ids", (6,), "s32", range=(0, 32)))
    b.output(b.tanh(b.matmul(b.tanh(x), b.transpose(table, 1, 0))))
    table = d.shard("table", {0: "tp"})
    x = d.all_reduce(masked_rows(d, table, d.shard("ids")), "tp")
    y = d.matmul(d.tanh(x), d.transpose(table, 1, 0))
    d.output(d.tanh(y if ok else d.all_reduce(y, "tp")))


@program("tp=2")
def scores_of_all_words_gathered(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.softmax(b.matmul(b.input("x", (6, 8)), b.input("head", (8, 32))), 1))
    y = d.matmul(d.shard("x"), d.shard("head", {1: "tp"}))
    d.output(d.softmax(d.all_gather(y, "tp", 1), 1) if ok else d.all_gather(d.softmax(y, 1), "tp", 1))


@program("tp=2")
def norm_of_split_columns(p: Pair, ok: bool) -> None:
    """RMS norm of columns that are over ranks: squares are summed over all; wrong: each rank its own."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.matmul(rms(b, x, b.input("g", (16,)), 1), b.input("w", (16, 8))))
    x = d.shard("x", {1: "tp"})
    total = d.reduce(d.multiply(x, x), 1)
    total = d.all_reduce(total, "tp") if ok else total
    scale = d.rsqrt(d.add(d.divide(total, 16.0 if ok else 8.0), 1e-5))
    y = d.multiply(d.multiply(x, d.broadcast(scale, x.shape, [0])), d.broadcast(d.shard("g", {0: "tp"}), x.shape, [1]))
    d.output(d.all_reduce(d.matmul(y, d.shard("w", {0: "tp"})), "tp"))


@program("tp=2")
def layer_norm_of_split_columns(p: Pair, ok: bool) -> None:
    """Mean and variance over all columns; wrong: the mean is that of the rank."""
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))

    def norm(p: Program, x: Tensor, m: Tensor, total) -> Tensor:  # type: ignore[no-untyped-def]
        c = p.subtract(x, p.broadcast(m, x.shape, [0]))
        var = p.divide(total(p.reduce(p.multiply(c, c), 1)), 16.0)
        return p.multiply(c, p.broadcast(p.rsqrt(p.add(var, 1e-5)), x.shape, [0]))

    b.output(norm(b, x, mean(b, x, [1], 16), lambda t: t))
    x = d.shard("x", {1: "tp"})
    own = mean(d, x, [1], 8)
    m = d.divide(d.all_reduce(d.reduce(x, 1), "tp"), 16.0) if ok else own
    d.output(norm(d, x, m, lambda t: d.all_reduce(t, "tp")))


def _backward(p: Program, x: Tensor, up: Tensor, down: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    h = p.matmul(x, up)
    a = p.tanh(h)
    da = p.dot(g, down, ([1], [1]))
    dh = p.multiply(da, p.subtract(p.full(1.0, h.shape), p.multiply(a, a)))
    return (p.dot(a, g, ([0], [0])), p.dot(x, dh, ([0], [0])), p.dot(dh, up, ([1], [1])), p.matmul(a, down))


@program("dp=2,tp=2")
def forward_and_backward_of_an_mlp(p: Pair, ok: bool) -> None:
    """Weights over tp, rows over dp: gradients are summed over dp, that of the input over tp; wrong: not over tp."""
    b, d = p.base, p.dist
    shapes = {"x": (8, 16), "up": (16, 32), "down": (32, 16), "g": (8, 16)}
    b.output(*_backward(b, *(b.input(n, s) for n, s in shapes.items())))
    x, g = (d.shard(n, {0: "dp"}) for n in ("x", "g"))
    ddown, dup, dx, y = _backward(d, x, d.shard("up", {1: "tp"}), d.shard("down", {0: "tp"}), g)
    ddown, dup = d.all_reduce(ddown, "dp"), d.all_reduce(dup, "dp")
    d.output(ddown, dup, d.all_reduce(dx, "tp") if ok else dx, d.all_reduce(y, "tp"))


@program("dp=2,tp=2", right=False)
def gradients_of_weights_over_tp(p: Pair, ok: bool) -> None:
    """As above, with the group of tp for the weights' gradients."""
    b, d = p.base, p.dist
    shapes = {"x": (8, 16), "up": (16, 32), "down": (32, 16), "g": (8, 16)}
    b.output(*_backward(b, *(b.input(n, s) for n, s in shapes.items())))
    x, g = (d.shard(n, {0: "dp"}) for n in ("x", "g"))
    ddown, dup, dx, y = _backward(d, x, d.shard("up", {1: "tp"}), d.shard("down", {0: "tp"}), g)
    d.output(d.all_reduce(ddown, "tp"), d.all_reduce(dup, "tp"), d.all_reduce(dx, "tp"), d.all_reduce(y, "tp"))


@program("tp=2")
def rotary_halves_of_heads(p: Pair, ok: bool) -> None:
    """Halves of every head are turned; wrong: halves of all that a rank holds, as if it were one head."""
    b, d = p.base, p.dist

    def turned(p: Program, x: Tensor, cos: Tensor, dim: int) -> Tensor:
        half = x.shape[dim] // 2
        lo, hi = p.slice(x, dim, 0, half), p.slice(x, dim, half, 2 * half)
        c = p.broadcast(cos, lo.shape, [0])
        return p.concatenate([p.subtract(p.multiply(lo, c), hi), p.add(p.multiply(hi, c), lo)], dim)

    x, cos = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 16))), b.input("cos", (8,))
    b.output(b.tanh(turned(b, b.reshape(x, (8, 4, 4)), cos, 2)))
    x, cos = d.matmul(d.shard("x"), d.shard("w", {1: "tp"})), d.shard("cos")
    if ok:
        d.output(d.tanh(turned(d, d.reshape(x, (8, 2, 4)), cos, 2)))
    else:
        d.output(d.tanh(d.reshape(turned(d, x, cos, 1), (8, 2, 4))))

