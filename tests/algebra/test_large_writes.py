"""Writes that replace elements, at sizes where a variable stands for a dim: each row of what is written has a place of
its own, as in `grad[arange(n), labels] = u`."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair, spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude

ROWS, CLASSES = 512, 1024


def written(g: Graph, x: Tensor, rows: Tensor, labels: Tensor, u: Tensor, reducer: str) -> Tensor:
    """What is at (rows, labels) is u."""
    columns = [g.emit("reshape", [ids], shape=[ROWS, 1]) for ids in (rows, labels)]
    return g.emit("scatter", [x, g.emit("concatenate", columns, dimension=1), u], update_window_dims=[],
                  inserted_window_dims=[0, 1], scatter_dims_to_operand_dims=[0, 1], index_vector_dim=1,
                  reducer=reducer)  # fmt: skip


def inputs(pair: Pair) -> list[tuple[Tensor, Tensor]]:
    """A matrix, what is written, labels and rows."""
    found = [pair.input((ROWS, CLASSES)), pair.input((ROWS,))]
    found += [pair.input((ROWS,), dtype="s32", range=(0, most)) for most in (CLASSES, ROWS)]
    for base, dist in zip(pair.base.inputs, pair.dist.inputs, strict=True):
        dist.range = base.range
    return found


def chosen(reducer: str) -> Pair:
    """By comparisons with all classes, and by a write to each row."""
    pair, shape = Pair({"dp": 1}), (ROWS, CLASSES)
    x, u, labels, _ = inputs(pair)
    b, d = pair.base, pair.dist
    places = b.emit("iota", [], dtype="s32", shape=list(shape), dimension=1)
    hit = b.emit("compare", [spread(b, labels[0], shape, [0]), places], direction="EQ")
    rows = d.emit("iota", [], dtype="s32", shape=[ROWS], dimension=0)
    pair.outputs(
        b.emit("select", [hit, spread(b, u[0], shape, [0]), x[0]]), written(d, x[1], rows, labels[1], u[1], reducer)
    )
    return pair


def rows_that_may_be_alike() -> Pair:
    """Added to zeros, and written."""
    pair = Pair({"dp": 1})
    _, u, labels, rows = inputs(pair)
    made = []
    for n, (g, reducer) in enumerate(((pair.base, "sum"), (pair.dist, "replace"))):
        made.append(written(g, g.splat(0.0, "f32", (ROWS, CLASSES)), rows[n], labels[n], u[n], reducer))
    pair.outputs(*made)
    return pair


def test_a_write_to_each_row_is_a_choice() -> None:
    assert conclude(analyse(Facts(chosen("replace").tables()), Options())).verdict == "PROVED"


@pytest.mark.parametrize("pair", [chosen("sum"), rows_that_may_be_alike()], ids=["added", "rows that may be alike"])
def test_what_writes_otherwise_is_not_proved(pair: Pair) -> None:
    """Of rows that are alike one is written, or both are added up."""
    tables = pair.tables()
    assert conclude(analyse(Facts(tables), Options())).verdict != "PROVED"
    assert find_counterexample(load_program(tables)).best is not None
