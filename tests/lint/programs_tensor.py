"""Tensor, sequence and vocabulary parallel programs of the zoo."""

from __future__ import annotations

from scalify_dl.pairing.builder import Pair

from .zoo import attention, block, mean, offset, program, rms


@program("tp=2")
def column_parallel(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    y = d.matmul(d.shard("x"), d.shard("w", {1: "tp"}))
    d.output(y if ok else d.all_reduce(y, "tp"))


@program("tp=4")
def row_parallel(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    d.output(d.all_reduce(y, "tp") if ok else y)


@program("tp=2")
def row_parallel_of_replicated_input(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    x = d.shard("x")
    mine = block(d, x, 1, "tp") if ok else d.slice(x, 1, 0, 8)
    d.output(d.all_reduce(d.matmul(mine, d.shard("w", {0: "tp"})), "tp"))


@program("tp=2")
def mlp(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    h = b.relu(b.matmul(b.input("x", (8, 16)), b.input("up", (16, 32))))
    b.output(b.matmul(h, b.input("down", (32, 16))))
    y = d.matmul(d.shard("x"), d.shard("up", {1: "tp"}))
    y = d.matmul(d.relu(y), d.shard("down", {0: "tp"}))
    d.output(d.all_reduce(y, "tp", "sum" if ok else "max"))


@program("tp=2")
def activation_of_a_partial_sum(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.relu(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    d.output(d.relu(d.all_reduce(y, "tp")) if ok else d.all_reduce(d.relu(y), "tp"))


@program("tp=2")
def swiglu(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, gate, up = b.input("x", (8, 16)), b.input("gate", (16, 32)), b.input("up", (16, 32))
    g = b.matmul(x, gate)
    b.output(b.matmul(b.multiply(b.multiply(g, b.logistic(g)), b.matmul(x, up)), b.input("down", (32, 16))))
    x = d.shard("x")
    g, u = d.matmul(x, d.shard("gate", {1: "tp"})), d.matmul(x, d.shard("up", {1: "tp"}))
    y = d.matmul(d.multiply(d.multiply(g, d.logistic(g)), u), d.shard("down", {0: "tp"}))
    d.output(d.all_reduce(y, "tp") if ok else d.all_reduce(d.all_reduce(y, "tp"), "tp"))


@program("tp=2")
def product_of_partial_sums(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, gate, up = b.input("x", (8, 16)), b.input("gate", (16, 32)), b.input("up", (16, 32))
    b.output(b.multiply(b.matmul(x, gate), b.matmul(x, up)))
    x = d.shard("x", {1: "tp"})
    g, u = d.matmul(x, d.shard("gate", {0: "tp"})), d.matmul(x, d.shard("up", {0: "tp"}))
    d.output(d.multiply(d.all_reduce(g, "tp"), d.all_reduce(u, "tp")) if ok else d.all_reduce(d.multiply(g, u), "tp"))


@program("tp=4")
def bias_behind_the_reduction(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))
    b.output(b.add(y, b.broadcast(b.input("bias", (32,)), (8, 32), [1])))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    bias = d.broadcast(d.shard("bias"), (8, 32), [1])
    d.output(d.add(d.all_reduce(y, "tp"), bias) if ok else d.all_reduce(d.add(y, bias), "tp"))


@program("tp=2")
def bias_split_with_its_columns(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))
    b.output(b.add(y, b.broadcast(b.input("bias", (32,)), (8, 32), [1])))
    bias = d.shard("bias", {0: "tp"}) if ok else d.slice(d.shard("bias"), 0, 0, 16)
    d.output(d.add(d.matmul(d.shard("x"), d.shard("w", {1: "tp"})), d.broadcast(bias, (8, 16), [1])))


@program("tp=2")
def heads_over_ranks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 32))
    heads = [b.transpose(b.reshape(b.matmul(x, b.input(n, (32, 32))), (8, 4, 8)), 1, 0, 2) for n in "qkv"]
    y = b.reshape(b.transpose(attention(b, *heads), 1, 0, 2), (8, 32))
    b.output(b.matmul(y, b.input("o", (32, 32))))
    x = d.shard("x")
    heads = [d.transpose(d.reshape(d.matmul(x, d.shard(n, {1: "tp"})), (8, 2, 8)), 1, 0, 2) for n in "qkv"]
    y = d.reshape(d.transpose(attention(d, *heads), 1, 0, 2), (8, 16))
    o = d.matmul(y, d.shard("o", {0: "tp"}))
    d.output(d.all_reduce(o, "tp") if ok else d.all_reduce(d.tanh(o), "tp"))


@program("tp=4", wrong=False)
def one_head_a_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 32))
    heads = [b.transpose(b.reshape(b.matmul(x, b.input(n, (32, 32))), (8, 4, 8)), 1, 0, 2) for n in "qkv"]
    b.output(b.reshape(b.transpose(attention(b, *heads), 1, 0, 2), (8, 32)))
    x = d.shard("x")
    heads = [d.transpose(d.reshape(d.matmul(x, d.shard(n, {1: "tp"})), (8, 1, 8)), 1, 0, 2) for n in "qkv"]
    d.output(d.reshape(d.transpose(attention(d, *heads), 1, 0, 2), (8, 8)))


@program("tp=2")
def head_dim_over_ranks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    names = ("q", "k", "v")
    b.output(attention(b, *(b.input(n, (4, 8, 16)) for n in names)))
    q, k = (d.shard(n, {2: "tp"}) for n in names[:2])
    scores = d.dot(q, k, ([2], [2]), ([0], [0]))
    scores = d.all_reduce(scores, "tp") if ok else scores
    y = d.dot(d.softmax(scores, 2), d.shard("v", {2: "tp"}), ([2], [1]), ([0], [0]))
    d.output(y)


@program("tp=2")
def fused_query_key_value(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("qkv", (16, 32)))
    q, k, v = b.split(y, 1, (16, 8, 8))
    b.output(b.matmul(q, b.transpose(b.concatenate([k, v], 1), 1, 0)))
    y = d.matmul(d.shard("x"), d.shard("qkv", {1: "tp"}, parts=(1, (16, 8, 8))))
    q, k, v = d.split(y, 1, (8, 4, 4) if ok else (4, 8, 4))
    if ok:
        q, k, v = (d.all_gather(t, "tp", 1) for t in (q, k, v))
        d.output(d.matmul(q, d.transpose(d.concatenate([k, v], 1), 1, 0)))
    else:
        k, v = d.all_gather(k, "tp", 1), d.all_gather(v, "tp", 1)
        q = d.all_gather(q, "tp", 1)
        d.output(d.matmul(d.concatenate([q, v], 1), d.transpose(k, 1, 0)))


@program("tp=2")
def sequence_parallel_norm(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = rms(b, b.input("x", (8, 16)), b.input("g", (16,)), 1)
    b.output(b.matmul(b.relu(b.matmul(x, b.input("up", (16, 32)))), b.input("down", (32, 16))))
    x = d.all_gather(rms(d, d.shard("x", {0: "tp"}), d.shard("g"), 1), "tp", 0)
    y = d.matmul(d.relu(d.matmul(x, d.shard("up", {1: "tp"}))), d.shard("down", {0: "tp"}))
    d.output(d.reduce_scatter(y, "tp", 0) if ok else block(d, y, 0, "tp"))


@program("tp=2")
def norm_over_a_split_dim(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(rms(b, b.input("x", (8, 16)), b.input("g", (16,)), 1))
    x = d.shard("x", {1: "tp"})
    total = d.reduce(d.multiply(x, x), 1)
    total = d.all_reduce(total, "tp") if ok else total
    scale = d.broadcast(d.rsqrt(d.add(d.divide(total, 16.0), 1e-5)), (8, 8), [0])
    d.output(d.multiply(d.multiply(x, scale), d.broadcast(d.shard("g", {0: "tp"}), (8, 8), [1])))


@program("tp=2")
def softmax_over_a_split_dim(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.softmax(b.input("x", (8, 16)), 1))
    x = d.shard("x", {1: "tp"})
    if not ok:
        d.output(d.softmax(x, 1))
        return
    top = d.all_reduce(d.reduce(x, 1, "max"), "tp", "max")
    e = d.exponential(d.subtract(x, d.broadcast(top, x.shape, [0])))
    d.output(d.divide(e, d.broadcast(d.all_reduce(d.reduce(e, 1), "tp"), x.shape, [0])))


@program("tp=2")
def vocabulary_parallel_embedding(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.embedding(b.input("table", (32, 8)), b.input("ids", (6,), "s32", range=(0, 32))))
    table, ids = d.shard("table", {0: "tp"}), d.shard("ids")
    first = d.broadcast(offset(d, "tp", 16), (6,), [])
    last = d.add(first, 16)
    outside = d.op("or", d.compare(ids, first, direction="LT"), d.compare(ids, last, direction="GE")).result
    mine = d.select(outside, d.full(0, (6,), "s32"), d.subtract(ids, first))
    rows = d.embedding(table, mine)
    if ok:
        rows = d.select(d.broadcast(outside, (6, 8), [0]), d.full(0.0, (6, 8)), rows)
    d.output(d.all_reduce(rows, "tp"))


@program("tp=2", right=False)
def table_of_blocks_without_a_mask(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.embedding(b.input("table", (32, 8)), b.input("ids", (6,), "s32", range=(0, 16))))
    d.output(d.all_reduce(d.embedding(d.shard("table", {0: "tp"}), d.shard("ids")), "tp"))


@program("tp=2")
def vocabulary_parallel_loss(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("logits", (6, 32))
    top = b.broadcast(b.reduce(x, 1, "max"), (6, 32), [0])
    b.output(b.add(b.log(b.reduce(b.exponential(b.subtract(x, top)), 1)), b.reduce(x, 1, "max")))
    x = d.shard("logits", {1: "tp"})
    top = d.all_reduce(d.reduce(x, 1, "max"), "tp", "max")
    total = d.reduce(d.exponential(d.subtract(x, d.broadcast(top, x.shape, [0]))), 1)
    if ok:
        d.output(d.add(d.log(d.all_reduce(total, "tp")), top))
    else:
        d.output(d.add(d.all_reduce(d.log(total), "tp"), top))


@program("tp=2")
def labels_compared_with_a_split_vocabulary(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, labels = b.input("logits", (6, 32)), b.input("labels", (6,), "s32", range=(0, 32))
    hit = b.compare(b.broadcast(labels, (6, 32), [0]), b.iota((6, 32), 1), direction="EQ")
    b.output(b.reduce(b.select(hit, x, b.full(0.0, (6, 32))), 1))
    x, labels = d.shard("logits", {1: "tp"}), d.shard("labels")
    place = d.add(d.iota((6, 16), 1), d.broadcast(offset(d, "tp", 16), (6, 16), []))
    hit = d.compare(d.broadcast(labels, (6, 16), [0]), place, direction="EQ")
    found = d.reduce(d.select(hit, x, d.full(0.0, (6, 16))), 1)
    d.output(d.all_reduce(found, "tp") if ok else found)


@program("tp=2")
def dropout_of_blocks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))
    b.output(b.select(b.dropout_mask(y, 0.5), y, b.full(0.0, (8, 32))))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    y = d.all_reduce(y, "tp") if ok else y
    y = d.select(d.dropout_mask(y, 0.5), y, d.full(0.0, (8, 32)))
    d.output(y if ok else d.all_reduce(y, "tp"))


@program("tp=2")
def residual_added_once(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.add(x, b.matmul(b.relu(b.matmul(x, b.input("up", (16, 32)))), b.input("down", (32, 16)))))
    x = d.shard("x")
    y = d.matmul(d.relu(d.matmul(x, d.shard("up", {1: "tp"}))), d.shard("down", {0: "tp"}))
    d.output(d.add(x, d.all_reduce(y, "tp")) if ok else d.all_reduce(d.add(x, y), "tp"))


@program("dp=2,tp=2")
def reduction_over_its_own_axis(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    y = d.matmul(d.shard("x", {0: "dp", 1: "tp"}), d.shard("w", {0: "tp"}))
    d.output(d.all_reduce(y, "tp" if ok else "dp"))


@program("tp=4", right=False)
def group_of_no_axis(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    d.output(d.op("all-reduce", y, groups=[[0, 3], [1, 2]], reducer="sum").result)


@program("tp=2", right=False)
def gather_of_what_all_have(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.relu(b.input("x", (8, 16)))
    b.output(b.concatenate([x, b.negate(x)], 0))
    d.output(d.all_gather(d.relu(d.shard("x")), "tp", 0))


@program("tp=2", right=False)
def gather_of_partial_sums(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))
    b.output(b.concatenate([y, y], 1))
    d.output(d.all_gather(d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"})), "tp", 1))


@program("tp=2")
def gathered_dim(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.tanh(b.matmul(b.input("x", (16, 16)), b.input("w", (16, 16)))))
    y = d.tanh(d.matmul(d.shard("x"), d.shard("w", {1: "tp"})))
    d.output(d.all_gather(y, "tp", 1) if ok else d.reshape(d.all_gather(y, "tp", 0), (16, 16)))


@program("tp=2")
def operands_along_different_dims(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.multiply(b.tanh(b.input("x", (16, 16))), b.input("y", (16, 16))))
    x, y = d.tanh(d.shard("x", {0: "tp"})), d.shard("y", {0: "tp"} if ok else {1: "tp"})
    d.output(d.multiply(x, y) if ok else d.multiply(x, d.reshape(y, (8, 16))))


@program("tp=2")
def contraction_of_a_split_and_a_whole_dim(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    x = d.shard("x", {1: "tp"})
    w = d.shard("w", {0: "tp"}) if ok else d.slice(d.shard("w"), 0, 0, 8)
    d.output(d.all_reduce(d.matmul(x, w), "tp"))


@program("tp=2")
def reduction_of_blocks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.reduce(b.exponential(b.input("x", (8, 16))), 1))
    x = d.exponential(d.shard("x", {1: "tp"}))
    d.output(d.all_reduce(d.reduce(x, 1), "tp") if ok else d.reduce(d.all_reduce(x, "tp"), 1, "max"))


@program("tp=2", wrong=False)
def mean_over_ranks_of_what_all_have(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.exponential(b.tanh(b.input("x", (8, 16)))))
    y = d.all_reduce(d.tanh(d.shard("x")), "tp")
    d.output(d.exponential(d.divide(y, 2.0)))


@program("dp=2")
def mean_loss(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.log(mean(b, b.multiply(x, x), (0, 1), 128)))
    x = d.shard("x", {0: "dp"})
    local = mean(d, d.multiply(x, x), (0, 1), 64)
    if ok:
        d.output(d.log(d.divide(d.all_reduce(local, "dp"), 2.0)))
    else:
        d.output(d.divide(d.all_reduce(d.log(local), "dp"), 2.0))
