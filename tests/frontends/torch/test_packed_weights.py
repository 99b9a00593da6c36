"""Weights in a row in one tensor, each cut by itself: what they are is told by their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from scalify_dl import capture_step  # noqa: E402
from scalify_dl.capture.torch.packed import packing_of  # noqa: E402
from scalify_dl.ir.mesh import Mesh  # noqa: E402


@pytest.mark.parametrize(("sizes", "copied"), [((8, 4, 4), ()), ((6, 6), ()), ((8, 4), (1,))])
def test_weights_in_a_row_are_told_by_their_values(sizes: tuple[int, ...], copied: tuple[int, ...]) -> None:
    mesh = Mesh.parse("dp=2,tp=2")
    whole = torch.randn(sum(sizes), 3)
    held = {r: torch.cat([w if n in copied else w.chunk(2)[r % 2] for n, w in enumerate(whole.split(sizes))])
            for r in range(4)}  # fmt: skip
    found = packing_of(whole, held, mesh)
    assert found is not None
    assert (found.axis, found.dim, found.whole) == ("tp", 0, sizes)
    assert found.local == tuple(n if k in copied else n // 2 for k, n in enumerate(sizes))
    held[3] = held[3].flip(0)
    assert packing_of(whole, held, mesh) is None


class Packed(nn.Module):
    """Three weights of two sizes in one tensor (grouped, as queries are), and two of one size, each cut by itself."""

    def __init__(self, rank: int = 0, n: int = 1, *, together: bool = False) -> None:
        super().__init__()
        self.n = n
        abc, gate_up, down, back = torch.randn(16, 6), torch.randn(24, 6), torch.randn(6, 8), torch.randn(6, 12)
        weights = (16,) if together else (8, 4, 4)
        self.abc = nn.Parameter(torch.cat([w.chunk(n)[rank] for w in abc.split(weights)]))
        self.bias = nn.Parameter(torch.zeros(16 // n))
        self.gate_up = nn.Parameter(torch.cat([w.chunk(n)[rank] for w in gate_up.chunk(2)]))
        self.down, self.back = (nn.Parameter(w.chunk(n, 1)[rank].contiguous()) for w in (down, back))

    def forward(self, x: Any) -> Any:
        sizes = [8 // self.n, 4 // self.n, 4 // self.n]
        a, b, c = nn.functional.linear(x, self.abc, self.bias).split(sizes, -1)
        h = (a.view(len(x), -1, 2) * b[..., None] + c[..., None]).flatten(1)
        g, u = (x @ self.gate_up.T).chunk(2, -1)
        return Added.apply(h @ self.down.T + (g.sigmoid() * u) @ self.back.T)


class Added(torch.autograd.Function):
    """What ranks have in parts, added up."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x = x.clone()
        if dist.is_initialized():
            dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@pytest.mark.parametrize(("together", "verdict"), [(False, "PROVED"), (True, "REFUTED")])
def test_a_step_whose_weights_lie_in_a_row(*, together: bool, verdict: str, tmp_path: Path) -> None:
    def build(mesh: Any) -> Any:
        torch.manual_seed(0)
        model = Packed() if mesh is None else Packed(mesh.get_local_rank("tp"), 2, together=together)

        def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            torch.optim.AdamW(model.parameters()).step()
            return {"loss": loss, "grad": model.abc.grad}

        return model, (torch.randn(4, 6), torch.randn(4, 6)), step

    report = capture_step(build, {"tp": 2}, tmp_path / "step").verify()
    assert str(report.verdict) == verdict, [(o.name, o.verdict) for o in report.outputs]
    if verdict == "PROVED":
        named = {output.name for output in report.outputs}
        assert {"abc[0:8] after the step", "bias[12:16] after the step", "grad[8:12]"} <= named
