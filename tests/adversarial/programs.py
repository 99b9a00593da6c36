"""Small distributed programs: wrong ones that must never be proved, right ones that should be.

Unless said: x[8,16], w[16,32], tp=2; S1 = sharded on dim 1, P = pending sum, R = replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.frontends.graph import Graph, Tensor

WRONG: dict[str, Callable[[], Pair]] = {}
RIGHT: dict[str, Callable[[], Pair]] = {}


def wrong(function: Callable[[], Pair]) -> Callable[[], Pair]:
    WRONG[function.__name__] = function
    return function


def right(function: Callable[[], Pair]) -> Callable[[], Pair]:
    RIGHT[function.__name__] = function
    return function


def reduce_all(g: Graph, x: Tensor, groups: list[list[int]], reducer: str = "sum") -> Tensor:
    return g.emit("all-reduce", [x], reducer=reducer, groups=groups)


def gather(g: Graph, x: Tensor, dim: int, groups: list[list[int]]) -> Tensor:
    return g.emit("all-gather", [x], dimension=dim, groups=groups)


def total(g: Graph, x: Tensor, dims: Sequence[int], reducer: str = "sum") -> Tensor:
    return g.emit("reduce", [x], dimensions=list(dims), reducer=reducer)


def scaled(g: Graph, x: Tensor, factor: float) -> Tensor:
    return g.emit("multiply", [x, g.splat(factor, x.dtype, x.shape)])


def relu(g: Graph, x: Tensor) -> Tensor:
    return g.emit("maximum", [x, g.splat(0.0, x.dtype, x.shape)])


def add_bias(g: Graph, x: Tensor, b: Tensor) -> Tensor:
    return g.emit("add", [x, spread(g, b, x.shape, [len(x.shape) - 1])])


def softmax(g: Graph, x: Tensor, dim: int) -> Tensor:
    kept = [d for d in range(len(x.shape)) if d != dim]
    e = g.emit("exponential", [g.emit("subtract", [x, spread(g, total(g, x, [dim], "max"), x.shape, kept)])])
    return g.emit("divide", [e, spread(g, total(g, e, [dim]), x.shape, kept)])


def transposed(g: Graph, x: Tensor) -> Tensor:
    return g.emit("transpose", [x], dimensions=[1, 0])


def attend(g: Graph, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return matmul(g, softmax(g, matmul(g, q, transposed(g, k)), 1), v)


def layer_norm(g: Graph, x: Tensor) -> Tensor:
    rows, n = [0], x.shape[1]
    mean = spread(g, scaled(g, total(g, x, [1]), 1 / n), x.shape, rows)
    centred = g.emit("subtract", [x, mean])
    variance = scaled(g, total(g, g.emit("multiply", [centred, centred]), [1]), 1 / n)
    root = g.emit("rsqrt", [g.emit("add", [variance, g.splat(1e-5, "f32", variance.shape)])])
    return g.emit("multiply", [centred, spread(g, root, x.shape, rows)])


def row_parallel() -> tuple[Pair, Tensor, Tensor, Tensor, Tensor]:
    """x:S1 · w:S0 on both sides (baseline product, distributed partial), and a bias b[32]:R."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw), (b, db) = pair.input((8, 16), {1: "tp"}), pair.input((16, 32), {0: "tp"}), pair.input((32,))
    return pair, matmul(pair.base, x, w), matmul(pair.dist, dx, dw), b, db


# ---- wrong ----


@wrong
def bias_added_on_every_rank() -> Pair:
    pair, y, p, b, db = row_parallel()
    pair.outputs(add_bias(pair.base, y, b), reduce_all(pair.dist, add_bias(pair.dist, p, db), pair.groups("tp")))
    return pair


@wrong
def relu_on_a_partial_sum() -> Pair:
    pair, y, p, _, _ = row_parallel()
    pair.outputs(relu(pair.base, y), reduce_all(pair.dist, relu(pair.dist, p), pair.groups("tp")))
    return pair


@wrong
def softmax_on_a_partial_sum() -> Pair:
    pair, y, p, _, _ = row_parallel()
    pair.outputs(softmax(pair.base, y, 1), reduce_all(pair.dist, softmax(pair.dist, p, 1), pair.groups("tp")))
    return pair


@wrong
def gate_weight_used_for_up_too() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (gate, dgate), (up, _) = (
        pair.input((8, 16)),
        pair.input((16, 32), {1: "tp"}),
        pair.input((16, 32), {1: "tp"}),
    )
    b, d = pair.base, pair.dist
    y = b.emit("multiply", [b.emit("logistic", [matmul(b, x, gate)]), matmul(b, x, up)])
    pair.outputs(y, d.emit("multiply", [d.emit("logistic", [matmul(d, dx, dgate)]), matmul(d, dx, dgate)]))
    return pair


@wrong
def first_rows_of_a_whole_weight_for_every_shard() -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {1: "tp"}), pair.input((16, 32))
    rows = pair.dist.emit("slice", [dw], start=[0, 0], limit=[8, 32], stride=[1, 1])
    pair.outputs(matmul(pair.base, x, w), reduce_all(pair.dist, matmul(pair.dist, dx, rows), pair.groups("tp")))
    return pair


@wrong
def maximum_of_partial_sums() -> Pair:
    pair, y, p, _, _ = row_parallel()
    pair.outputs(y, reduce_all(pair.dist, p, pair.groups("tp"), "max"))
    return pair


@wrong
def broadcast_of_a_partial_sum() -> Pair:
    pair, y, p, _, _ = row_parallel()
    pair.outputs(y, pair.dist.emit("collective-broadcast", [p], groups=pair.groups("tp")))
    return pair


@wrong
def reduced_to_the_root_and_used_everywhere() -> Pair:
    pair, y, p, _, _ = row_parallel()
    pair.outputs(y, pair.dist.emit("add", [p, pair.dist.emit("collective-permute", [p], pairs=[(1, 0)])]))
    return pair


@wrong
def reduce_scatter_of_a_replicated_value() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16))
    part = pair.dist.emit("reduce-scatter", [dx], dimension=0, reducer="sum", groups=pair.groups("tp"))
    pair.outputs(
        pair.base.emit("negate", [x]), pair.dist.emit("negate", [gather(pair.dist, part, 0, pair.groups("tp"))])
    )
    return pair


@wrong
def reshape_of_a_shard_then_gather_interleaves() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16), {1: "tp"})
    pair.outputs(
        pair.base.emit("reshape", [x], shape=(16, 8)),
        gather(pair.dist, pair.dist.emit("reshape", [dx], shape=(16, 4)), 1, pair.groups("tp")),
    )
    return pair


@wrong
def flattened_shard_then_gather() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16), {1: "tp"})
    pair.outputs(
        pair.base.emit("reshape", [x], shape=(128,)),
        gather(pair.dist, pair.dist.emit("reshape", [dx], shape=(64,)), 0, pair.groups("tp")),
    )
    return pair


@wrong
def product_of_partial_sums() -> Pair:
    pair, y, p, _, _ = row_parallel()
    pair.outputs(
        pair.base.emit("multiply", [y, y]), reduce_all(pair.dist, pair.dist.emit("multiply", [p, p]), pair.groups("tp"))
    )
    return pair


def _ring(steps: int, rotate_values: bool = True, merge: bool = True, ranks: int = 4) -> Pair:
    """Attention over keys and values that go round the ranks; each block's exponentials are summed."""
    pair = Pair({"cp": ranks})
    n = 8
    (q, dq), (k, dk), (v, dv) = (pair.input((n, 6), {0: "cp"}) for _ in range(3))
    b, d = pair.base, pair.dist
    exact = b.emit("exponential", [matmul(b, q, transposed(b, k))])
    whole = spread(b, total(b, exact, [1]), (n, 6), [0])
    turn = [(r, (r + 1) % ranks) for r in range(ranks)]
    rows = n // ranks
    numerator, denominator = d.splat(0.0, "f32", (rows, 6)), d.splat(0.0, "f32", (rows,))
    for step in range(steps):
        if step:
            dk = d.emit("collective-permute", [dk], pairs=turn)
            dv = d.emit("collective-permute", [dv], pairs=turn) if rotate_values else dv
        weights = d.emit("exponential", [matmul(d, dq, transposed(d, dk))])
        part, mass = matmul(d, weights, dv), total(d, weights, [1])
        if not merge:
            part = scaled(d, d.emit("divide", [part, spread(d, mass, part.shape, [0])]), 1 / ranks)
        numerator, denominator = d.emit("add", [numerator, part]), d.emit("add", [denominator, mass])
    out = d.emit("divide", [numerator, spread(d, denominator, (rows, 6), [0])]) if merge else numerator
    pair.outputs(b.emit("divide", [matmul(b, exact, v), whole]), out)
    return pair


@wrong
def ring_attention_with_too_few_rotations() -> Pair:
    return _ring(3)


@wrong
def ring_attention_without_merging_the_masses() -> Pair:
    return _ring(4, merge=False)


@wrong
def ring_attention_with_values_left_behind() -> Pair:
    return _ring(4, rotate_values=False)


def _blockwise(mass_of_the_last: bool = False, values_left_behind: bool = False) -> Pair:
    """Attention in a loop over four blocks of keys and values, on every rank for its own queries."""
    pair = Pair({"cp": 2})
    (q, dq), (k, dk), (v, dv) = pair.input((8, 6), {0: "cp"}), pair.input((8, 6)), pair.input((8, 6))
    b, d = pair.base, pair.dist
    exact = b.emit("exponential", [matmul(b, q, transposed(b, k))])
    parts, masses = [], []
    for lo in range(0, 8, 2):
        keys = d.emit("slice", [dk], start=[lo, 0], limit=[lo + 2, 6], stride=[1, 1])
        at = 0 if values_left_behind else lo
        values = d.emit("slice", [dv], start=[at, 0], limit=[at + 2, 6], stride=[1, 1])
        weights = d.emit("exponential", [matmul(d, dq, transposed(d, keys))])
        parts.append(matmul(d, weights, values))
        masses.append(total(d, weights, [1]))
    numerator, denominator = parts[0], masses[0]
    for part, mass in zip(parts[1:], masses[1:], strict=True):
        numerator, denominator = d.emit("add", [numerator, part]), d.emit("add", [denominator, mass])
    shown = masses[-1] if mass_of_the_last else denominator
    pair.outputs(
        b.emit("divide", [matmul(b, exact, v), spread(b, total(b, exact, [1]), (8, 6), [0])]),
        d.emit("divide", [numerator, spread(d, shown, (4, 6), [0])]),
    )
    return pair


@wrong
def attention_in_blocks_divided_by_the_mass_of_the_last() -> Pair:
    return _blockwise(mass_of_the_last=True)


@wrong
def attention_in_blocks_with_values_left_behind() -> Pair:
    return _blockwise(values_left_behind=True)


@wrong
def rows_of_every_block_read_by_ids_of_the_first() -> Pair:
    """A loop over the blocks of a table whose ids and mask stay those of the first block: right in turn 0 alone."""
    pair = Pair({"dp": 2})
    (ids, dids), (table, dtable) = pair.input((8,), {0: "dp"}, dtype="s32", range=(0, 16)), pair.input((16, 6))
    b, d = pair.base, pair.dist
    attributes = {
        "offset_dims": [1],
        "collapsed_slice_dims": [0],
        "start_index_map": [0],
        "slice_sizes": [1, 6],
        "index_vector_dim": 1,
    }
    inside = d.emit("compare", [dids, d.splat(8, "s32", (4,))], direction="LT")
    own = d.emit("select", [inside, dids, d.splat(0, "s32", (4,))])
    kept = []
    for lo in (0, 8):
        rows = d.emit("slice", [dtable], start=[lo, 0], limit=[lo + 8, 6], stride=[1, 1])
        found = d.emit("gather", [rows, own], **attributes)  # type: ignore[arg-type]
        kept.append(d.emit("select", [spread(d, inside, (4, 6), [0]), found, d.splat(0.0, "f32", (4, 6))]))
    pair.outputs(b.emit("gather", [table, ids], **attributes), d.emit("add", kept))  # type: ignore[arg-type]
    return pair


def _experts(gated: bool) -> Pair:
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
    return _experts(False)


def _pipeline(use_received: bool) -> Pair:
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
        reduce_all(d, d.emit("select", [_on_rank(d, 1, z.shape), z, d.splat(0.0, "f32", z.shape)]), pair.groups("pp")),
    )
    return pair


def _on_rank(g: Graph, rank: int, shape: Sequence[int]) -> Tensor:
    """Whether this is the rank."""
    here = g.emit(
        "compare", [g.emit("partition-id", [], dtype="u32", shape=()), g.constant(rank, "u32")], direction="EQ"
    )
    return spread(g, here, shape, [])


@wrong
def received_activation_ignored() -> Pair:
    return _pipeline(False)


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


def _qk(swap: str) -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (wq, dq), (wk, dk) = pair.input((8, 16)), pair.input((16, 32), {1: "tp"}), pair.input((16, 32), {1: "tp"})
    b, d = pair.base, pair.dist
    if swap == "all":
        dq, dk = dk, dq
    if swap == "one":
        here = _on_rank(d, 1, dq.shape)
        dq, dk = d.emit("select", [here, dk, dq]), d.emit("select", [here, dq, dk])
    y = b.emit("subtract", [matmul(b, x, wq), b.emit("sine", [matmul(b, x, wk)])])
    pair.outputs(y, d.emit("subtract", [matmul(d, dx, dq), d.emit("sine", [matmul(d, dx, dk)])]))
    return pair


@wrong
def query_and_key_parameters_swapped() -> Pair:
    return _qk("all")


@wrong
def query_and_key_parameters_swapped_on_one_rank() -> Pair:
    return _qk("one")


def _embedding(offsets: Sequence[int]) -> Pair:
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
    return _embedding([0, 8, 0, 7])


@wrong
def loss_not_transferred_from_the_last_stage() -> Pair:
    pair = Pair({"pp": 2})
    x, dx = pair.input((8, 16))
    b, d = pair.base, pair.dist
    loss = total(d, d.emit("multiply", [dx, dx]), [0, 1])
    pair.outputs(
        total(b, b.emit("multiply", [x, x]), [0, 1]),
        d.emit("select", [_on_rank(d, 1, ()), loss, d.constant(0.0, "f32")]),
    )
    return pair


@wrong
def cast_to_half_precision_on_one_rank() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16), {0: "tp"})
    d = pair.dist
    rounded = d.emit("convert", [d.emit("convert", [dx], dtype="f16")], dtype="f32")
    pair.outputs(
        pair.base.emit("sine", [x]), d.emit("sine", [d.emit("select", [_on_rank(d, 1, dx.shape), rounded, dx])])
    )
    return pair


@wrong
def softmax_over_another_dim() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 16, 16), {0: "tp"})
    pair.outputs(softmax(pair.base, x, 2), softmax(pair.dist, dx, 1))
    return pair


def _pending_integers(kind: str) -> Pair:
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
    return _pending_integers("divide")


@wrong
def cast_of_a_partial_sum_to_integers() -> Pair:
    return _pending_integers("convert")


def _scatter(into_zeros: bool) -> Pair:
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
    return _scatter(False)


# ---- right ----


@right
def rows_added_to_zeros() -> Pair:
    return _scatter(True)


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
    return _embedding([0, 8, 0, 8])


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
    return _experts(True)


@right
def ring_attention() -> Pair:
    return _ring(4)


@right
def attention_in_blocks() -> Pair:
    return _blockwise()


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


def _gelu_gradient(of_the_partial: str) -> Pair:
    """The gradient through gelu, of a sum over tp: linear in the gradient that comes in, not in the value."""
    pair, y, p, _, _ = row_parallel()
    x, dx = pair.input((8, 32))
    base, dist, groups = pair.base, pair.dist, pair.groups("tp")
    if of_the_partial == "gradient":
        pair.outputs(base.emit("gelu-backward", [y, x]), reduce_all(dist, dist.emit("gelu-backward", [p, dx]), groups))
    else:
        pair.outputs(base.emit("gelu-backward", [x, y]), reduce_all(dist, dist.emit("gelu-backward", [dx, p]), groups))
    return pair


@right
def gradient_through_gelu_reduced_behind_it() -> Pair:
    return _gelu_gradient("gradient")


@wrong
def gradient_through_gelu_of_a_partial_value() -> Pair:
    return _gelu_gradient("value")
