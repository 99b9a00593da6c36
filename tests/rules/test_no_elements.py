"""Parts without elements: what the backward of a rotary embedding of whole heads cuts off, and pads again."""

from __future__ import annotations

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program

HEADS, WIDTH = 4, 6


def with_rest(g: Graph, x: Tensor, begin: int) -> Tensor:
    """x plus the gradient of x[:, begin:], which is x there and 0 before."""
    heads = x.shape[0]
    rest = g.emit("slice", [x], start=[0, begin], limit=[heads, WIDTH], stride=[1, 1])
    zero = g.constant(0.0, "f32")
    padded = g.emit("pad", [rest, zero], low=[0, begin], high=[0, 0], interior=[0, 0])
    return g.emit("add", [x, padded])


def heads(begin: int) -> Pair:
    pair = Pair({"tp": 2})
    whole, part = pair.input((HEADS, WIDTH), {0: "tp"})
    expected = pair.base.emit("negate", [whole])
    found = pair.dist.emit("negate", [with_rest(pair.dist, part, begin)])
    pair.outputs(expected, found, layout=str(pair.layout((HEADS, WIDTH), {0: "tp"})))
    return pair


def test_the_gradient_of_an_empty_slice_is_padding() -> None:
    tables = heads(WIDTH).tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


def test_the_gradient_of_one_column_is_not() -> None:
    tables = heads(WIDTH - 1).tables()
    assert derive(tables).unproved
    assert find_counterexample(load_program(tables)).best is not None


def test_a_padded_dim_without_elements_ends_no_run() -> None:
    """Beside it another value is padded and cut: both lengths are compared, one of them is 0."""
    pair = Pair({"tp": 2})
    nothing, (x, held) = pair.input((0,), {}), pair.input((5, 2), {})
    totals = []
    for g, one in zip((pair.base, pair.dist), nothing, strict=True):
        padded = g.emit("pad", [one, g.constant(0.0, "f32")], low=[0], high=[1], interior=[0])
        totals.append(g.emit("reduce", [padded], dimensions=[0], reducer="sum"))
    g = pair.dist
    longer = g.emit("pad", [held, g.constant(0.0, "f32")], low=[0, 0], high=[1, 0], interior=[0, 0])
    cut = g.emit("slice", [g.emit("tanh", [longer])], start=[0, 0], limit=[5, 2], stride=[1, 1])
    pair.outputs(*totals)
    pair.outputs(pair.base.emit("tanh", [x]), cut)
    assert not derive(pair.tables()).unproved
