"""Uneven shards: padded, computed on, masked, cut back (graph/rewrites/padding/, lemmas/padding/); gathers in another
order (datalog/graph/rewrites/gather_order.dl)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz.order_steps import reordered
from scalify_dl.audit.fuzz.padding_steps import (
    SPELLINGS,
    first,
    gathered,
    inside,
    masked,
    on_one_rank,
    uneven_shard,
)  # fmt: skip
from scalify_dl.audit.fuzz.partitioner_steps import part, rank_scalar
from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Graph, Tensor

INFINITY = float("inf")


def proved(pair: Pair) -> bool:
    """The rules' verdict; whatever they derive on the way is true."""
    tables = pair.tables()
    derived = derive(tables)
    assert audit(tables, derived.corr).false == []
    return not derived.unproved


def silu(g: Graph, x: Tensor) -> Tensor:
    return g.emit("multiply", [x, g.emit("logistic", [x])])


def total(pair: Pair, x: Tensor, dims: list[int], reducer: str = "sum") -> Tensor:
    part = pair.dist.emit("reduce", [x], dimensions=dims, reducer=reducer)
    return pair.dist.emit("all-reduce", [part], reducer=reducer, groups=pair.groups("tp"))


def feed_forward(activation: Callable[[Graph, Tensor], Tensor], *, fillers: tuple[float, float] = (0.0, 0.0)) -> Pair:
    """Hidden size 10 over tp=4: weights padded to 12, no mask."""
    pair = Pair({"tp": 4})
    (x, dx), (up, dup), (b, db), (down, ddown) = (
        pair.input((8, 16)), pair.input((16, 10)), pair.input((10,)), pair.input((10, 16)),
    )  # fmt: skip
    g = pair.dist
    mine, bias = uneven_shard(pair, dup, 1, "tp", filler=fillers[0]), uneven_shard(pair, db, 0, "tp")
    hidden = matmul(g, dx, mine)
    hidden = activation(g, g.emit("add", [hidden, spread(g, bias, hidden.shape, [1])]))
    part = matmul(g, hidden, uneven_shard(pair, ddown, 0, "tp", filler=fillers[1]))
    base = matmul(pair.base, x, up)
    base = activation(pair.base, pair.base.emit("add", [base, spread(pair.base, b, base.shape, [1])]))
    out = g.emit("all-reduce", [part], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(matmul(pair.base, base, down), out)
    return pair


def unary(kind: str) -> Callable[[Graph, Tensor], Tensor]:
    return lambda g, x: g.emit(kind, [x])


@pytest.mark.parametrize("activation", [silu, unary("tanh"), unary("logistic"), unary("gelu"), unary("exponential")])
def test_a_hidden_size_padded_with_zeros_needs_no_mask(activation: Callable[[Graph, Tensor], Tensor]) -> None:
    assert proved(feed_forward(activation))


WRONG_FEED_FORWARD = {
    "a filler that is not finite times zero": feed_forward(unary("log")),
    "weights that are padded with ones": feed_forward(silu, fillers=(1.0, 1.0)),
    "a second weight padded with ones": feed_forward(unary("exponential"), fillers=(0.0, 1.0)),
}


@pytest.mark.parametrize("name", WRONG_FEED_FORWARD)
def test_other_fillers_show_in_a_contraction(name: str) -> None:
    assert not proved(WRONG_FEED_FORWARD[name])


def softmax(
    *, bound: int = 10, tops: float = -INFINITY, unmasked: bool = False, low: int = 0, spelling: str = SPELLINGS[0]
) -> Pair:
    """Softmax over 10 classes on tp=4, the way XLA's partitioner writes it."""
    pair = Pair({"dp": 2, "tp": 4})
    (x, dx), (w, dw) = pair.input((8, 16), {0: "dp"}), pair.input((16, 10))
    g, b = pair.dist, pair.base
    y = matmul(g, dx, uneven_shard(pair, dw, 1, "tp"))
    top = total(pair, masked(pair, y, 1, "tp", bound, tops, spelling=spelling), [1], "max")
    e = g.emit("exponential", [g.emit("subtract", [y, spread(g, top, y.shape, [0])])])
    kept = e if unmasked else masked(pair, e, 1, "tp", bound, 0.0, spelling=spelling)
    share = g.emit("divide", [e, spread(g, total(pair, kept, [1]), e.shape, [0])])
    logits = matmul(b, x, w)
    above = spread(b, b.emit("reduce", [logits], dimensions=[1], reducer="max"), logits.shape, [0])
    power = b.emit("exponential", [b.emit("subtract", [logits, above])])
    below = spread(b, b.emit("reduce", [power], dimensions=[1], reducer="sum"), logits.shape, [0])
    pair.outputs(b.emit("divide", [power, below]), gathered(pair, share, 1, "tp", 10, low=low))
    return pair


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_softmax_over_uneven_shards_is_masked_and_cut(spelling: str) -> None:
    assert proved(softmax(spelling=spelling))


WRONG_SOFTMAX = {
    "one class too few": softmax(bound=9),
    "one class too many": softmax(bound=11),
    "a maximum with zeros": softmax(tops=0.0),
    "a sum of everything": softmax(unmasked=True),
    "cut one element late": softmax(low=1),
}


@pytest.mark.parametrize("name", WRONG_SOFTMAX)
@pytest.mark.parametrize("spelling", [SPELLINGS[0], SPELLINGS[4]])
def test_a_softmax_with_another_mask_is_not(name: str, spelling: str) -> None:
    assert not proved(WRONG_SOFTMAX[name])


def flagged(kind: str, *, bound: int = 10) -> Pair:
    """A sum over ten rows on tp=4, elements multiplied by 0 or 1."""
    pair = Pair({"tp": 4})
    x, dx = pair.input((10, 8))
    g = pair.dist
    y = g.emit(kind, [uneven_shard(pair, dx, 0, "tp")])
    flags = g.emit("convert", [inside(pair, (3,), 0, "tp", bound)], dtype="f32")
    part = g.emit("multiply", [y, spread(g, flags, (3, 8), [0])])
    base = pair.base.emit("reduce", [pair.base.emit(kind, [x])], dimensions=[0], reducer="sum")
    pair.outputs(base, total(pair, part, [0]))
    return pair


def test_a_mask_that_multiplies_needs_something_finite() -> None:
    assert proved(flagged("exponential"))
    assert not proved(flagged("exponential", bound=9))
    assert not proved(flagged("log"))


def lookup(*, rows: int = 3, filler: float = 0.0) -> Pair:
    """Rows of a table of ten over tp=4: every rank reads those it has, a sum puts them together."""
    pair = Pair({"tp": 4})
    (t, dt), (i, di) = pair.input((10, 4)), pair.input((8,), dtype="s32", range=(0, 10))
    g, mine = pair.dist, uneven_shard(pair, dt, 0, "tp", filler=filler)
    low = g.emit("broadcast", [rank_scalar(pair, first(pair, "tp", 3))], shape=(8,), dimensions=[])
    local = g.emit("subtract", [di, low])
    bounds = [("GE", low), ("LT", g.emit("add", [low, g.splat(rows, "s32", (8,))]))]
    keep = g.emit("and", [g.emit("compare", [di, bound], direction=way) for way, bound in bounds])
    attributes = {
        "offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1, 4],
        "index_vector_dim": 1,
    }  # fmt: skip
    row = g.emit("gather", [mine, g.emit("reshape", [local], shape=(8, 1))], **attributes)
    row = g.emit("select", [spread(g, keep, (8, 4), [0]), row, g.splat(0.0, "f32", (8, 4))])
    base = pair.base.emit("gather", [t, pair.base.emit("reshape", [i], shape=(8, 1))], **attributes)
    pair.outputs(base, g.emit("all-reduce", [row], reducer="sum", groups=pair.groups("tp")))
    return pair


def test_rows_of_an_uneven_table() -> None:
    assert proved(lookup())
    assert proved(lookup(filler=1.0))
    assert not proved(lookup(rows=2))
    assert not proved(lookup(rows=4))


def last_token(*, chosen: int = 3, at: int = 3, uneven: bool = False) -> Pair:
    """x[:, -1], with dim 1 over tp=4: the last rank has it."""
    pair = Pair({"dp": 2, "tp": 4})
    n = 15 if uneven else 16
    x, dx = pair.input((8, n), {0: "dp"} if uneven else {0: "dp", 1: "tp"})
    mine = uneven_shard(pair, dx, 1, "tp") if uneven else dx
    own = part(pair.dist, pair.dist.emit("tanh", [mine]), 1, at, at + 1)
    last = part(pair.base, pair.base.emit("tanh", [x]), 1, n - 1, n)
    pair.outputs(last, on_one_rank(pair, own, "tp", chosen))
    return pair


def test_the_last_of_a_sharded_dim_is_on_one_rank() -> None:
    assert proved(last_token())
    assert proved(last_token(uneven=True, at=2))
    assert not proved(last_token(chosen=2))
    assert not proved(last_token(at=2))
    assert not proved(last_token(uneven=True, at=3))


def sent(source: int, *, chosen: int = 0) -> Pair:
    """x[:, -1], with dim 1 over tp=4: sent to one rank, and kept on one."""
    pair = Pair({"dp": 2, "tp": 4})
    x, dx = pair.input((8, 16), {0: "dp", 1: "tp"})
    own = part(pair.dist, dx, 1, 3, 4)
    own = pair.dist.emit("collective-permute", [own], pairs=[(source, 0), (source + 4, 4)])
    pair.outputs(part(pair.base, x, 1, 15, 16), on_one_rank(pair, own, "tp", chosen))
    return pair


def test_it_may_be_sent_to_another_rank_first() -> None:
    assert proved(sent(3))
    assert not proved(sent(2))
    assert not proved(sent(3, chosen=1))


def additions(*, slip: int = 0, cut: int = 10) -> Pair:
    """Rows added into ten rows of zeros, by id; over tp=4 every rank adds those that it has."""
    pair = Pair({"tp": 4})
    (u, du), (i, di) = pair.input((8, 4)), pair.input((8,), dtype="s32", range=(0, 10))
    g, b = pair.dist, pair.base
    starts = [start + slip for start in first(pair, "tp", 3)]
    local = g.emit("subtract", [di, g.emit("broadcast", [rank_scalar(pair, starts)], shape=(8,), dimensions=[])])
    attributes = {
        "update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1, "reducer": "sum",
    }  # fmt: skip

    def scatter(side: Graph, rows: int, ids: Tensor, updates: Tensor) -> Tensor:
        into = side.splat(0.0, "f32", (rows, 4))
        return side.emit("scatter", [into, side.emit("reshape", [ids], shape=(8, 1)), updates], **attributes)

    whole = g.emit("all-gather", [scatter(g, 3, local, du)], dimension=0, groups=pair.groups("tp"))
    pair.outputs(scatter(b, 10, i, u), part(g, whole, 0, cut - 10, cut))
    return pair


def test_rows_added_to_an_uneven_table() -> None:
    assert not proved(additions(slip=1))
    assert not proved(additions(cut=11))
    assert proved(additions())


def cropped(high: int) -> Pair:
    """Ten columns over tp=4, gathered; two of twelve cropped, at either end, by a pad."""
    pair = Pair({"tp": 4})
    x, dx = pair.input((8, 10))
    g = pair.dist
    whole = g.emit("all-gather", [uneven_shard(pair, dx, 1, "tp")], dimension=1, groups=pair.groups("tp"))
    edges = {"low": [0, -2 - high], "high": [0, high], "interior": [0, 0]}
    pair.outputs(x, g.emit("pad", [whole, g.constant(0.0, "f32")], **edges))
    return pair


def test_a_pad_may_cut_back() -> None:
    assert proved(cropped(-2))
    assert not proved(cropped(0))
    assert not proved(cropped(-1))


def product(orders: tuple[list[int], list[int]], *, kind: str = "tanh", summed: bool = True) -> Pair:
    """x and w gathered over tp=4 in some orders; x goes through an elementwise op, then x w, or x as it is."""
    pair = Pair({"dp": 2, "tp": 4})
    (x, dx), (w, dw) = pair.input((8, 16), {0: "dp", 1: "tp"}), pair.input((16, 32), {0: "tp"})
    left = pair.dist.emit(kind, [reordered(pair, dx, 1, "tp", orders[0])])
    right, y = reordered(pair, dw, 0, "tp", orders[1]), pair.base.emit(kind, [x])
    pair.outputs(*((matmul(pair.base, y, w), matmul(pair.dist, left, right)) if summed else (y, left)))
    return pair


def test_a_contraction_does_not_mind_the_order_of_its_index() -> None:
    assert proved(product(([2, 0, 3, 1], [2, 0, 3, 1])))


def test_two_orders_are_not_one() -> None:
    assert not proved(product(([2, 0, 3, 1], [1, 3, 0, 2])))
    assert not proved(product(([2, 0, 3, 1], [0, 1, 2, 3])))
    assert not proved(product(([2, 0, 3, 1], [2, 0, 3, 1]), summed=False))
