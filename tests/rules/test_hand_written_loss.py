"""Cross entropy written by hand on blocks of classes, and log-softmax on all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program

ROWS, CLASSES = 6, 8
SHAPE = (ROWS, CLASSES)


def picked(g: Graph, x: Tensor, ids: Tensor) -> Tensor:
    return g.emit(
        "gather", [x, ids], offset_dims=[], collapsed_slice_dims=[1], start_index_map=[1], slice_sizes=[1, 1],
        operand_batching_dims=[0], start_indices_batching_dims=[0], index_vector_dim=1, mode="clamp",
    )  # fmt: skip


def written(g: Graph, x: Tensor, ids: Tensor, updates: Tensor) -> Tensor:
    return g.emit(
        "scatter", [x, ids, updates], update_window_dims=[], inserted_window_dims=[1],
        scatter_dims_to_operand_dims=[1], input_batching_dims=[0], scatter_indices_batching_dims=[0],
        index_vector_dim=1, reducer="replace",
    )  # fmt: skip


def loss(*, masked: bool = True, total: bool = True, elsewhere: bool = False, sign: str = "subtract") -> Pair:
    """The log-probability of the label, and softmax less 1 at the label."""
    pair = Pair({"tp": 2})
    labels, own = pair.input((ROWS,), dtype="s32", range=(0, CLASSES))
    pair.dist.inputs[-1].range = (0, CLASSES)
    x, part = pair.input(SHAPE, {1: "tp"})
    b, d, groups = pair.base, pair.dist, pair.groups("tp")
    e = b.emit("exponential", [x])
    sums = b.emit("log", [b.emit("reduce", [e], dimensions=[1], reducer="sum")])
    logs = b.emit("subtract", [x, spread(b, sums, SHAPE, [0])])
    line = b.emit("iota", [], dtype="s32", shape=SHAPE, dimension=1)
    there = b.emit("compare", [spread(b, labels, SHAPE, [0]), line], direction="EQ")
    hot = b.emit("select", [there, b.splat(1.0, "f32", SHAPE), b.splat(0.0, "f32", SHAPE)])
    expected = [
        b.emit("negate", [picked(b, logs, labels)]), b.emit("subtract", [b.emit("exponential", [logs]), hot])
    ]  # fmt: skip

    first = d.add("constant", [], [("s32", ())])
    first.rank_numbers["value", 0] = {0: 0, 1: 4}
    near = d.emit("subtract", [own, spread(d, first.result, (ROWS,), [])])
    zero, four = d.splat(0, "s32", (ROWS,)), d.splat(4, "s32", (ROWS,))
    mine = d.emit(
        "and", [d.emit("compare", [near, zero], direction="GE"), d.emit("compare", [near, four], direction="LT")]
    )
    at = d.emit("select", [mine, near, zero])
    e = d.emit("exponential", [part])
    whole = d.emit("reduce", [e], dimensions=[1], reducer="sum")
    whole = d.emit("all-reduce", [whole], reducer="sum", groups=groups) if total else whole
    one = picked(d, part, at)
    one = d.emit("select", [mine, one, d.splat(0.0, "f32", (ROWS,))]) if masked else one
    one = d.emit("all-reduce", [one], reducer="sum", groups=groups)
    soft = d.emit("divide", [e, spread(d, whole, part.shape, [0])])
    taken = d.emit(sign, [picked(d, soft, at), d.emit("convert", [mine], dtype="f32")])
    other = d.emit("select", [mine, near, d.splat(1, "s32", (ROWS,))])
    pair.outputs(expected[0], d.emit("subtract", [d.emit("log", [whole]), one]))
    place = str(pair.layout(SHAPE, {1: "tp"}))
    pair.outputs(expected[1], written(d, soft, other if elsewhere else at, taken), layout=place)
    return pair


def shifted(*, sign: str = "add", same: bool = True) -> Pair:
    """exp(x - (m + log(sum(exp(x - m))))), as logsumexp's gradient has it, and exp(x - m) over the sum."""
    pair = Pair({"tp": 2})
    x, part = pair.input(SHAPE, {1: "tp"})
    b, d = pair.base, pair.dist
    m = b.emit("reduce", [x], dimensions=[1], reducer="max")
    e = b.emit("exponential", [b.emit("subtract", [x, spread(b, m, SHAPE, [0])])])
    sums = b.emit("log", [b.emit("reduce", [e], dimensions=[1], reducer="sum")])
    total = b.emit(sign, [sums, m] if same else [sums, b.emit("add", [m, m])])
    expected = b.emit("exponential", [b.emit("subtract", [x, spread(b, total, SHAPE, [0])])])
    groups = pair.groups("tp")
    m = d.emit("all-reduce", [d.emit("reduce", [part], dimensions=[1], reducer="max")], reducer="max", groups=groups)
    e = d.emit("exponential", [d.emit("subtract", [part, spread(d, m, part.shape, [0])])])
    sums = d.emit("all-reduce", [d.emit("reduce", [e], dimensions=[1], reducer="sum")], reducer="sum", groups=groups)
    found = d.emit("divide", [e, spread(d, sums, part.shape, [0])])
    pair.outputs(expected, found, layout=str(pair.layout(SHAPE, {1: "tp"})))
    return pair


def of_any_sign() -> Pair:
    """exp(x - log(y)), and exp(x) / y, where y may be negative."""
    pair = Pair({"tp": 2})
    (x, own), (y, his) = pair.input((4,), {0: "tp"}), pair.input((4,), {0: "tp"})
    log = pair.base.emit("log", [y])
    expected = pair.base.emit("exponential", [pair.base.emit("subtract", [x, log])])
    found = pair.dist.emit("divide", [pair.dist.emit("exponential", [own]), his])
    pair.outputs(expected, found, layout=str(pair.layout((4,), {0: "tp"})))
    return pair


@pytest.mark.parametrize("pair", [loss(), shifted()], ids=["a loss", "what logsumexp takes away"])
def test_a_loss_written_by_hand_is_that_of_log_softmax(pair: Pair) -> None:
    tables = pair.tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


WRONG: dict[str, Callable[[], Pair]] = {
    "logits of other ranks are not masked": lambda: loss(masked=False),
    "the sum of the rank's classes": lambda: loss(total=False),
    "written where it was not read": lambda: loss(elsewhere=True),
    "1 added at the label": lambda: loss(sign="add"),
    "a logarithm of numbers of any sign": of_any_sign,
    "the maximum taken away from the logarithm": lambda: shifted(sign="subtract"),
    "twice the maximum": lambda: shifted(same=False),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_loss_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
