"""Gradients of parallel programs that are written op by op, right and scaled, against the derived ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from scalify_dl.adjoint import backward
from scalify_dl.ir.graph import Port, Tensor
from scalify_dl.lint.backward import Compared, compare_backward
from scalify_dl.lint.judge import lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import parse_relations

Build = Callable[[Alone], tuple[Tensor, dict[str, Tensor]]]


def compared(axes: str, build: Build, factors: Mapping[str, float] | None = None) -> Compared:
    p = Alone(axes)
    loss, gradients = build(p)
    for name, factor in (factors or {}).items():
        gradients[name] = p.multiply(gradients[name], factor)
    p.graph.outputs = [Port(loss, "loss"), *(Port(g, f"d{name}") for name, g in gradients.items())]
    said = parse_relations("gradients: {" + ", ".join(f"d{name}: {name}" for name in gradients) + "}\n")
    result = lint_graph(p.graph, p.mesh, said)
    assert result.verdict is Verdict.PROVED, (result.findings, result.missing)
    return compare_backward(result, p.graph, said, Options())


def fully_sharded(p: Alone) -> tuple[Tensor, dict[str, Tensor]]:
    x, w = p.place("x", (8, 16), {0: "dp"}), p.place("w", (16, 8), {0: "dp"})
    whole = p.all_gather(w, "dp", 0)
    y = p.tanh(p.matmul(x, whole))
    mine = p.reduce(p.multiply(y, y), (0, 1))
    (found,) = backward(p, {mine: p.full(1.0, ())}, [whole])
    assert found is not None
    return p.all_reduce(mine, "dp"), {"w": p.reduce_scatter(found, "dp", 0)}


def context_parallel(p: Alone) -> tuple[Tensor, dict[str, Tensor]]:
    q, k, v = (p.place(name, (2, 8, 16), {1: "cp"}) for name in "qkv")
    keys, values = p.all_gather(k, "cp", 1), p.all_gather(v, "cp", 1)
    weights = p.softmax(p.dot(q, keys, ([2], [2]), ([0], [0])), 2)
    o = p.dot(weights, values, ([2], [1]), ([0], [0]))
    mine = p.reduce(p.multiply(o, p.sine(o)), (0, 1, 2))
    dq, dk, dv = backward(p, {mine: p.full(1.0, ())}, [q, keys, values])
    assert dq is not None and dk is not None and dv is not None  # noqa: PT018
    loss = p.all_reduce(mine, "cp")
    return loss, {"q": dq, "k": p.reduce_scatter(dk, "cp", 1), "v": p.reduce_scatter(dv, "cp", 1)}


def sequence_parallel(p: Alone) -> tuple[Tensor, dict[str, Tensor]]:
    x, gain, w = p.place("x", (8, 16), {0: "tp"}), p.place("gain", (16,)), p.place("w", (16, 32), {1: "tp"})
    root = p.rsqrt(p.add(p.multiply(p.reduce(p.multiply(x, x), 1), 1 / 16), 1e-5))
    n = p.multiply(p.multiply(x, p.broadcast(root, x.shape, [0])), p.broadcast(gain, x.shape, [1]))
    rows = p.all_gather(n, "tp", 0)
    y = p.logistic(p.matmul(rows, w))
    mine = p.reduce(p.multiply(y, y), (0, 1))
    dw, drows = backward(p, {mine: p.full(1.0, ())}, [w, rows])
    assert dw is not None and drows is not None  # noqa: PT018
    dx, dgain = backward(p, {n: p.reduce_scatter(drows, "tp", 0)}, [x, gain])
    assert dx is not None and dgain is not None  # noqa: PT018
    return p.all_reduce(mine, "tp"), {"x": dx, "gain": p.all_reduce(dgain, "tp"), "w": dw}


def convolved(p: Alone) -> tuple[Tensor, dict[str, Tensor]]:
    x, w = p.place("x", (8, 3, 10), {0: "dp"}), p.place("w", (4, 3, 3))
    y = p.op("convolution", x, w, input_batch=0, input_feature=1, input_spatial=[2], kernel_output_feature=0,
             kernel_input_feature=1, kernel_spatial=[2], output_batch=0, output_feature=1, output_spatial=[2],
             window_pad_low=[1], window_pad_high=[1]).result  # fmt: skip
    z = p.op("reduce-window", p.tanh(y), window_size=[1, 1, 2], window_stride=[1, 1, 2], reducer="max").result
    mine = p.reduce(p.multiply(z, z), (0, 1, 2))
    (found,) = backward(p, {mine: p.full(1.0, ())}, [w])
    assert found is not None
    return p.all_reduce(mine, "dp"), {"w": p.all_reduce(found, "dp")}


PROGRAMS: dict[str, tuple[str, Build]] = {
    "fully sharded": ("dp=4", fully_sharded),
    "context parallel": ("cp=4", context_parallel),
    "sequence parallel": ("tp=4", sequence_parallel),
    "convolution": ("dp=4", convolved),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_gradients_are_proved_the_derived_ones(name: str) -> None:
    found = compared(*PROGRAMS[name])
    assert found.verdict is Verdict.PROVED, found.missing


@pytest.mark.parametrize(("name", "which"), [
    ("fully sharded", "w"), ("context parallel", "k"), ("context parallel", "q"), ("sequence parallel", "gain"),
    ("sequence parallel", "x"), ("convolution", "w"),
])  # fmt: skip
def test_a_scaled_gradient_is_refuted_with_its_factor(name: str, which: str) -> None:
    found = compared(*PROGRAMS[name], {which: 0.25})
    assert {key for key, verdict in found.verdicts.items() if verdict is Verdict.REFUTED} == {f"d{which}"}
    assert "0.25 times" in found.findings[0].text
