"""Wrong programs by hand about rows that are added up, batches, and calls of several programs."""

from __future__ import annotations

from functools import partial
from typing import Any

from scalify_dl.audit.fuzz.order_steps import gathered_in
from scalify_dl.audit.fuzz.padding_steps import first
from scalify_dl.audit.fuzz.partitioner_steps import Blocks, block_gather, laid, rank_scalar, read_attributes
from scalify_dl.audit.pair import Pair, matmul
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Repl
from scalify_dl.ir.literals import Literal

from .moved import inside, kept, of_rank
from .registry import TRIALS, trial

ADDED: dict[str, Any] = {
    "update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1,
    "reducer": "sum",
}  # fmt: skip


def added(g: Graph, rows: int, ids: Tensor, updates: Tensor) -> Tensor:
    """Updates added to rows of zeros."""
    return g.emit("scatter", [g.splat(0.0, "f32", (rows, updates.shape[1])), ids, updates], **ADDED)


@trial
def rows_that_no_rank_has() -> Pair:
    """Three of the four rows of a block."""
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((6,), dtype="s32", range=(0, 8)), pair.input((6, 2))
    near = pair.dist.emit("subtract", [di, of_rank(pair, [0, 4], di)])
    pair.outputs(added(pair.base, 8, i, u), added(pair.dist, 3, near, du))
    return pair


def twice_as_much(masked: bool) -> Pair:
    """Every rank adds twice the updates to the rows that it has; it masks the others, or drops them."""
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((6,), dtype="s32", range=(0, 8)), pair.input((6, 2))
    twice = pair.dist.emit("multiply", [du, pair.dist.splat(2.0, "f32", du.shape)])
    near = pair.dist.emit("subtract", [di, of_rank(pair, first(pair, "tp", 4), di)])
    mine = kept(pair.dist, inside(pair, di, 4), twice) if masked else twice
    pair.outputs(added(pair.base, 8, i, u), added(pair.dist, 4, near, mine))
    return pair


TRIALS["twice the updates, added to rows"] = partial(twice_as_much, False)
TRIALS["twice the updates, masked and added to rows"] = partial(twice_as_much, True)


@trial
def rows_and_columns_over_one_axis() -> Pair:
    """Every rank has columns of the updates, and a block of the rows."""
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((6,), dtype="s32", range=(0, 8)), pair.input((6, 2), {1: "tp"})
    near = pair.dist.emit("subtract", [di, of_rank(pair, [0, 4], di)])
    pair.outputs(added(pair.base, 8, i, u), added(pair.dist, 4, near, du))
    return pair


@trial
def updates_that_are_masked_and_gathered() -> Pair:
    """One half of the ranks masks its updates, the other one adds what is outside to row 0, and they exchange both."""
    pair = Pair({"dp": 2, "tp": 2})
    (i, di), (u, du) = pair.input((8,), {0: "dp"}, dtype="s32", range=(0, 8)), pair.input((8, 2), {0: "dp"})
    g = pair.dist

    def second(x: Tensor) -> Tensor:  # on ranks with dp = 1
        ones = of_rank(pair, [c[0] for c in pair.mesh.coordinates], x)
        here = g.emit("add", [g.emit("multiply", [x, g.splat(0, "s32", x.shape)]), ones])
        return g.emit("compare", [here, g.splat(0, "s32", x.shape)], direction="NE")

    def whole(x: Tensor) -> Tensor:
        return g.emit("all-gather", [x], dimension=0, groups=pair.groups("dp"))

    masked = kept(g, g.emit("or", [inside(pair, di, 4), g.emit("not", [second(di)])]), du)
    ids = whole(di)
    near = g.emit("subtract", [ids, of_rank(pair, first(pair, "tp", 4), ids)])
    outside = g.emit("and", [g.emit("not", [inside(pair, ids, 4)]), second(ids)])
    near = g.emit("select", [outside, g.splat(0, "s32", ids.shape), near])
    pair.outputs(added(pair.base, 8, i, u), added(g, 4, near, whole(masked)))
    return pair


@trial
def rows_of_a_batch_that_one_rank_has() -> Pair:
    """Every rank adds to the rows of its batch."""
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((2, 3), {0: "tp"}, dtype="s32", range=(0, 8)), pair.input((2, 3, 2), {0: "tp"})
    batched: dict[str, Any] = {
        "update_window_dims": [2], "inserted_window_dims": [1], "scatter_dims_to_operand_dims": [1],
        "input_batching_dims": [0], "scatter_indices_batching_dims": [0], "index_vector_dim": 2, "reducer": "sum",
    }  # fmt: skip
    sums = [
        g.emit("scatter", [g.splat(0.0, "f32", (v.shape[0], 8, 2)), ids, v], **batched)
        for g, ids, v in ((pair.base, i, u), (pair.dist, di, du))
    ]
    pair.outputs(sums[0], pair.dist.emit("all-reduce", [sums[1]], reducer="sum", groups=pair.groups("tp")))
    return pair


@trial
def batches_over_different_axes() -> Pair:
    """One operand has its batches over `dp`, the other one over `tp`."""
    pair = Pair({"dp": 2, "tp": 2})
    (x, dx), (y, dy) = pair.input((8, 2, 3), {0: "dp"}), pair.input((8, 3, 2), {0: "tp"})
    dims: dict[str, Any] = {
        "lhs_batch_dims": [0], "rhs_batch_dims": [0], "lhs_contracting_dims": [2], "rhs_contracting_dims": [1],
    }  # fmt: skip
    pair.outputs(pair.base.emit("dot", [x, y], **dims), pair.dist.emit("dot", [dx, dy], **dims))
    return pair


def shifted_write(*, rows: int, window: int, scale: float = 1.0, parts: bool = False) -> Pair:
    """A scatter at two indices minus first ones of the rank, into so many rows of eight; of indices the ranks may have
    `parts` alone, which add up to them."""
    pair = Pair({"tp": 2})
    pending = {"tp": "sum"} if parts else {}
    (i, di), (u, du) = (
        pair.input((4, 2), dtype="s32", range=(0, 8), pending=pending),
        pair.input((4, 2) if window > 1 else (4,)),
    )
    g = pair.dist
    near = g.emit("subtract", [di, laid(g, [rank_scalar(pair, [0, 4]), rank_scalar(pair, [0, 0])], di.shape)])
    attributes: dict[str, Any] = {
        "update_window_dims": [1] if window > 1 else [], "inserted_window_dims": [1] if window > 1 else [0, 1],
        "scatter_dims_to_operand_dims": [0, 1], "index_vector_dim": 1, "reducer": "sum",
    }  # fmt: skip
    if scale != 1.0:
        du = g.emit("multiply", [du, g.splat(scale, "f32", du.shape)])
    pair.outputs(
        pair.base.emit("scatter", [pair.base.splat(0.0, "f32", (8, 8)), i, u], **attributes),
        g.emit("scatter", [g.splat(0.0, "f32", (rows, 8)), near, du], **attributes),
    )
    return pair


@trial
def indices_of_the_rank_into_all_rows() -> Pair:
    """Every rank has all rows, and takes its first index off."""
    return shifted_write(rows=8, window=1)


@trial
def windows_over_the_border_of_a_block() -> Pair:
    """Updates of two rows each, of which the second one may be in the next block."""
    return shifted_write(rows=4, window=2)


@trial
def twice_the_updates_in_blocks() -> Pair:
    """Every rank makes its block of twice the sums."""
    return shifted_write(rows=4, window=1, scale=2.0)


@trial
def blocks_at_indices_that_are_still_to_be_added_up() -> Pair:
    """Every rank scatters at its own terms of the indices."""
    return shifted_write(rows=4, window=1, parts=True)


@trial
def the_norm_of_vectors_in_another_order() -> Pair:
    """Elements of the vectors in another order than their weights."""
    pair = Pair({"tp": 2})
    turned = Layout.of([[Digit(0, 1, 2), Digit(0, 2, 2)], [Digit(1, 1, 3)]], [("tp", [Repl(2)])])
    (x, dx), (w, dw) = pair.input((4, 3), layout=turned), pair.input((4,))
    outputs = [
        g.add("custom:AwsNeuronRmsNorm", [a, b, g.constant(0.01, "f32")], [("f32", (4, 3))]).result
        for g, a, b in ((pair.base, x, w), (pair.dist, dx, dw))
    ]
    pair.outputs(*outputs)
    return pair


@trial
def attention_without_heads() -> Pair:
    """Queries, keys and values have none."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4, 0, 4)), pair.input((4,))
    calls = [
        g.add("custom:vllm.unified_attention", [v] * 4, [("f32", (4, 0, 4))])
        for g, v in ((pair.base, x), (pair.dist, dx))
    ]
    pair.outputs(*(call.result for call in calls))
    pair.outputs(y, pair.dist.emit("negate", [dy]))
    return pair


@trial
def the_other_one_of_two_large_constants() -> Pair:
    """Constants that the dumps do not print, known by their hashes."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,))
    outputs = []
    for g, v, which in ((pair.base, x, 0), (pair.dist, dx, 1)):
        large = [g.constant(Literal("{...}", sha256=name * 64), "f32", (4,)) for name in "ab"]
        products = [g.emit("multiply", [v, c]) for c in large]
        outputs.append((products[which], g.emit("exponential", [products[1 - which]])))
    pair.outputs(outputs[0][0], outputs[1][0])
    pair.outputs(outputs[0][1], outputs[1][1])
    return pair


@trial
def another_large_constant() -> Pair:
    """The only constant that is not printed has another hash."""
    pair = Pair({"tp": 2})
    values = zip((pair.base, pair.dist), pair.input((4,)), "ab", strict=True)
    pair.outputs(
        *(g.emit("multiply", [v, g.constant(Literal("{...}", sha256=n * 64), "f32", (4,))]) for g, v, n in values)
    )
    return pair


@trial
def two_masks_of_a_number() -> Pair:
    """The baseline draws twice for one number, the distributed side once."""
    pair = Pair({"tp": 2})
    x, dx = pair.input(())
    mine = pair.dist.emit("dropout-mask", [dx], probability="0.5")
    for _ in range(6):
        pair.outputs(pair.base.emit("dropout-mask", [x], probability="0.5"), mine)
    return pair


@trial
def two_elements_at_pairs_of_indices() -> Pair:
    """The second element that is read may be in the next block."""
    pair = Pair({"tp": 2})
    blocks = Blocks.of(pair, (8, 6), [None, "tp"], {})
    t, dt = pair.input((8, 6), {1: "tp"})
    i, di = pair.input((4, 2), dtype="s32", range=(0, 5))
    read = block_gather(pair, dt, di, blocks, [8, 6], wide=True)
    expected = pair.base.emit("gather", [t, i], **read_attributes((8, 6), 1, 2, wide=True))
    pair.outputs(expected, pair.dist.emit("all-reduce", [read], reducer="sum", groups=pair.groups("tp")))
    return pair


@trial
def orders_that_differ_in_the_second_group() -> Pair:
    """Both operands are gathered in the same order by the first group, by the second one in different ones."""
    pair = Pair({"dp": 2, "tp": 2})
    (x, dx), (w, dw) = pair.input((2, 4), {1: "tp"}), pair.input((4, 2), {0: "tp"})
    columns = gathered_in(pair, dx, 1, "tp", [[1, 0], [1, 0]])
    rows = gathered_in(pair, dw, 0, "tp", [[1, 0], [0, 1]])
    pair.outputs(matmul(pair.base, x, w), matmul(pair.dist, columns, rows))
    return pair
