"""Wrong layers of models: partial sums, shards that are put together wrongly, attention in rings and blocks.

Unless said: x[8,16], w[16,32], tp=2; S1 = sharded on dim 1, P = pending sum, R = replicated.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Graph, Tensor

from .registry import wrong


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
def broadcast_of_blocks() -> Pair:
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((8, 16), {0: "dp"})
    pair.outputs(x, pair.dist.emit("collective-broadcast", [dx], groups=pair.groups("dp")))
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


def ring(steps: int, rotate_values: bool = True, merge: bool = True, ranks: int = 4) -> Pair:
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
    return ring(3)


@wrong
def ring_attention_without_merging_the_masses() -> Pair:
    return ring(4, merge=False)


@wrong
def ring_attention_with_values_left_behind() -> Pair:
    return ring(4, rotate_values=False)


def blockwise(mass_of_the_last: bool = False, values_left_behind: bool = False) -> Pair:
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
    return blockwise(mass_of_the_last=True)


@wrong
def attention_in_blocks_with_values_left_behind() -> Pair:
    return blockwise(values_left_behind=True)


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
