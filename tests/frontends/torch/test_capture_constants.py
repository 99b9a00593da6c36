"""What a captured step has as constants: what was there before it, and never what left its tensors on the way."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

from scalify_dl.errors import InputError  # noqa: E402

from .test_capture_step import base  # noqa: E402


class InNumpy(torch.autograd.Function):  # type: ignore[misc]
    """A square whose gradient numpy computes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return torch.from_numpy(2 * ctx.saved_tensors[0].detach().numpy() * grad.numpy())


def clipped_in_numpy(w: Any) -> Any:
    w.register_hook(lambda grad: grad * float((grad.numpy() ** 2).sum()))
    return w


def from_a_thread(w: Any) -> Any:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(w.detach() * 2))
    thread.start()
    thread.join(timeout=30)
    return w * made[0]


@pytest.mark.parametrize(
    "use",
    [
        InNumpy.apply, clipped_in_numpy, from_a_thread,
        lambda w: w * torch.tensor(w.tolist()),
        lambda w: w * torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(w.detach())),
        lambda w: w * float(memoryview(numpy.from_dlpack(w.detach()))[0, 0]),
    ],
)  # fmt: skip
def test_numbers_that_leave_the_tensors_are_no_constants(tmp_path: Path, use: Any) -> None:
    """Wherever they do: in a backward pass, in a hook, by a method of a parameter, in a thread."""
    from scalify_dl.capture.torch import record_step

    def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
        loss = model(x, y) + use(model.up.weight).sum()
        loss.backward()
        return {"loss": loss}

    model, args, _ = base()
    with pytest.raises(InputError, match=r"value of a tensor that depends on its inputs|gives something else"):
        record_step(model, args, step, tmp_path / "x")


def test_constants_of_a_program(tmp_path: Path) -> None:
    """What was there before the step, and what the program writes as numbers."""
    from scalify_dl.capture.torch import record_step

    mask = torch.tril(torch.ones(4, 4))

    def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
        return {"x": x[:4] * mask.t() * torch.tensor([1.0, 2.0, 3.0, 4.0]) * torch.from_numpy(numpy.ones(4, "float32"))}

    model, args, _ = base()
    record_step(model, args, step, tmp_path / "x")
    assert len(json.loads((tmp_path / "x.json").read_text())["constants"]) == 3
    assert not hasattr(torch.Tensor.numpy, "__wrapped__")


def test_memory_that_is_written_before_it_is_read_is_no_constant(tmp_path: Path) -> None:
    """What it held before the step is of no account, whatever its size; what is read, or only written in part, is."""
    from scalify_dl.capture.torch import record_step

    large, partly, turned = torch.full((1025, 1024), torch.nan), torch.zeros(4), torch.ones(2, 2)

    def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
        large.copy_(x[0, 0])
        large.zero_()
        partly[:2].copy_(x[0, :2])
        turned.copy_(turned.view(2, 2))
        return {"large": large + x[0, 0], "partly": partly + x[0], "turned": turned * x[0, 0]}

    model, args, _ = base()
    record_step(model, args, step, tmp_path / "x")
    held = json.loads((tmp_path / "x.json").read_text())["constants"].values()
    assert sorted(map(len, held)) == [2, 4]
