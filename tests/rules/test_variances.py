"""Norms by sums: the variance is the mean of squares less the square of the mean, which is never below zero."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, matmul
from scalify_dl.audit.trials.infinite import all_reduced, reduced
from scalify_dl.ir.graph import Graph, Tensor


def over_deviation(g: Graph, y: Tensor, x: Tensor, by: float) -> Tensor:
    """y over the deviation of x, whose sums are divided by a number."""
    mean = g.emit("multiply", [reduced(g, x, [0, 1]), g.splat(1 / by, "f32", ())])
    squares = g.emit("multiply", [reduced(g, g.emit("multiply", [x, x]), [0, 1]), g.splat(1 / by, "f32", ())])
    variance = g.emit("subtract", [squares, g.emit("multiply", [mean, mean])])
    inverse = g.emit("rsqrt", [g.emit("add", [variance, g.splat(0.125, "f32", ())])])
    return g.emit("multiply", [y, g.emit("broadcast", [inverse], dimensions=[], shape=y.shape)])


@pytest.mark.parametrize(("by", "held"), [(32.0, True), (64.0, True), (16.0, False)])
def test_parts_of_a_sum_may_be_divided_by_a_deviation_over_all_elements(by: float, held: bool) -> None:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw), (c, dc) = pair.input((4, 6), {1: "tp"}), pair.input((6, 8), {0: "tp"}), pair.input((4, 8))
    base = over_deviation(pair.base, matmul(pair.base, x, w), c, by)
    dist = all_reduced(pair, over_deviation(pair.dist, matmul(pair.dist, dx, dw), dc, by))
    pair.outputs(base, dist)
    tables = pair.tables()
    derived = derive(tables)
    assert any(row[0] == "all-reduce" for row in derived.corr) is held
    assert audit(tables, derived.corr).false == []
