"""Zeros and numbers that are known in programs that are written out: what is left away makes no difference."""

from __future__ import annotations

import pytest

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.written_out import written_out
from scalify_dl.pairing.written_out.emitter import Emitter
from scalify_dl.pairing.written_out.signs import Sign, Signs
from scalify_dl.pairing.written_out.values import Cells

from .pipelines import spread

ROWS, DIM = 2, 3


@pytest.mark.parametrize(("kind", "gone"), [("tanh", True), ("exponential", True), ("log", False), ("rsqrt", False)])
def test_zero_times_a_value_is_zero_where_finite_inputs_make_numbers(
    kind: str, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """… which is assumed then."""
    monkeypatch.setattr("scalify_dl.pairing.written_out.axes_of_turns", lambda graph, mesh: ("pp",))
    g = Graph("dist")
    x = g.input("x", "f32", (2,))
    g.output(g.emit("multiply", [g.splat(0.0, "f32", (2,)), g.emit(kind, [x])]))
    _, found = written_out(Graph("base"), g, Mesh.parse("pp=2"), lambda: [])
    assert (kind not in {op.kind for op in found.ops}) == gone
    assert [(a.tensor, a.why) for a in found.assumptions] == ([(x, "finite")] if gone else [])


def test_a_norm_of_a_number_is_a_number() -> None:
    """x / sqrt(mean(x²) + ε), and softmax."""
    g = Graph()
    x = g.input("x", "f32", (4,))
    squares = g.emit("reduce", [g.emit("multiply", [x, x])], dimensions=[0], reducer="sum")
    norm = g.emit("rsqrt", [g.emit("add", [squares, g.constant(1e-5, "f32")])])
    weights = g.emit("exponential", [x])
    share = g.emit("divide", [weights, spread(g, g.emit("reduce", [weights], dimensions=[0], reducer="sum"), (4,))])
    root, bare = g.emit("sqrt", [squares]), g.emit("rsqrt", [squares])
    signs = Signs({result: op for op in g.ops for result in op.results})
    found = {value: signs.of(value) for value in (norm, share, root, bare)}
    assert found == {norm: Sign.POSITIVE, share: Sign.POSITIVE, root: Sign.NOT_NEGATIVE, bare: Sign.UNKNOWN}


def test_zeros_of_one_rank_are_zeros_and_no_gathered_ones() -> None:
    emitter = Emitter(Graph("dist"), Cells(Mesh.parse("pp=2"), ("pp",)))
    zeros = emitter.zeros(Tensor("x", "f32", (2, 3)))
    assert emitter.taken(zeros, 1) is zeros
    assert "all-gather" not in {op.kind for op in emitter.graph.ops}
