"""Programs of several calls that were once read wrongly, as random programs found them; each stands for a class."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from scalify_dl.audit.torch_reader.captures import CAPTURES  # noqa: E402
from scalify_dl.audit.torch_reader.compare import Outcome, outcome  # noqa: E402
from scalify_dl.audit.torch_reader.world import Program, Step, Var, items  # noqa: E402

aten = torch.ops.aten
Call = tuple[Any, list[Any], dict[str, Any]]


def x(number: int) -> Var:
    """An input."""
    return Var(-1 - number)


def of(inputs: list[Any], *calls: Call) -> Program:
    """A program; results are numbered in order."""
    program = Program(inputs)
    number = 0
    for op, args, kwargs in calls:
        found: list[Any] = []
        trial = Program(inputs, [*program.steps, Step(op, tuple(args), kwargs, ())])
        trial.play(trial.fresh(), lambda step, out, found=found: found.append(out))
        results = tuple((number + n, path) for n, (path, _) in enumerate(items(found[-1])))
        number += len(results)
        program.steps.append(Step(op, tuple(args), kwargs, results))
    return program


def read(program: Program, capture: str = "written") -> Outcome:
    text, want, _ = CAPTURES[capture](program)
    return outcome(text, program.fresh(), want)


def held(value: Any, dtype: Any) -> Any:
    return torch.tensor(value, dtype=dtype)


PROGRAMS: dict[str, Program] = {
    "a number that its type holds otherwise": of(
        [held(True, torch.bool)],
        (aten.fill.Scalar, [x(0), 2], {}),
        (aten.sin.default, [Var(0)], {}),
        (aten.add.Tensor, [Var(0), 3], {}),
    ),
    "a tensor that is changed in place and perhaps another one, too": of(
        [held([1.0, 2.0], torch.float64)],
        (aten.to.dtype_layout, [x(0)], {"layout": torch.strided}),
        (aten.unsqueeze_.default, [x(0), -1], {}),
    ),
    "a mask of bytes": of(
        [torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 2, 0], dtype=torch.uint8), held(-1.0, torch.float32)],
        (aten.index_put.default, [x(0), [x(1)], x(2), True], {}),
        (aten._index_put_impl_.default, [Var(0), [x(1)], x(2), True], {}),
        (aten.index.Tensor, [x(0), [x(1)]], {}),
    ),
    "bytes that choose every row": of(
        [torch.arange(8.0).reshape(4, 2), torch.ones(4, dtype=torch.uint8)],
        (aten.index.Tensor, [x(0), [x(1)]], {}),
    ),
    "a bias with rows": of(
        [torch.ones(5, 1, 1).bfloat16(), torch.ones(5, 1).bfloat16(), torch.ones(5, 1).bfloat16()],
        (aten.linear.default, [x(0), x(1), x(2)], {}),
    ),
    "a write to a number that is seen several times": of(
        [torch.ones(3, 3), held(-0.5, torch.float32)],
        (aten.broadcast_tensors.default, [[x(0), x(1)]], {}),
        (aten.triu_.default, [Var(1), 1], {}),
    ),
    "a write to a reshaped number that is seen several times": of(
        [held(-0.5, torch.float32)],
        (aten.expand.default, [x(0), [2, 8]], {}),
        (aten.reshape.default, [Var(0), [4, 4]], {}),
        (aten.triu_.default, [Var(1), 1], {}),
    ),
    "classes that are smoothed by less than nothing": of(
        [torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 1, 0])],
        (aten.cross_entropy_loss.default, [x(0), x(1)], {"label_smoothing": -0.5}),
    ),
    "probabilities of classes that are smoothed by less than nothing": of(
        [torch.arange(8.0).reshape(4, 2), torch.ones(4, 2) / 2],
        (aten.cross_entropy_loss.default, [x(0), x(1)], {"label_smoothing": -0.5}),
    ),
    "a range of nothing written to a tensor of nothing": of(
        [torch.ones(2, 0, 3)],
        (aten.arange.out, [0], {"out": x(0)}),
        (aten.sum.dim_IntList, [x(0), [1]], {}),
    ),
    "a range written to a tensor that is too small": of(
        [torch.ones(2, 0, 3)],
        (aten.arange.out, [4], {"out": x(0)}),
        (aten.add.Tensor, [x(0), 1], {}),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_read_as_torch_computes_them(name: str) -> None:
    found = read(PROGRAMS[name])
    assert (found.failure, found.refused) == (None, None)
