"""A loss over a split vocabulary by `loss_parallel`, with labels that are ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

CLASSES, DIM, ROWS = 12, 4, 6


def build(mesh: Any = None) -> Any:
    """Two layers, and the mean of what is not ignored; of the second one ranks have some columns."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(DIM, DIM), torch.nn.Linear(DIM, CLASSES, bias=False))
    x, labels = torch.randn(ROWS, DIM), torch.randint(0, CLASSES, (ROWS,))
    labels[:2] = -100
    if mesh is not None:
        parallelize_module(model, mesh["tp"], {"1": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})

    def step(model: Any, x: Any, labels: Any) -> dict[str, Any]:
        if mesh is None:
            torch.nn.functional.cross_entropy(model(x), labels).backward()
        else:
            with loss_parallel():
                torch.nn.functional.cross_entropy(model(x), labels).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        return {}

    return model, (x, labels), step


def test_a_loss_over_a_split_vocabulary_with_ignored_labels_is_proved(tmp_path: Path) -> None:
    from scalify_dl import capture_step

    report = capture_step(build, {"tp": 2}, tmp_path / "step").verify()
    assert report.verdict == "PROVED"
    assert any(a.why == "ignored" for a in report.assumptions)
