"""Infinities, NaN and zeros: what is read of every pointwise op is what torch computes there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from scalify_dl.audit.torch_reader.calls import overloads  # noqa: E402
from scalify_dl.audit.torch_reader.captures import written  # noqa: E402
from scalify_dl.audit.torch_reader.compare import Runs, array, outcome  # noqa: E402
from scalify_dl.audit.torch_reader.world import Program, Step, Var  # noqa: E402
from scalify_dl.errors import InputError  # noqa: E402
from scalify_dl.readers.fx import read_text  # noqa: E402

aten = torch.ops.aten
inf, nan = math.inf, math.nan
PAIRED = [inf, -inf, nan, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.75, 3.0]
TRIPLED = [inf, -inf, nan, 0.0, 1.0, -2.0, 0.5]
NUMBERS = [0.5, 2.0, -1.5, 0.0, inf, -inf]
FLAGS = {"rounding_mode": ["floor", "trunc", None], "approximate": ["tanh", "none"]}
KERNELS_DIFFER = {"aten.gelu.default": [inf]}
"""Arguments at which torch's own kernels differ, by length of the tensor."""


def calls(op: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Calls with every tensor argument a variable; none where others than tensors and numbers are asked for."""
    choices: list[list[Any]] = []
    names: list[str] = []
    tensors = 0
    for a in op._schema.arguments:
        kind = str(a.type)
        if kind == "Tensor" or (kind == "Optional[Tensor]" and op is aten.clamp.Tensor):
            tensors += 1
            choices.append([Var(-tensors)])
        elif a.name in FLAGS:
            choices.append(FLAGS[a.name])
        elif a.has_default_value() and kind not in ("number", "float", "Optional[number]", "Optional[float]"):
            continue
        elif kind in ("number", "float", "Optional[number]", "Optional[float]"):
            choices.append([a.default_value, 0.5, -inf] if a.has_default_value() else NUMBERS)
        else:
            return
        names.append(a.name)
    by_name = {a.name for a in op._schema.arguments if a.kwarg_only}
    if 0 < tensors < 4:
        for values in list(product(*choices))[:24]:
            pairs = list(zip(names, values, strict=True))
            yield [v for n, v in pairs if n not in by_name], {n: v for n, v in pairs if n in by_name}


def called(op: Any, args: list[Any], kwargs: dict[str, Any], dtype: Any) -> tuple[Program, Any] | None:
    """The call on all combinations of values; None if torch refuses it, or its elements are not each their own."""
    tensors = sum(isinstance(x, Var) for x in args)
    columns = zip(*product(TRIPLED if tensors == 3 else PAIRED, repeat=tensors), strict=True)
    inputs = [torch.tensor(column, dtype=dtype) for column in columns]
    program = Program(inputs, [Step(op, tuple(args), kwargs, ((0, ()),))])
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(inputs[0])))
    try:
        out = program.play(program.fresh())[0]
        moved = program.play([x[order] for x in inputs])[0]
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None
    if not isinstance(out, torch.Tensor) or out.shape != inputs[0].shape or out.is_complex():
        return None
    pointwise = torch.allclose(moved.double(), out[order].double(), equal_nan=True)
    return (program, out) if pointwise else None


def differences(program: Program, want: np.ndarray[Any, Any]) -> list[str]:
    try:
        graph = read_text(written(program).text, file="program.fx.txt")
    except InputError:
        return []
    if any(op.kind.startswith(("unknown:", "custom:")) or op.kind == "empty" for op in graph.ops):
        return []
    got = Runs([graph], [program.fresh()], 0.0).output(0, (graph.outputs[0].tensor, 0))
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= 1e-4 * np.maximum(1, np.abs(want)) if want.dtype.kind == "f" else False
        bad = ~((got == want) | (np.isnan(got) & np.isnan(want)) | near)
    places = [[x[i].item() for x in program.inputs] for i in np.flatnonzero(bad)]
    allowed = KERNELS_DIFFER.get(str(program.steps[0].op), [])
    return [
        f"{program.steps[0]} of {place}: {got[i]}, torch gives {want[i]}"
        for i, place in zip(np.flatnonzero(bad), places, strict=True)
        if not any(x in allowed for x in place)
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_pointwise_ops_are_read_as_torch_computes_them_at_special_values(dtype: Any) -> None:
    found: dict[str, list[str]] = {}
    drawn = set()
    for _, op, writes in overloads()[0]:
        if writes or not str(op).startswith("aten."):
            continue
        for args, kwargs in calls(op):
            tried = called(op, args, kwargs, dtype)
            if tried is not None:
                drawn.add(str(op))
                wrong = differences(tried[0], array(tried[1]))
                if wrong:
                    found.setdefault(str(op), []).append(wrong[0])
    assert found == {}
    assert len(drawn) > 120
    assert {"aten.floor_divide.default", "aten.div.Tensor_mode", "aten.remainder.Tensor", "aten.clamp.Tensor"} <= drawn


ROWS = torch.tensor(list(product(TRIPLED, repeat=3)), dtype=torch.float64)
ALONG = [
    (aten.sum.dim_IntList, [[1]]), (aten.mean.dim, [[1]]), (aten.prod.dim_int, [1]), (aten.amax.default, [[1]]),
    (aten.amin.default, [[1]]), (aten.logsumexp.default, [[1]]), (aten.cumsum.default, [1]),
    (aten._softmax.default, [1, False]), (aten._log_softmax.default, [1, False]), (aten.argmax.default, [1]),
    (aten.linalg_vector_norm.default, [2, [1]]), (aten.linalg_vector_norm.default, [inf, [1]]),
    (aten.any.dim, [1]), (aten.all.dim, [1]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "args"), ALONG, ids=lambda x: str(x))
def test_reductions_are_read_as_torch_computes_them_at_special_values(op: Any, args: list[Any]) -> None:
    program = Program([ROWS], [Step(op, (Var(-1), *args), {}, ((0, ()),))])
    assert differences(program, array(program.play(program.fresh())[0]))[:3] == []


def test_that_a_kernel_rounds_operands_of_two_types_to_the_coarser_one_is_no_misreading() -> None:
    """Many elements of f32 and bf16 at once: 0.99922 v is v, and where it is floored the difference is 1."""
    grad, x = torch.full((4, 6, 6), 0.5), torch.full((4, 6, 6), 0.75).bfloat16()
    out = torch.ops.aten.gelu_backward.grad_input(grad, x, grad_input=torch.empty(4, 6, 6))
    text = """
class GraphModule(torch.nn.Module):
    def forward(self, grad: "f32[4, 6, 6]", x: "bf16[4, 6, 6]", out: "f32[4, 6, 6]"):
        made: "f32[4, 6, 6]" = torch.ops.aten.gelu_backward.grad_input(grad, x, grad_input = out)
        floored: "f32[4, 6, 6]" = torch.ops.aten.floor_divide.default(out, grad)
        return [floored]
"""
    inputs = [grad, x, torch.zeros(4, 6, 6)]
    assert outcome(text, inputs, [torch.floor_divide(out, grad), out]).failure is None
