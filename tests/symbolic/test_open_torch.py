"""`torch.export` with dynamic shapes: one text, a proof for all its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.device_mesh", reason="needs torch")

from scalify_dl.commands.family import family, symbolic
from scalify_dl.families.capture import Capture
from scalify_dl.prove.options import Options

from .open_torch import write


def verdict(name: str, folder: Path, capsys: pytest.CaptureFixture[str], bug: str = "") -> str:
    base, ranks, mesh = write(name, folder, bug=bug)
    relate = None
    if name == "mean":
        relate = folder / "relate.yaml"
        relate.write_text("inputs: {x: {dims: {0: dp}}}\n")
    data = {"mlp": "x", "attention": "x", "mean": "x", "embedding": "ids"}[name]
    symbolic(Capture(base, tuple(ranks), mesh, relate), f"batch={data}:0,seq={data}:1", [], Options())
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["mlp", "attention", "embedding", "mean"])
def test_an_export_is_proved_for_every_batch_and_sequence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = verdict(name, tmp_path, capsys)
    assert out.startswith("PROVED  for all batch, seq"), out
    # the bounds of the export
    assert "batch >= 2" in out
    assert "batch <= 100000" in out
    assert ("2 divides batch" in out) == (name == "mean")


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("mlp", "no reduction"),
        ("attention", "mask"),
        ("attention", "no reduction"),
        ("embedding", "bound"),
        ("mean", "no reduction"),
        ("mean", "frozen"),
        ("mean", "sum"),
    ],
)
def test_a_wrong_export_is_refuted(name: str, bug: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(name, tmp_path, capsys, bug).startswith("REFUTED  at batch=")


def test_captures_at_several_sizes_are_a_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    from scalify_dl.capture.torch import capture_family

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

        def forward(self, x: Any) -> Any:
            return (self.down(torch.nn.functional.silu(self.up(x))) ** 2).sum()

    def build(mesh: Any, sizes: Mapping[str, int]) -> Any:
        model = Loss()
        if mesh is not None:
            parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        return model, (torch.randn(sizes["batch"], 8),), {}

    points = [{"tp": 2, "batch": 3}, {"tp": 2, "batch": 15}]
    file = capture_family(build, points, {"batch": "primals_5:0"}, tmp_path / "family")
    assert family(file, Options()) == 0
    assert capsys.readouterr().out.startswith("PROVED  for all batch with batch >= 1")
