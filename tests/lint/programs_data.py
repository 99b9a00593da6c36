"""Data, ZeRO, expert and context parallel programs of the zoo, with gradients."""

from __future__ import annotations

from scalify_dl.pairing.builder import Pair

from .zoo import block, offset, program


@program("dp=4")
def gradient_of_a_batch(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, g = b.input("x", (8, 16)), b.input("g", (8, 32))
    b.output(b.matmul(b.transpose(x, 1, 0), g))
    y = d.matmul(d.transpose(d.shard("x", {0: "dp"}), 1, 0), d.shard("g", {0: "dp"}))
    d.output(d.all_reduce(y, "dp") if ok else y)


@program("dp=2,tp=2")
def gradient_reduced_over_two_axes(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, g = b.input("x", (8, 16)), b.input("g", (8, 16))
    b.output(b.reduce(b.multiply(x, g), 0))
    y = d.reduce(d.multiply(d.shard("x", {0: ["dp", "tp"]}), d.shard("g", {0: ["dp", "tp"]})), 0)
    d.output(d.all_reduce(y, ["dp", "tp"] if ok else "dp"))


@program("tp=2")
def norm_weight_gradient_under_sequence_parallelism(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.reduce(b.multiply(b.input("x", (8, 16)), b.input("g", (8, 16))), 0))
    y = d.reduce(d.multiply(d.shard("x", {0: "tp"}), d.shard("g", {0: "tp"})), 0)
    d.output(d.all_reduce(y, "tp") if ok else y)


@program("dp=2")
def sharded_update(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    w, x, g = b.input("w", (16, 32)), b.input("x", (8, 16)), b.input("g", (8, 32))
    b.output(b.subtract(w, b.multiply(b.matmul(b.transpose(x, 1, 0), g), 0.1)))
    part = d.matmul(d.transpose(d.shard("x", {0: "dp"}), 1, 0), d.shard("g", {0: "dp"}))
    mine = d.reduce_scatter(part, "dp", 0) if ok else block(d, part, 0, "dp")
    d.output(d.all_gather(d.subtract(d.shard("w", {0: "dp"}), d.multiply(mine, 0.1)), "dp", 0))


@program("dp=2")
def gathered_weight(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.matmul(b.relu(b.input("x", (8, 16))), b.input("w", (16, 32))))
    w = d.all_gather(d.shard("w", {0: "dp"}), "dp", 0)
    x = d.relu(d.shard("x", {0: "dp"}))
    y = d.matmul(x, w)
    d.output(y if ok else d.all_reduce(y, "dp"))


@program("dp=2", right=False)
def update_by_a_gradient_of_ones_own_batch(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    w, x, g = b.input("w", (16, 32)), b.input("x", (8, 16)), b.input("g", (8, 32))
    b.output(b.subtract(w, b.multiply(b.matmul(b.transpose(x, 1, 0), g), 0.1)))
    part = d.matmul(d.transpose(d.shard("x", {0: "dp"}), 1, 0), d.shard("g", {0: "dp"}))
    d.output(d.subtract(d.shard("w"), d.multiply(part, 0.1)))


@program("dp=2", right=False)
def clipped_before_it_is_reduced(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    g = b.matmul(b.transpose(b.input("x", (8, 16)), 1, 0), b.input("g", (8, 32)))
    b.output(b.clamp(b.full(-1.0, (16, 32)), g, b.full(1.0, (16, 32))))
    g = d.matmul(d.transpose(d.shard("x", {0: "dp"}), 1, 0), d.shard("g", {0: "dp"}))
    d.output(d.all_reduce(d.clamp(d.full(-1.0, (16, 32)), g, d.full(1.0, (16, 32))), "dp"))


@program("tp=2")
def norm_of_all_gradients(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    w, bias = b.input("w", (16, 32)), b.input("bias", (16,))
    total = b.add(b.reduce(b.multiply(w, w), (0, 1)), b.reduce(b.multiply(bias, bias), 0))
    b.output(b.sqrt(total))
    w, bias = d.shard("w", {1: "tp"}), d.shard("bias")
    mine, whole = d.reduce(d.multiply(w, w), (0, 1)), d.reduce(d.multiply(bias, bias), 0)
    if ok:
        d.output(d.sqrt(d.add(d.all_reduce(mine, "tp"), whole)))
    else:
        d.output(d.sqrt(d.all_reduce(d.add(mine, whole), "tp")))


@program("ep=2")
def experts_by_all_to_all(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w = b.input("x", (4, 8, 16)), b.input("w", (4, 16, 16))
    y = b.relu(b.dot(x, w, ([2], [1]), ([0], [0])))
    b.output(y if ok else b.softmax(y, 0))
    x = d.all_to_all(d.shard("x", {1: "ep"}), "ep", 0, 1)
    y = d.relu(d.dot(x, d.shard("w", {0: "ep"}), ([2], [1]), ([0], [0])))
    d.output(d.all_to_all(y, "ep", 1, 0) if ok else d.softmax(y, 0))


@program("ep=2", right=False)
def tokens_with_the_wrong_experts(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, w = b.input("x", (4, 8, 16)), b.input("w", (4, 16, 16))
    b.output(b.relu(b.dot(x, w, ([2], [1]), ([0], [0]))))
    x = d.slice(d.shard("x", {1: "ep"}), 0, 0, 2)
    d.output(d.relu(d.dot(x, d.shard("w", {0: "ep"}), ([2], [1]), ([0], [0]))))


@program("cp=2")
def keys_gathered_over_context(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    q, k, v = (b.input(n, (2, 8, 4)) for n in "qkv")
    scores = b.dot(q, k, ([2], [2]), ([0], [0]))
    b.output(b.dot(b.softmax(scores, 2), v, ([2], [1]), ([0], [0])))
    q, k, v = (d.shard(n, {1: "cp"}) for n in "qkv")
    if ok:
        k, v = d.all_gather(k, "cp", 1), d.all_gather(v, "cp", 1)
    y = d.dot(d.softmax(d.dot(q, k, ([2], [2]), ([0], [0])), 2), v, ([2], [1]), ([0], [0]))
    d.output(y)


@program("cp=2")
def causal_mask_of_a_block_of_queries(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    s = b.dot(b.input("q", (8, 4)), b.input("k", (8, 4)), ([1], [1]))
    mask = b.compare(b.iota((8, 8), 0), b.iota((8, 8), 1), direction="GE")
    b.output(b.softmax(b.select(mask, s, b.full(-1e9, (8, 8))), 1))
    s = d.dot(d.shard("q", {0: "cp"}), d.all_gather(d.shard("k", {0: "cp"}), "cp", 0), ([1], [1]))
    rows = d.iota((4, 8), 0)
    if ok:
        rows = d.add(rows, d.broadcast(offset(d, "cp", 4), (4, 8), []))
    mask = d.compare(rows, d.iota((4, 8), 1), direction="GE")
    d.output(d.softmax(d.select(mask, s, d.full(-1e9, (4, 8))), 1))


@program("cp=2", right=False)
def cumulative_sum_of_blocks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.cumulative(b.input("x", (8, 4)), 0))
    d.output(d.cumulative(d.shard("x", {0: "cp"}), 0))


@program("cp=2", right=False)
def sort_of_blocks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.sort(b.input("x", (8, 4)), 0))
    d.output(d.all_gather(d.sort(d.shard("x", {0: "cp"}), 0), "cp", 0))


@program("tp=2", right=False)
def largest_of_blocks(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.top_k(b.input("x", (8, 16)), 2)[0])
    d.output(d.top_k(d.shard("x", {1: "tp"}), 2)[0])


@program("tp=2")
def index_of_the_largest(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.reduce(b.input("x", (8, 16)), 1, "argmax"))
    x = d.shard("x", {1: "tp"})
    d.output(d.reduce(d.all_gather(x, "tp", 1) if ok else x, 1, "argmax"))


@program("dp=2,tp=2", wrong=False)
def two_axes_and_a_residual(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.input("x", (8, 16))
    b.output(b.add(x, b.matmul(b.tanh(b.matmul(x, b.input("up", (16, 32)))), b.input("down", (32, 16)))))
    x = d.shard("x", {0: "dp"})
    y = d.matmul(d.tanh(d.matmul(x, d.shard("up", {1: "tp"}))), d.shard("down", {0: "tp"}))
    d.output(d.add(x, d.all_reduce(y, "tp")))


@program("tp=2", wrong=False)
def gate_and_up_in_one_weight(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 64)))
    gate, up = b.split(y, 1, (32, 32))
    b.output(b.matmul(b.multiply(b.tanh(gate), up), b.input("down", (32, 16))))
    y = d.matmul(d.shard("x"), d.shard("w", {1: "tp"}, parts=(1, (32, 32))))
    gate, up = d.split(y, 1, (16, 16))
    d.output(d.all_reduce(d.matmul(d.multiply(d.tanh(gate), up), d.shard("down", {0: "tp"})), "tp"))


@program("tp=2", wrong=False)
def flattened_batch_and_sequence(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.reshape(b.input("x", (4, 8, 16)), (32, 16))
    b.output(b.reshape(b.relu(b.matmul(x, b.input("w", (16, 16)))), (4, 8, 16)))
    x = d.reshape(d.shard("x", {0: "tp"}), (16, 16))
    d.output(d.reshape(d.relu(d.matmul(x, d.shard("w"))), (2, 8, 16)))


@program("tp=2", wrong=False)
def flattened_behind_a_split_sequence(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x = b.reshape(b.input("x", (4, 8, 16)), (32, 16))
    b.output(b.reshape(b.relu(b.matmul(x, b.input("w", (16, 16)))), (4, 8, 16)))
    x = d.reshape(d.shard("x", {1: "tp"}), (16, 16))
    d.output(d.reshape(d.relu(d.matmul(x, d.shard("w"))), (4, 4, 16)))


@program("tp=2", wrong=False)
def gathered_in_front_and_put_together_behind(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.exponential(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))))
    y = d.all_gather(d.matmul(d.shard("x"), d.shard("w", {1: "tp"})), "tp", 0)
    d.output(d.exponential(d.concatenate(d.split(y, 0, (8, 8)), 1)))


@program("tp=2", right=False)
def gathered_in_front_and_left_there(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.exponential(b.matmul(b.input("x", (8, 8)), b.input("w", (8, 16))))
    b.output(b.cumulative(b.reshape(y, (16, 8)), 0))
    y = d.all_gather(d.exponential(d.matmul(d.shard("x"), d.shard("w", {1: "tp"}))), "tp", 0)
    d.output(d.cumulative(y, 0))


@program("dp=2", right=False)
def accumulated_twice(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    x, g = b.input("x", (8, 16)), b.input("g", (8, 32))
    b.output(b.matmul(b.transpose(x, 1, 0), g))
    y = d.all_reduce(d.matmul(d.transpose(d.shard("x", {0: "dp"}), 1, 0), d.shard("g", {0: "dp"})), "dp")
    d.output(d.all_reduce(y, "dp"))


@program("dp=2,tp=2", right=False)
def replicated_gradient_counted_per_rank(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.reduce(b.multiply(b.input("x", (8, 16)), b.input("g", (8, 16))), 0))
    y = d.reduce(d.multiply(d.shard("x", {0: "dp"}), d.shard("g", {0: "dp"})), 0)
    d.output(d.all_reduce(y, ["dp", "tp"]))


@program("tp=2", right=False)
def convex_function_of_a_part(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    y = b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))
    b.output(b.multiply(y, y))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    d.output(d.all_reduce(d.multiply(y, y), "tp"))


@program("tp=2", right=False)
def maximum_of_partial_sums(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.reduce(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))), 1, "max"))
    y = d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"}))
    d.output(d.all_reduce(d.reduce(y, 1, "max"), "tp"))


@program("tp=2", right=False)
def scattered_what_all_have(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.exponential(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))))
    y = d.matmul(d.shard("x"), d.shard("w"))
    d.output(d.exponential(d.reduce_scatter(y, "tp", 0)))


@program("dp=2,tp=2", wrong=False)
def weights_gathered_over_one_axis_and_split_over_another(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.relu(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32)))))
    w = d.all_gather(d.shard("w", {0: "dp", 1: "tp"}), "dp", 0)
    d.output(d.all_gather(d.relu(d.matmul(d.shard("x", {0: "dp"}), w)), "tp", 1))


@program("cp=4", right=False)
def neighbour_instead_of_own(p: Pair, ok: bool) -> None:
    b, d = p.base, p.dist
    b.output(b.multiply(b.tanh(b.input("x", (8, 16))), b.input("y", (8, 16))))
    x = d.permute(d.tanh(d.shard("x", {0: "cp"})), [(0, 1), (1, 2), (2, 3), (3, 0)])
    d.output(d.multiply(x, d.shard("y", {0: "cp"})))
