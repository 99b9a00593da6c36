"""Small distributed programs that should be proved; the wrong ones are trials (`WRONG`).

Unless said: x[8,16], w[16,32], tp=2; S1 = sharded on dim 1, P = pending sum, R = replicated.
"""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair, matmul
from scalify_dl.audit.trials import WRONG
from scalify_dl.audit.trials.layers import (
    add_bias,
    blockwise,
    gather,
    layer_norm,
    reduce_all,
    ring,
    row_parallel,
    scaled,
    softmax,
    total,
    transposed,
)
from scalify_dl.audit.trials.models import embedding, experts, gelu_gradient, scattered
from scalify_dl.ir.graph import Graph, Tensor

__all__ = ["RIGHT", "WRONG"]

RIGHT: dict[str, Callable[[], Pair]] = {}


def right(function: Callable[[], Pair]) -> Callable[[], Pair]:
    RIGHT[function.__name__] = function
    return function


@right
def rows_added_to_zeros() -> Pair:
    return scattered(True)


@right
def output_left_sharded() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16)), pair.input((16, 32), {1: "tp"})
    pair.outputs(matmul(pair.base, x, w), matmul(pair.dist, dx, dw))
    return pair


@right
def data_parallel() -> Pair:
    pair = Pair({"dp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {0: "dp"}), pair.input((16, 32))
    pair.outputs(matmul(pair.base, x, w), matmul(pair.dist, dx, dw))
    return pair


@right
def two_partial_sums_added_and_one_all_reduce() -> Pair:
    pair, y, p, _, _ = row_parallel()
    (u, du), (v, dv) = pair.input((8, 16), {1: "tp"}), pair.input((16, 32), {0: "tp"})
    b, d = pair.base, pair.dist
    pair.outputs(
        b.emit("add", [y, matmul(b, u, v)]), reduce_all(d, d.emit("add", [p, matmul(d, du, dv)]), pair.groups("tp"))
    )
    return pair


@right
def three_dimensional_product() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((4, 8, 16), {2: "tp"}), pair.input((16, 32), {0: "tp"})
    pair.outputs(matmul(pair.base, x, w), reduce_all(pair.dist, matmul(pair.dist, dx, dw), pair.groups("tp")))
    return pair


@right
def vocabulary_parallel_embedding_over_two_axes() -> Pair:
    return embedding([0, 8, 0, 8])


@right
def bias_after_the_all_reduce() -> Pair:
    pair, y, p, b, db = row_parallel()
    pair.outputs(add_bias(pair.base, y, b), add_bias(pair.dist, reduce_all(pair.dist, p, pair.groups("tp")), db))
    return pair


@right
def uneven_shard_with_padding() -> Pair:
    """13 columns as 7 + 6: both ranks hold 7 of 14, the last one is padding, sliced off after the gather."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16)), pair.input((16, 13))
    b, d = pair.base, pair.dist
    padded = d.emit("pad", [dw, d.constant(0.0, "f32")], low=[0, 0], high=[0, 1], interior=[0, 0])
    mine = d.add("slice", [padded], [("f32", (16, 7))], numbers={"start": [0, 0], "limit": [16, 7], "stride": [1, 1]})
    mine.rank_numbers["start", 1], mine.rank_numbers["limit", 1] = {0: 0, 1: 7}, {0: 7, 1: 14}
    whole = gather(d, matmul(d, dx, mine.result), 1, pair.groups("tp"))
    pair.outputs(matmul(b, x, w), d.emit("slice", [whole], start=[0, 0], limit=[8, 13], stride=[1, 1]))
    return pair


@right
def sequence_parallel_layer_norm() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16), {0: "tp"})
    pair.outputs(layer_norm(pair.base, x), gather(pair.dist, layer_norm(pair.dist, dx), 0, pair.groups("tp")))
    return pair


@right
def transpose_then_row_parallel() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((16, 8), {0: "tp"}), pair.input((16, 32), {0: "tp"})
    b, d = pair.base, pair.dist
    pair.outputs(matmul(b, transposed(b, x), w), reduce_all(d, matmul(d, transposed(d, dx), dw), pair.groups("tp")))
    return pair


@right
def experts_and_all_reduce() -> Pair:
    return experts(True)


@right
def ring_attention() -> Pair:
    return ring(4)


@right
def attention_in_blocks() -> Pair:
    return blockwise()


@right
def batch_sharded_cross_entropy() -> Pair:
    pair = Pair({"dp": 2})
    (x, dx), (t, dt) = pair.input((8, 16), {0: "dp"}), pair.input((8, 16), {0: "dp"})

    def loss(g: Graph, x: Tensor, t: Tensor) -> Tensor:
        return g.emit("negate", [total(g, g.emit("multiply", [t, g.emit("log", [softmax(g, x, 1)])]), [0, 1])])

    pair.outputs(loss(pair.base, x, t), reduce_all(pair.dist, loss(pair.dist, dx, dt), pair.groups("dp")))
    return pair


@right
def forward_all_reduce_and_identity_backward() -> Pair:
    pair, y, p, _, _ = row_parallel()
    (grad, dgrad), (w, dw) = pair.input((8, 32)), pair.input((16, 32), {0: "tp"})
    pair.outputs(y, reduce_all(pair.dist, p, pair.groups("tp")))
    pair.outputs(matmul(pair.base, grad, transposed(pair.base, w)), matmul(pair.dist, dgrad, transposed(pair.dist, dw)))
    return pair


@right
def operands_of_an_addition_swapped() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((8, 16), {0: "tp"}), pair.input((8, 16), {0: "tp"})
    pair.outputs(pair.base.emit("add", [x, y]), pair.dist.emit("add", [dy, dx]))
    return pair


@right
def sums_in_another_order() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16, 4), {1: "tp"})
    b, d = pair.base, pair.dist
    pair.outputs(total(b, x, [0, 1]), total(d, reduce_all(d, total(d, dx, [1]), pair.groups("tp")), [0]))
    return pair


@right
def residual_divided_over_the_ranks_before_the_all_reduce() -> Pair:
    pair, y, p, _, _ = row_parallel()
    r, dr = pair.input((8, 32))
    b, d = pair.base, pair.dist
    pair.outputs(b.emit("add", [y, r]), reduce_all(d, d.emit("add", [p, scaled(d, dr, 0.5)]), pair.groups("tp")))
    return pair


@right
def mean_of_two_means() -> Pair:
    pair = Pair({"dp": 2})
    x, dx = pair.input((8, 16), {0: "dp"})
    b, d = pair.base, pair.dist
    z = reduce_all(d, scaled(d, total(d, dx, [0]), 1 / 4), pair.groups("dp"))
    pair.outputs(scaled(b, total(b, x, [0]), 1 / 8), scaled(d, z, 0.5))
    return pair


@right
def pointwise_functions_on_a_shard() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (m, dm) = pair.input((8, 16), {1: "tp"}), pair.input((8, 16), {1: "tp"}, dtype="pred")
    b, d = pair.base, pair.dist

    def f(g: Graph, x: Tensor, m: Tensor) -> Tensor:
        return g.emit("select", [g.emit("not", [m]), g.emit("sine", [x]), g.emit("cosine", [x])])

    pair.outputs(f(b, x, m), f(d, dx, dm))
    return pair


@right
def gelu_on_a_column_shard() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16)), pair.input((16, 32), {1: "tp"})
    pair.outputs(pair.base.emit("gelu", [matmul(pair.base, x, w)]), pair.dist.emit("gelu", [matmul(pair.dist, dx, dw)]))
    return pair


@right
def data_parallel_axis_of_size_one() -> Pair:
    pair = Pair({"dp": 1, "tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {0: "dp", 1: "tp"}), pair.input((16, 32), {0: "tp"})
    z = reduce_all(pair.dist, matmul(pair.dist, dx, dw), pair.groups("tp"))
    pair.outputs(matmul(pair.base, x, w), reduce_all(pair.dist, z, pair.groups("dp")))
    return pair


@right
def scale_moved_across_a_product() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {1: "tp"}), pair.input((16, 32), {0: "tp"})
    b, d = pair.base, pair.dist
    pair.outputs(
        scaled(b, matmul(b, x, w), 0.125), reduce_all(d, matmul(d, scaled(d, dx, 0.125), dw), pair.groups("tp"))
    )
    return pair


@right
def gather_order_reversed_on_both_sides() -> Pair:
    """Columns gathered in reverse order meet rows gathered in reverse order."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {1: "tp"}), pair.input((16, 32), {0: "tp"})
    d = pair.dist
    pair.outputs(matmul(pair.base, x, w), matmul(d, gather(d, dx, 1, [[1, 0]]), gather(d, dw, 0, [[1, 0]])))
    return pair


@right
def gradient_through_gelu_reduced_behind_it() -> Pair:
    return gelu_gradient("gradient")
