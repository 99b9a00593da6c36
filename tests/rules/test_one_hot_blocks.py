"""Gradients of a loss at its labels, where every rank has a block of the classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program

ROWS, CLASSES = 6, 8


def selected(g: Graph, ids: Tensor, classes: int, number: float) -> Tensor:
    shape = (ROWS, classes)
    line = g.emit("iota", [], dtype="s32", shape=shape, dimension=1)
    there = g.emit("compare", [spread(g, ids, shape, [0]), line], direction="EQ")
    return g.emit("select", [there, g.splat(number, "f32", shape), g.splat(0.0, "f32", shape)])


def written(g: Graph, ids: Tensor, classes: int, updates: Tensor) -> Tensor:
    return g.emit(
        "scatter", [g.splat(0.0, "f32", (ROWS, classes)), ids, updates], update_window_dims=[],
        inserted_window_dims=[1], scatter_dims_to_operand_dims=[1], input_batching_dims=[0],
        scatter_indices_batching_dims=[0], index_vector_dim=1, reducer="replace",
    )  # fmt: skip


def gradient(*, masked: bool = True, by: float = -1 / 8, last: int = 8, blocks: int = 4, minus: bool = False) -> Pair:
    """softmax/8 less 1/8 at the label: select(…, -1/8) - softmax * its sum, and (softmax - 1 at the label) / 8."""
    pair = Pair({"tp": 2})
    labels, own = pair.input((ROWS,), dtype="s32", range=(0, last))
    pair.dist.inputs[-1].range = (0, last)
    table = pair.input((CLASSES,))
    pair.outputs(
        *(
            g.emit(
                "gather",
                [x, ids],
                offset_dims=[],
                collapsed_slice_dims=[0],
                start_index_map=[0],
                slice_sizes=[1],
                index_vector_dim=1,
                mode="clamp",
            )
            for g, ids, x in ((pair.base, labels, table[0]), (pair.dist, own, table[1]))
        )
    )  # labels are indices of something
    x, part = pair.input((ROWS, CLASSES), {1: "tp"})
    b, d = pair.base, pair.dist
    hot = selected(b, labels, CLASSES, by)
    sums = spread(b, b.emit("reduce", [hot], dimensions=[1], reducer="sum"), (ROWS, CLASSES), [0])
    expected = b.emit("subtract", [hot, b.emit("multiply", [x, sums])])
    first = d.add("constant", [], [("s32", ())])
    first.rank_numbers["value", 0] = {0: 0, 1: blocks}
    near = d.emit("subtract", [own, spread(d, first.result, (ROWS,), [])])
    zero, four = d.splat(0, "s32", (ROWS,)), d.splat(4, "s32", (ROWS,))
    mine = d.emit(
        "and", [d.emit("compare", [near, zero], direction="GE"), d.emit("compare", [near, four], direction="LT")]
    )
    at = d.emit("select", [mine, near, zero])
    ones = d.splat(1.0, "f32", (ROWS,))
    updates = d.emit("convert", [mine], dtype="f32") if masked else ones
    if minus:
        out = d.emit("convert", [d.emit("not", [mine])], dtype="f32")
        found = d.emit("add", [part, written(d, at, 4, d.emit("subtract", [out, ones]))])
    else:
        found = d.emit("subtract", [part, written(d, at, 4, updates)])
    found = d.emit("multiply", [found, d.splat(1 / 8, "f32", found.shape)])
    pair.outputs(expected, found, layout=str(pair.layout((ROWS, CLASSES), {1: "tp"})))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {"taken away": gradient, "minus one added": lambda: gradient(minus=True)}
WRONG: dict[str, Callable[[], Pair]] = {
    "labels of other ranks are not masked": lambda: gradient(masked=False),
    "another number": lambda: gradient(by=-1 / 5),
    "labels without a class": lambda: gradient(last=9),
    "another block": lambda: gradient(blocks=3),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_gradient_is_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_gradient_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).best is not None
