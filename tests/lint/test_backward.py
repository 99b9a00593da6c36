"""Gradients of a program against the backward that is derived of its forward part."""

from __future__ import annotations

import pytest

from scalify_dl.adjoint import backward
from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Port, Tensor
from scalify_dl.lint.backward import Compared, compare_backward
from scalify_dl.lint.judge import lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations, parse_relations

from .test_real_graphs import judged, needs_data, program, said


def mlp(p: Alone, factor: float = 1.0, *, second: bool = True) -> None:
    """Loss and gradients of a Megatron MLP: columns, rows, all-reduce; the cotangent of the loss is 1."""
    x, g = p.place("x", (8, 16)), p.place("tangent y", (8, 16))
    up, down = p.place("up", (16, 32), {1: "tp"}), p.place("down", (32, 16), {0: "tp"})
    h = p.tanh(p.matmul(x, up))
    y = p.all_reduce(p.matmul(h, down), "tp")
    dh = p.multiply(p.dot(g, down, ([1], [1])), p.add(p.negate(p.multiply(h, h)), 1.0))
    dx = p.all_reduce(p.dot(dh, up, ([1], [1])), "tp")
    ends: list[tuple[str, Tensor, dict[int, str]]] = [
        ("y", y, {}), ("grad x", p.multiply(dx, factor) if factor != 1 else dx, {}),
        ("grad down", p.dot(h, g, ([0], [0])), {0: "tp"}),
    ]  # fmt: skip
    if second:
        ends.append(("grad up", p.dot(x, dh, ([0], [0])), {1: "tp"}))
    for path, value, dims in ends:
        p.result(value, dims)
        p.graph.outputs[-1].path = path


def compared(p: Alone, relations: str = "") -> Compared:
    said = parse_relations(relations) if relations else Relations()
    result = lint_graph(p.graph, p.mesh, said)
    assert result.verdict is Verdict.PROVED, (result.findings, result.missing)
    return compare_backward(result, p.graph, said, Options())


def test_right_gradients_are_proved_the_derived_ones() -> None:
    p = Alone("tp=2")
    mlp(p)
    found = compared(p)
    assert found.verdict is Verdict.PROVED, found.missing
    assert set(found.verdicts) == {"grad x", "grad up", "grad down"}


def test_a_gradient_that_counts_twice_is_told_by_its_factor() -> None:
    """It is well placed: the recovered program has the same factor, and only the derived backward tells."""
    p = Alone("tp=2")
    mlp(p, 2.0)
    found = compared(p)
    assert found.verdict is Verdict.REFUTED
    (finding,) = found.findings
    assert "2 times the gradient" in finding.text
    assert finding.suggestion == "divide by 2"
    assert "test_backward.py" in finding.source[0]


def test_which_outputs_are_gradients_may_be_said() -> None:
    p = Alone("dp=2")
    x, w = p.place("x", (8, 4), {0: "dp"}), p.place("w", (4, 4))
    loss = p.all_reduce(p.reduce(p.tanh(p.matmul(x, w)), (0, 1)), "dp")
    (dw,) = backward(p, {loss: p.full(0.5, ())}, [w])  # each rank's half of a cotangent that all have
    assert dw is not None
    p.graph.outputs = [Port(loss, "loss"), Port(p.all_reduce(dw, "dp"), "dw")]
    said = "gradients: {dw: w}\n"
    assert compared(p, said).verdict is Verdict.PROVED
    assert compared(p, said + "cotangents: {loss: 1}\n").verdict is Verdict.PROVED
    with pytest.raises(InputError, match="names 0 values"):
        compared(p, "gradients: {dw: v}\n")


def test_a_program_without_gradients_is_bad_input() -> None:
    p = Alone("tp=2")
    p.result(p.tanh(p.place("x", (4, 4))))
    with pytest.raises(InputError, match="no output is known to be a gradient"):
        compared(p)


@needs_data
@pytest.mark.parametrize("name", ["joint_tp2", pytest.param("joint_tp4", marks=pytest.mark.slow)])
def test_gradients_of_a_joint_graph_are_proved_the_derived_ones(name: str) -> None:
    graph, mesh = program(name)
    found = compare_backward(judged(name, graph, mesh), graph, said(name), Options())
    assert found.verdict is Verdict.PROVED, found.missing
    assert len(found.verdicts) == 21


@pytest.mark.slow
@needs_data
def test_gradients_of_a_program_that_xla_partitioned_are_proved_the_derived_ones() -> None:
    """For ids of the table: its look-up is put right for others, in the forward and in the derived gradient."""
    graph, mesh = program("keras_gradient")
    (ids,) = (port for port in graph.inputs if port.path == "x['token_ids']")
    ids.range = 0, 512
    inputs = {port.path for port in graph.inputs}
    rows = [f'"{n}": "tv[{n - 1}]"' for n in range(1, len(graph.outputs)) if f"tv[{n - 1}]" in inputs]
    relations = parse_relations("gradients: {" + ", ".join(rows) + "}\n")
    found = compare_backward(judged("keras_gradient", graph, mesh), graph, relations, Options())
    assert found.verdict is Verdict.PROVED, found.missing
    assert len(found.verdicts) == 20


@needs_data
def test_a_gradient_of_a_real_program_that_is_scaled_is_refuted() -> None:
    graph, mesh = program("joint_tp2")
    at = next(n for n, port in enumerate(graph.outputs) if port.path == "grad m.model.norm.weight")
    value = graph.outputs[at].tensor
    half = graph.splat(0.5, value.dtype, value.shape)
    graph.outputs[at].tensor = graph.emit("multiply", [value, half])
    result = judged("joint_tp2", graph, mesh)
    assert result.verdict is Verdict.PROVED
    found = compare_backward(result, graph, said("joint_tp2"), Options())
    assert [f.name for f in found.findings] == ["grad m.model.norm.weight"]
    assert "0.5 times" in found.findings[0].text
