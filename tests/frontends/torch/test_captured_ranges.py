"""`capture_step`: what is taken for granted of labels, ids and positions, from a captured run or a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import scalify_dl  # noqa: E402
from scalify_dl import capture_step  # noqa: E402

from .test_capture_step import sgd  # noqa: E402


class Head(nn.Module):
    """A classifier: labels may be ignored, by their value."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(self.fc(x), y)


@pytest.mark.parametrize(("ignored", "bounded"), [(False, True), (True, False)])
def test_labels_are_bounded_by_those_of_the_run(tmp_path: Path, ignored: bool, bounded: bool) -> None:
    def build() -> Any:
        torch.manual_seed(0)
        y = torch.tensor([0, 2, -100, 1]) if ignored else torch.tensor([0, 2, 1, 1])
        return Head(), (torch.randn(4, 4), y), sgd

    def build_dist(mesh: Any) -> Any:
        return build()

    report = capture_step(build_dist, {"dp": 2}, tmp_path / "x", baseline=build).verify()
    assert report.verdict == "PROVED"
    texts = [f"{a.why} {a}" for a in report.assumptions]
    assert any("captured run" in text for text in texts) == bounded


@pytest.mark.parametrize(("ignored", "bounded"), [(False, True), (True, False)])
def test_labels_of_a_loss_that_nobody_returns_are_bounded_too(tmp_path: Path, ignored: bool, bounded: bool) -> None:
    """Only the gradient of the loss is left of it; the number of labels that count is the batch's all the same."""

    def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
        model(x, y).backward()
        if dist.is_initialized():
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p.grad /= 2
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        return {}

    def build(mesh: Any = None) -> Any:
        torch.manual_seed(0)
        model, x, y = Head(), torch.randn(4, 4), torch.tensor([0, 2, -100 if ignored else 1, 1])
        if mesh is not None:
            rank = mesh.get_local_rank("dp")
            x, y = x.chunk(2)[rank], y.chunk(2)[rank]
        return model, (x, y), step

    report = capture_step(build, {"dp": 2}, tmp_path / "x").verify()
    assert (report.verdict == "PROVED") == bounded  # ranks of which one ignores a label average the wrong means
    assert any("captured run" in f"{a.why} {a}" for a in report.assumptions) == bounded


@pytest.mark.parametrize(("rows", "first", "expected"), [(16, 0, "PROVED"), (16, 1, "REFUTED"), (8, 0, "PROVED")])
def test_positions_are_bounded_by_a_table_that_only_ranks_have(rows: int, first: int, expected: str) -> None:
    """The baseline makes angles of positions; ranks make a table of them, and look positions up."""
    base = 10000 ** (-torch.arange(2) / 2)

    def build(mesh: Any = None) -> Any:
        def whole(_: Any, at: Any) -> dict[str, Any]:
            return {"cosines": torch.outer(at.float(), base).cos()}

        def from_a_table(_: Any, at: Any) -> dict[str, Any]:
            return {"cosines": torch.outer(torch.arange(first, rows + first).float(), base).cos().index_select(0, at)}

        return nn.Identity(), (torch.tensor([0, 7, 3]),), whole if mesh is None else from_a_table

    report = scalify_dl.verify(build, mesh={"tp": 2})
    assert report.verdict == expected
    (listed,) = [str(a) for a in report.assumptions if a.why == "captured run"]
    assert f"below {rows}" in listed


def test_ids_that_the_baseline_looks_up_are_bounded_by_its_own_table() -> None:
    """Ranks that take the ids for those of their block: the run had none beyond it, and that says nothing of others."""

    def build(mesh: Any = None) -> Any:
        table = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
        if mesh is not None:
            table = table.chunk(2)[mesh.get_local_rank()]
        return nn.Identity(), (torch.tensor([0, 3]), table), lambda _, at, rows: {"rows": rows.index_select(0, at)}

    assert scalify_dl.verify(build, mesh={"tp": 2}).verdict != "PROVED"
