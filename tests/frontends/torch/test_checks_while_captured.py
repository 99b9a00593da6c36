"""Functions that read values only to check them, where no function mode is active: in a backward written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

from scalify_dl import capture_step  # noqa: E402
from scalify_dl.errors import InputError  # noqa: E402


class Picked(torch.autograd.Function):  # type: ignore[misc]
    """The sum of what ids pick of each row."""

    @staticmethod
    def forward(ctx: Any, x: Any, ids: Any) -> Any:
        ctx.save_for_backward(ids)
        ctx.places = x.shape[-1]
        return x.gather(-1, ids[:, None]).sum()

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        (ids,) = ctx.saved_tensors
        return slope * torch.nn.functional.one_hot(ids, ctx.places).float(), None


class Counted(Picked):
    """How many places there are is found out of the ids."""

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        (ids,) = ctx.saved_tensors
        return slope * torch.nn.functional.one_hot(ids).float(), None


def build(picked: Any) -> Any:
    def step(model: Any, x: Any, ids: Any) -> dict[str, Any]:
        picked.apply(model(x), ids).backward()
        return {"gradient": model.weight.grad}

    torch.manual_seed(0)
    return torch.nn.Linear(3, 4), (torch.randn(2, 3), torch.tensor([1, 3])), step


def test_one_hot_in_a_backward_is_recorded(tmp_path: Path) -> None:
    captured = capture_step(lambda: build(Picked), {"dp": 2}, tmp_path / "step", baseline=lambda: build(Picked))
    assert captured.verify().verdict == "PROVED"


def test_a_number_of_places_that_ids_tell_is_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="depends on its inputs"):
        capture_step(lambda: build(Counted), {"dp": 2}, tmp_path / "step", baseline=lambda: build(Counted))
