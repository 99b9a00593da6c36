"""Gradients that went wrong without a word in published training frameworks, each as a minimal program of forward and
backward with its right twin (zoo).

Told from public descriptions: NVIDIA/Megatron-LM #7452, #7498, #5916, #6839, #5047, #5798, #1446, #1464,
bigcode-project/Megatron-LM #35, pytorch #190746, #153016, #160285, torchtitan #1805, ROCm/TransformerEngine #715.
"""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.pairing.builder import Pair

from .zoo import block, program, rms

ROWS = 8


def weighted(p: Program, x: Tensor, w: Tensor, dim: int) -> Tensor:
    """x * w along a dim."""
    return p.multiply(x, p.broadcast(w, x.shape, [dim]))


@program("tp=2")
def norm_weight_reduced_under_sequence_parallelism_only(p: Pair, ok: bool) -> None:
    """#7452: y = (x * w) @ m with columns of m over tp: the gradient of w is a part of a sum on every rank."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (ROWS, 32))
    dy = b.dot(g, b.input("m", (16, 32)), ([1], [1]))
    b.output(b.reduce(b.multiply(x, dy), 0))
    x, g = d.shard("x"), d.shard("g", {1: "tp"})
    dy = d.dot(g, d.shard("m", {1: "tp"}), ([1], [1]))
    dw = d.reduce(d.multiply(x, dy), 0)
    d.output(d.all_reduce(dw, "tp") if ok else dw)


@program("dp=2")
def loss_per_token_by_local_counts(p: Pair, ok: bool) -> None:
    """#7452, #7498: every rank divides by its own number of tokens."""
    b, d = p.base, p.dist
    x, mask = b.input("x", (ROWS,)), b.input("mask", (ROWS,))
    b.output(b.divide(b.reduce(b.multiply(x, mask), 0), b.reduce(mask, 0)))
    x, mask = d.shard("x", {0: "dp"}), d.shard("mask", {0: "dp"})
    total, count = d.reduce(d.multiply(x, mask), 0), d.reduce(mask, 0)
    if ok:
        d.output(d.divide(d.all_reduce(total, "dp"), d.all_reduce(count, "dp")))
    else:
        d.output(d.divide(d.all_reduce(d.divide(total, count), "dp"), 2.0))


@program("tp=2")
def replicated_weight_counted_per_rank_in_the_norm(p: Pair, ok: bool) -> None:
    """#5916: the squares of a replicated gradient are summed over tp with those of the split ones."""
    b, d = p.base, p.dist
    w, v = b.input("w", (16, 16)), b.input("v", (16,))
    b.output(b.sqrt(b.add(b.reduce(b.multiply(w, w), (0, 1)), b.reduce(b.multiply(v, v), 0))))
    w, v = d.shard("w", {1: "tp"}), d.shard("v")
    mine, whole = d.reduce(d.multiply(w, w), (0, 1)), d.reduce(d.multiply(v, v), 0)
    if ok:
        d.output(d.sqrt(d.add(d.all_reduce(mine, "tp"), whole)))
    else:
        d.output(d.sqrt(d.add(d.all_reduce(mine, "tp"), d.all_reduce(whole, "tp"))))


@program("tp=2")
def split_sink_counted_on_one_rank(p: Pair, ok: bool) -> None:
    """#7452: the norm of a vector that ranks hold in blocks, taken of one rank's block."""
    b, d = p.base, p.dist
    v = b.input("sink", (16,))
    b.output(b.sqrt(b.reduce(b.multiply(v, v), 0)))
    v = d.shard("sink", {0: "tp"})
    mine = d.reduce(d.multiply(v, v), 0)
    d.output(d.sqrt(d.all_reduce(mine, "tp") if ok else mine))


@program("ep=2,dp=2")
def expert_gradients_undercounted(p: Pair, ok: bool) -> None:
    """#7452: squares of experts' gradients summed over dp, where all have the same, in place of ep."""
    b, d = p.base, p.dist
    w = b.input("experts", (4, 8))
    b.output(b.sqrt(b.reduce(b.multiply(w, w), (0, 1))))
    w = d.shard("experts", {0: "ep"})
    mine = d.reduce(d.multiply(w, w), (0, 1))
    d.output(d.sqrt(d.all_reduce(mine, "ep" if ok else "dp")))


@program("tp=2")
def shared_rotary_key_not_reduced(p: Pair, ok: bool) -> None:
    """#6839: one key for all heads, heads over tp: its gradient is summed over the heads of a rank only."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (4, ROWS, 8))
    dk = b.reduce(g, 0)
    b.output(b.matmul(b.transpose(x, 1, 0), dk))
    x, g = d.shard("x"), d.shard("g", {0: "tp"})
    dw = d.matmul(d.transpose(x, 1, 0), d.reduce(g, 0))
    d.output(d.all_reduce(dw, "tp") if ok else dw)


@program("tp=2")
def shared_rotary_key_counted_twice(p: Pair, ok: bool) -> None:
    """#6839 with sequence parallelism: reduced by the backward of the gather, and once more as a shared parameter."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (4, ROWS, 8))
    b.output(b.matmul(b.transpose(x, 1, 0), b.reduce(g, 0)))
    x, g = d.shard("x"), d.shard("g", {0: "tp"})
    dw = d.matmul(d.transpose(x, 1, 0), d.all_reduce(d.reduce(g, 0), "tp"))
    d.output(dw if ok else d.all_reduce(dw, "tp"))


@program("tp=2,cp=2")
def auxiliary_loss_scaled_by_ranks(p: Pair, ok: bool) -> None:
    """#5047, #5798: the gradient of an auxiliary loss that all ranks of tp compute is summed over tp."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (ROWS, 4))
    b.output(b.matmul(b.transpose(x, 1, 0), g))
    x, g = d.shard("x", {0: "cp"}), d.shard("g", {0: "cp"})
    dw = d.matmul(d.transpose(x, 1, 0), g)
    d.output(d.all_reduce(dw, "cp" if ok else ["tp", "cp"]))


@program("tp=2")
def final_norm_under_sequence_parallelism(p: Pair, ok: bool) -> None:
    """#1446: rows over tp: the gradient of the norm's weight is a sum over the rows of a rank."""
    b, d = p.base, p.dist
    x, w = b.input("x", (ROWS, 16)), b.input("w", (16,))
    y = rms(b, x, w, 1)
    b.output(y, b.reduce(b.multiply(rms(b, x, b.full(1.0, (16,)), 1), b.input("g", (ROWS, 16))), 0))
    x, w = d.shard("x", {0: "tp"}), d.shard("w")
    y = rms(d, x, w, 1)
    dw = d.reduce(d.multiply(rms(d, x, d.full(1.0, (16,)), 1), d.shard("g", {0: "tp"})), 0)
    d.output(y, d.all_reduce(dw, "tp") if ok else dw)


@program("cp=2")
def gradients_of_gathered_keys(p: Pair, ok: bool) -> None:
    """#1464: keys are gathered over cp; each rank keeps the rows of its own of what only its queries give."""
    b, d = p.base, p.dist
    g, q = b.input("g", (ROWS, ROWS)), b.input("q", (ROWS, 4))
    b.output(b.matmul(b.transpose(g, 1, 0), q))
    dk = d.matmul(d.transpose(d.shard("g", {0: "cp"}), 1, 0), d.shard("q", {0: "cp"}))
    d.output(d.reduce_scatter(dk, "cp", 0) if ok else block(d, dk, 0, "cp"))


@program("tp=4")
def key_and_value_of_multi_query_attention(p: Pair, ok: bool) -> None:
    """bigcode #35: one key head on all ranks, whose gradient is a sum over the query heads of a rank."""
    b, d = p.base, p.dist
    g, q, x = b.input("g", (4, ROWS, ROWS)), b.input("q", (4, ROWS, 8)), b.input("x", (ROWS, 16))
    dk = b.reduce(b.dot(g, q, ([1], [1]), ([0], [0])), 0)
    b.output(b.matmul(b.transpose(x, 1, 0), dk))
    g, q, x = d.shard("g", {0: "tp"}), d.shard("q", {0: "tp"}), d.shard("x")
    dk = d.reduce(d.dot(g, q, ([1], [1]), ([0], [0])), 0)
    dk = d.all_reduce(dk, "tp") if ok else dk
    d.output(d.matmul(d.transpose(x, 1, 0), dk))


@program("tp=2")
def logarithms_of_a_split_softmax_with_another_reader(p: Pair, ok: bool) -> None:
    """pytorch #190746: what is normalised over the rank's part of the vocabulary is read as if it were over all."""
    b, d = p.base, p.dist
    x = b.input("logits", (ROWS, 32))
    total = b.log(b.reduce(b.exponential(x), 1))
    logs = b.subtract(x, b.broadcast(total, x.shape, [0]))
    b.output(b.reduce(b.multiply(b.exponential(logs), logs), 1))
    x = d.shard("logits", {1: "tp"})
    total = d.reduce(d.exponential(x), 1)
    total = d.log(d.all_reduce(total, "tp") if ok else total)
    logs = d.subtract(x, d.broadcast(total, x.shape, [0]))
    d.output(d.all_reduce(d.reduce(d.multiply(d.exponential(logs), logs), 1), "tp"))


@program("dp=2")
def backward_of_a_gather(p: Pair, ok: bool) -> None:
    """pytorch #153016: the adjoint of an all-gather is a reduce-scatter, not the rank's own block."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (ROWS, 32))
    b.output(b.matmul(b.transpose(x, 1, 0), g))
    dw = d.matmul(d.transpose(d.shard("x", {0: "dp"}), 1, 0), d.shard("g", {0: "dp"}))
    d.output(d.reduce_scatter(dw, "dp", 0) if ok else block(d, dw, 0, "dp"))


@program("ep=2")
def expert_gradients_doubled(p: Pair, ok: bool) -> None:
    """pytorch #160285: tokens of all ranks have come by all-to-all; the gradient is whole and is summed again."""
    b, d = p.base, p.dist
    x, g = b.input("x", (4, ROWS, 16)), b.input("g", (4, ROWS, 16))
    b.output(b.dot(x, g, ([1], [1]), ([0], [0])))
    x = d.all_to_all(d.shard("x", {1: "ep"}), "ep", 0, 1)
    g = d.all_to_all(d.shard("g", {1: "ep"}), "ep", 0, 1)
    dw = d.dot(x, g, ([1], [1]), ([0], [0]))
    d.output(dw if ok else d.all_reduce(dw, "ep"))


@program("tp=2")
def local_values_without_placements_of_gradients(p: Pair, ok: bool) -> None:
    """torchtitan #1805: the gradient of a replicated value that is used rank by rank is a part of a sum."""
    b, d = p.base, p.dist
    x, g, m = b.input("x", (ROWS, 16)), b.input("g", (ROWS, 32)), b.input("m", (16, 32))
    dx = b.dot(g, m, ([1], [1]))
    b.output(b.matmul(b.transpose(x, 1, 0), b.tanh(dx)))
    x, g, m = d.shard("x"), d.shard("g", {1: "tp"}), d.shard("m", {1: "tp"})
    dx = d.dot(g, m, ([1], [1]))
    d.output(d.matmul(d.transpose(x, 1, 0), d.tanh(d.all_reduce(dx, "tp") if ok else dx)))


@program("tp=2")
def tied_embedding_reduced_at_one_end(p: Pair, ok: bool) -> None:
    """A weight with two readers: what one gives is a part of a sum, what the other gives is whole."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (ROWS, 32))
    other = b.input("other", (16, 32))
    b.output(b.add(b.matmul(b.transpose(x, 1, 0), g), b.tanh(other)))
    x, g = d.shard("x", {0: "tp"}), d.shard("g", {0: "tp"})
    dw, whole = d.matmul(d.transpose(x, 1, 0), g), d.tanh(d.shard("other"))
    d.output(d.add(d.all_reduce(dw, "tp"), whole) if ok else d.all_reduce(d.add(dw, whole), "tp"))


@program("dp=2")
def gradient_of_a_whole_batch_on_every_rank(p: Pair, ok: bool) -> None:
    """Gradients that are averaged, though every rank had seen the whole batch: divided once too often."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (ROWS, 32))
    b.output(b.matmul(b.transpose(x, 1, 0), g))
    dw = d.matmul(d.transpose(d.shard("x"), 1, 0), d.shard("g"))
    total = d.all_reduce(dw, "dp")
    d.output(d.divide(total, 2.0) if ok else total)


@program("dp=2,tp=2")
def reduced_over_the_other_axis(p: Pair, ok: bool) -> None:
    """The process group of tp in place of that of dp."""
    b, d = p.base, p.dist
    x, g = b.input("x", (ROWS, 16)), b.input("g", (ROWS, 32))
    b.output(b.matmul(b.transpose(x, 1, 0), g))
    dw = d.matmul(d.transpose(d.shard("x", {0: "dp"}), 1, 0), d.shard("g", {0: "dp", 1: "tp"}))
    d.output(d.all_reduce(dw, "dp" if ok else "tp"))
