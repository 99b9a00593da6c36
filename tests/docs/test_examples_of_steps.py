"""The example of a captured step in docs/frontends.md is a right step, and is proved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "frontends.md"


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 4), torch.randn(8, 3)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))


def step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    optimiser = torch.optim.AdamW(model.parameters())
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimiser.step()
    return {"loss": loss}


def test_the_captured_step_of_the_page_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    code = next(block for block in blocks if "capture_step(" in block)
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {"Net": net, "batch": batch, "step": step}
    exec(code, known)
    assert known["report"].verdict == "PROVED"
    assert any(output.name == "loss" for output in known["report"].outputs)
