"""Factors that one side has before a linear computation, and the other behind it."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse


def count(g: Graph, weights: Tensor, way: str) -> Tensor:
    """How much all rows weigh, at least 1, or with something added."""
    total = g.emit("reduce", [weights], dimensions=[0], reducer="sum")
    if way == "at least 1":
        return g.emit("maximum", [total, g.constant(1.0, "f32")])
    return total


def gradient(g: Graph, x: Tensor, w: Tensor, rows: Tensor) -> Tensor:
    """Of a projection, from what each row counts."""
    moved = g.emit("multiply", [g.emit("tanh", [x]), spread(g, rows, x.shape, [0])])
    back = g.emit("dot", [moved, w], lhs_contracting=[1], rhs_contracting=[0])
    return g.emit("reduce", [g.emit("add", [back, back])], dimensions=[0], reducer="sum")


def step(early: str, way: str = "a sum", how: str = "divide") -> Pair:
    """`early`: which side divides first."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((4, 6), {0: "dp"})
    w, dw = pair.input((6, 3))
    m, dm = pair.input((4,), {0: "dp"})
    groups, made = pair.groups("dp"), []
    for name, g, y, weight, mask in (("base", pair.base, x, w, m), ("dist", pair.dist, dx, dw, dm)):
        rows = g.emit("compare", [mask, g.splat(0.0, "f32", mask.shape)], direction="GT")
        rows = g.emit("convert", [rows], dtype="f32")
        total = count(g, mask, "a sum")
        if g is pair.dist:
            total = g.emit("all-reduce", [total], reducer="sum", groups=groups)
        if way == "at least 1":
            total = g.emit("maximum", [total, g.constant(1.0, "f32")])
        if how == "inverse":
            total = g.emit("divide", [g.constant(1.0, "f32"), total])
        kind = "multiply" if how != "divide" else how
        if name == early:
            rows = g.emit(kind, [rows, spread(g, total, rows.shape, [])])
        grad = gradient(g, y, weight, rows)
        if g is pair.dist:
            grad = g.emit("all-reduce", [grad], reducer="sum", groups=groups)
        if name != early:
            grad = g.emit(kind, [grad, spread(g, total, grad.shape, [])])
        made.append(grad)
    pair.outputs(*made)
    return pair


@pytest.mark.parametrize("early", ["base", "dist"])
@pytest.mark.parametrize("how", ["divide", "multiply", "inverse"])
@pytest.mark.parametrize("way", ["a sum", "at least 1"])
def test_a_factor_passes_what_is_linear(early: str, how: str, way: str) -> None:
    tables = step(early, way, how).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.claims, trials=2).false == []


def test_that_a_divisor_is_not_zero_is_listed() -> None:
    analysis = analyse(Facts(step("base").tables()), Options(refute=False))
    assert analysis.outputs_left == 0
    assert {row[0] for row in analysis.rows("assumption") if row[2] == "nonzero"}
    analysis = analyse(Facts(step("base", "at least 1").tables()), Options(refute=False))
    assert not {row[0] for row in analysis.rows("assumption") if row[2] == "nonzero"}


def contrastive(wrong: str = "") -> Pair:
    """The gradient of features of which one side's scores are rows, the other's columns: each rank has rows of both."""
    pair = Pair({"dp": 2})
    (g, dg), (h, dh) = pair.input((4, 4), {0: "dp"}), pair.input((4, 4), {0: "dp"})
    y, dy = pair.input((4, 3), {0: "dp"})
    scale, own = pair.input(())
    b, d, groups = pair.base, pair.dist, pair.groups("dp")
    sides = ((b, g, scale), (d, dg, own))
    hangs = [graph.emit("add", [x, spread(graph, number, x.shape, [])]) for graph, x, number in sides]
    g, dg = (graph.emit("sine", [x]) for graph, x in zip((b, d), hangs, strict=True))  # hang on it, and do not bear it
    total = b.emit("add", [b.emit("transpose", [g], dimensions=[1, 0]), h])
    if wrong == "not linear":
        total = b.emit("tanh", [total])
    y = b.emit("multiply", [spread(b, b.emit("exponential", [scale]), y.shape, []), y])
    product = b.emit("dot", [total, y], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    factor = d.emit("exponential", [own])
    scaled = d.emit("multiply", [spread(d, factor, dy.shape, []), dy])
    rows = d.emit("dot", [dg, dy if wrong == "no factor" else scaled], lhs_contracting_dims=[0],
                  rhs_contracting_dims=[0])  # fmt: skip
    rows = d.emit("reduce-scatter", [rows], dimension=0, reducer="sum", groups=groups)
    whole = d.emit("all-gather", [dy], dimension=0, groups=groups)
    columns = d.emit("dot", [dh, whole], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    columns = d.emit("multiply", [columns, spread(d, factor, columns.shape, [])])
    pair.outputs(product, d.emit("add", [rows, columns]))
    return pair


def test_a_product_with_a_sum_of_rows_and_columns_is_a_sum_of_products() -> None:
    tables = contrastive().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.claims, trials=2).false == []
    analysis = analyse(Facts(tables), Options(refute=False))
    finite = {row[0] for row in analysis.rows("assumption") if row[2] == "finite"}
    assert finite >= {"base/x2", "base/x3"}


@pytest.mark.parametrize("wrong", ["not linear", "no factor"])
def test_a_wrong_product_with_a_sum_of_rows_and_columns_is_not_proved(wrong: str) -> None:
    assert derive(contrastive(wrong).tables()).unproved
