"""Wrong programs of several ranks: experts, stages, gradients, parameters and ids that are another rank's.

Unless said: x[8,16], w[16,32], tp=2; S1 = sharded on dim 1, P = pending sum, R = replicated.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Graph, Tensor

from .layers import gather, reduce_all, relu, row_parallel, scaled, softmax, total, transposed
from .registry import wrong


def experts(gated: bool) -> Pair:
    """Two experts, one per rank; outputs weighted by a gate and summed."""
    pair = Pair({"ep": 2})
    (x, dx), (g, dg), (w, dw) = pair.input((8, 16)), pair.input((2, 8), {0: "ep"}), pair.input((2, 16, 16), {0: "ep"})

    def experts(graph: Graph, x: Tensor, gate: Tensor, w: Tensor, use_gate: bool) -> Tensor:
        y = graph.emit("dot", [w, x], lhs_contracting_dims=[1], rhs_contracting_dims=[1])  # expert, feature, token
        if use_gate:
            y = graph.emit("multiply", [y, spread(graph, gate, y.shape, [0, 2])])
        return total(graph, y, [0])

    pair.outputs(
        experts(pair.base, x, g, w, True),
        reduce_all(pair.dist, experts(pair.dist, dx, dg, dw, gated), pair.groups("ep")),
    )
    return pair


@wrong
def gate_of_the_experts_unused() -> Pair:
    return experts(False)


def pipeline(use_received: bool) -> Pair:
    """Two stages with one weight each; stage 1 works on what stage 0 sent. The result stands on the last stage."""
    pair = Pair({"pp": 2})
    (x, dx), (w, dw) = pair.input((8, 16)), pair.input((32, 16), {0: "pp"})
    b, d = pair.base, pair.dist
    first, second = (b.emit("slice", [w], start=[i, 0], limit=[i + 16, 16], stride=[1, 1]) for i in (0, 16))
    y = matmul(b, relu(b, matmul(b, x, first)), second)
    received = d.emit("collective-permute", [relu(d, matmul(d, dx, dw))], pairs=[(0, 1)])
    z = matmul(d, received if use_received else dx, dw)
    pair.outputs(
        y,
        reduce_all(d, d.emit("select", [on_rank(d, 1, z.shape), z, d.splat(0.0, "f32", z.shape)]), pair.groups("pp")),
    )
    return pair


def on_rank(g: Graph, rank: int, shape: Sequence[int]) -> Tensor:
    """Whether this is the rank."""
    here = g.emit(
        "compare", [g.emit("partition-id", [], dtype="u32", shape=()), g.constant(rank, "u32")], direction="EQ"
    )
    return spread(g, here, shape, [])


@wrong
def received_activation_ignored() -> Pair:
    return pipeline(False)


@wrong
def partial_sums_of_two_axes_in_one_all_reduce() -> Pair:
    pair = Pair({"dp": 2, "tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {1: "tp"}), pair.input((16, 32), {0: "tp"})
    (u, du), (v, dv) = pair.input((8, 16), {1: "dp"}), pair.input((16, 32), {0: "dp"})
    b, d = pair.base, pair.dist
    z = d.emit("add", [matmul(d, dx, dw), matmul(d, du, dv)])
    pair.outputs(b.emit("add", [matmul(b, x, w), matmul(b, u, v)]), reduce_all(d, z, pair.groups("dp", "tp")))
    return pair


@wrong
def mean_over_data_parallel_ranks_not_divided() -> Pair:
    pair = Pair({"dp": 2})
    x, dx = pair.input((8, 16), {0: "dp"})
    b, d = pair.base, pair.dist
    pair.outputs(
        scaled(b, total(b, x, [0]), 1 / 8), reduce_all(d, scaled(d, total(d, dx, [0]), 1 / 4), pair.groups("dp"))
    )
    return pair


@wrong
def column_parallel_backward_without_all_reduce() -> Pair:
    pair = Pair({"tp": 2})
    (grad, dgrad), (w, dw) = pair.input((8, 32), {1: "tp"}), pair.input((16, 32), {1: "tp"})
    pair.outputs(matmul(pair.base, grad, transposed(pair.base, w)), matmul(pair.dist, dgrad, transposed(pair.dist, dw)))
    return pair


@wrong
def two_partial_gradients_and_one_all_reduce() -> Pair:
    pair = Pair({"tp": 2})
    (g1, d1), (w1, e1) = pair.input((8, 32), {1: "tp"}), pair.input((16, 32), {1: "tp"})
    (g2, d2), (w2, e2) = pair.input((8, 32), {1: "tp"}), pair.input((16, 32), {1: "tp"})
    b, d = pair.base, pair.dist
    y = b.emit("add", [matmul(b, g1, transposed(b, w1)), matmul(b, g2, transposed(b, w2))])
    z = reduce_all(d, matmul(d, d1, transposed(d, e1)), pair.groups("tp"))
    pair.outputs(y, d.emit("add", [z, matmul(d, d2, transposed(d, e2))]))
    return pair


@wrong
def all_reduce_over_oneself() -> Pair:
    pair, y, p, _, _ = row_parallel()
    pair.outputs(y, reduce_all(pair.dist, p, [[0], [1]]))
    return pair


@wrong
def all_reduce_across_stages() -> Pair:
    pair = Pair({"pp": 2, "tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {1: "tp"}), pair.input((16, 32), {0: "tp"})
    pair.outputs(matmul(pair.base, x, w), reduce_all(pair.dist, matmul(pair.dist, dx, dw), pair.groups("pp")))
    return pair


@wrong
def gather_in_rank_order_over_crossed_shards() -> Pair:
    pair = Pair({"a": 2, "b": 2})
    x, dx = pair.input((8, 16), {0: ("b", "a")})
    pair.outputs(pair.base.emit("negate", [x]), pair.dist.emit("negate", [gather(pair.dist, dx, 0, [[0, 1, 2, 3]])]))
    return pair


def query_key(swap: str) -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (wq, dq), (wk, dk) = pair.input((8, 16)), pair.input((16, 32), {1: "tp"}), pair.input((16, 32), {1: "tp"})
    b, d = pair.base, pair.dist
    if swap == "all":
        dq, dk = dk, dq
    if swap == "one":
        here = on_rank(d, 1, dq.shape)
        dq, dk = d.emit("select", [here, dk, dq]), d.emit("select", [here, dq, dk])
    y = b.emit("subtract", [matmul(b, x, wq), b.emit("sine", [matmul(b, x, wk)])])
    pair.outputs(y, d.emit("subtract", [matmul(d, dx, dq), d.emit("sine", [matmul(d, dx, dk)])]))
    return pair


@wrong
def query_and_key_parameters_swapped() -> Pair:
    return query_key("all")


@wrong
def query_and_key_parameters_swapped_on_one_rank() -> Pair:
    return query_key("one")


def embedding(offsets: Sequence[int]) -> Pair:
    """Rows of a table that is split over the vocabulary, masked outside of each rank's range."""
    pair = Pair({"dp": 2, "tp": 2})
    (ids, dids), (table, dtable) = (
        pair.input((8,), {0: "dp"}, dtype="s32", range=(0, 16)),
        pair.input((16, 6), {0: "tp"}),
    )
    b, d = pair.base, pair.dist
    attributes = {
        "offset_dims": [1],
        "collapsed_slice_dims": [0],
        "start_index_map": [0],
        "slice_sizes": [1, 6],
        "index_vector_dim": 1,
    }
    y = b.emit("gather", [table, ids], **attributes)  # type: ignore[arg-type]
    start = d.add("constant", [], [("s32", ())])
    start.rank_numbers["value", 0] = dict(enumerate(offsets))
    offset = spread(d, start.result, (4,), [])
    local = d.emit("subtract", [dids, offset])
    inside = d.emit(
        "and",
        [
            d.emit("compare", [local, d.splat(0, "s32", (4,))], direction="GE"),
            d.emit("compare", [local, d.splat(8, "s32", (4,))], direction="LT"),
        ],
    )
    rows = d.emit("gather", [dtable, d.emit("select", [inside, local, d.splat(0, "s32", (4,))])], **attributes)  # type: ignore[arg-type]
    kept = d.emit("select", [spread(d, inside, (4, 6), [0]), rows, d.splat(0.0, "f32", (4, 6))])
    pair.outputs(y, reduce_all(d, kept, pair.groups("tp")))
    return pair


@wrong
def embedding_range_wrong_on_one_rank() -> Pair:
    return embedding([0, 8, 0, 7])


@wrong
def loss_not_transferred_from_the_last_stage() -> Pair:
    pair = Pair({"pp": 2})
    x, dx = pair.input((8, 16))
    b, d = pair.base, pair.dist
    loss = total(d, d.emit("multiply", [dx, dx]), [0, 1])
    pair.outputs(
        total(b, b.emit("multiply", [x, x]), [0, 1]),
        d.emit("select", [on_rank(d, 1, ()), loss, d.constant(0.0, "f32")]),
    )
    return pair


@wrong
def cast_to_half_precision_on_one_rank() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16), {0: "tp"})
    d = pair.dist
    rounded = d.emit("convert", [d.emit("convert", [dx], dtype="f16")], dtype="f32")
    pair.outputs(
        pair.base.emit("sine", [x]), d.emit("sine", [d.emit("select", [on_rank(d, 1, dx.shape), rounded, dx])])
    )
    return pair


@wrong
def softmax_over_another_dim() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16, 16), {0: "tp"})
    pair.outputs(softmax(pair.base, x, 2), softmax(pair.dist, dx, 1))
    return pair


def pending_integers(kind: str) -> Pair:
    """Truncation of a pending sum, then the sum."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), pending={"tp": "sum"}, dtype="s32" if kind == "divide" else "f32", range=(0, 50))
    results = []
    for g, v in ((pair.base, x), (pair.dist, dx)):
        results.append(
            g.emit("divide", [v, g.splat(2, "s32", v.shape)])
            if kind == "divide"
            else g.emit("convert", [v], dtype="s32")
        )
    pair.outputs(results[0], reduce_all(pair.dist, results[1], pair.groups("tp")))
    return pair


@wrong
def integer_division_of_a_partial_sum() -> Pair:
    return pending_integers("divide")


@wrong
def cast_of_a_partial_sum_to_integers() -> Pair:
    return pending_integers("convert")


def scattered(into_zeros: bool) -> Pair:
    """Rows added by ids, ids and rows sharded; then all-reduced."""
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((6,), {0: "tp"}, dtype="s32", range=(0, 8)), pair.input((6, 4), {0: "tp"})
    values = [g.splat(0.0, "f32", (8, 4)) for g in (pair.base, pair.dist)] if into_zeros else list(pair.input((8, 4)))
    results = [
        g.emit(
            "scatter", [v, ids, rows], update_window_dims=[1], inserted_window_dims=[0],
            scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer="sum",
        )
        for g, v, ids, rows in ((pair.base, values[0], i, u), (pair.dist, values[1], di, du))
    ]  # fmt: skip
    pair.outputs(results[0], reduce_all(pair.dist, results[1], pair.groups("tp")))
    return pair


@wrong
def rows_added_to_a_value_on_every_rank() -> Pair:
    return scattered(False)


# ---- right ----


def gelu_gradient(of_the_partial: str) -> Pair:
    """The gradient through gelu, of a sum over tp: linear in the gradient that comes in, not in the value."""
    pair, y, p, _, _ = row_parallel()
    x, dx = pair.input((8, 32))
    base, dist, groups = pair.base, pair.dist, pair.groups("tp")
    if of_the_partial == "gradient":
        pair.outputs(base.emit("gelu-backward", [y, x]), reduce_all(dist, dist.emit("gelu-backward", [p, dx]), groups))
    else:
        pair.outputs(base.emit("gelu-backward", [x, y]), reduce_all(dist, dist.emit("gelu-backward", [dx, p]), groups))
    return pair


@wrong
def gradient_through_gelu_of_a_partial_value() -> Pair:
    return gelu_gradient("value")
