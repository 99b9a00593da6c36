"""`capture_step`: FSDP2 and DistributedDataParallel: shards, flat buffers, buckets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from scalify_dl import capture_step  # noqa: E402

from .test_capture_step import base, sgd  # noqa: E402


@pytest.mark.parametrize("factor", [None, 4.0])
def test_sharded_parameters(tmp_path: Path, factor: float | None) -> None:
    """FSDP2: one reduce-scatter of a flat buffer; uneven shards are padded. A reduction with a factor of its own."""
    from torch.distributed.fsdp import fully_shard

    def build(mesh: Any) -> Any:
        model, (x, y), _ = base()
        fully_shard(model, mesh=mesh)
        if factor is not None:
            model.set_gradient_divide_factor(factor)
        rank = mesh.get_local_rank("dp")
        return model, (x.chunk(2)[rank], y.chunk(2)[rank]), sgd

    captured = capture_step(build, {"dp": 2}, tmp_path / "x", baseline=base)
    text = captured.dist[0].read_text()
    assert "torch.ops._c10d_functional.reduce_scatter_tensor.default" in text
    assert ("'avg', 2, 'dp'" if factor is None else "'sum', 2, 'dp'") in text
    assert (", 0.25)" in text) == (factor is not None)
    note = json.loads((tmp_path / "x.r0.json").read_text())
    assert note["placements"]["up.weight"][0] == "(Shard(dim=0),)"


class Odd(nn.Module):
    """Sizes that two ranks do not share equally; a part of one weight is as large as the other part of another."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(7, 5), nn.LayerNorm(5)
        self.up, self.down = nn.Linear(5, 9), nn.Linear(9, 5)

    def forward(self, x: Any) -> Any:
        h = self.table(x)
        return nn.functional.linear(h + self.down(torch.tanh(self.up(self.norm(h)))), self.table.weight)


def test_unequal_shards_are_clipped_and_stepped(tmp_path: Path) -> None:
    from torch.distributed.fsdp import fully_shard

    def step(model: Any, x: Any) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return {"norm": norm.full_tensor() if hasattr(norm, "full_tensor") else norm}

    def build(mesh: Any) -> Any:
        torch.manual_seed(0)
        model, x = Odd(), torch.randint(0, 7, (4, 4))
        if mesh is not None:
            fully_shard(model, mesh=mesh)
            x = x.chunk(2)[mesh.get_local_rank("dp")]
        return model, (x,), step

    assert capture_step(build, {"dp": 2}, tmp_path / "odd").verify().verdict == "PROVED"


class Alike(nn.Module):
    """Weights of one size, so that FSDP2's buffers are rows of equal parts."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.first, self.second = nn.Embedding(16, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 16, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.table(x)
        return self.head(h + self.second(torch.tanh(self.first(h))))


@pytest.mark.parametrize("by", [1, 2])
def test_weights_of_one_size_are_exchanged_together(tmp_path: Path, by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules follow them; a loss that is divided by the ranks once more leaves other moments."""
    monkeypatch.setattr("scalify_dl.prove.pipeline._by_formulas", lambda *_: iter(()))
    from torch.distributed.fsdp import fully_shard

    def build(mesh: Any) -> Any:
        torch.manual_seed(0)
        model, x, y = Alike(), torch.randint(0, 16, (4, 3)), torch.randint(0, 16, (4, 3))
        if mesh is not None:
            fully_shard(model, mesh=mesh)
            x, y = (v.chunk(2)[mesh.get_local_rank("dp")] for v in (x, y))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

        def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            (loss if mesh is None else loss / by).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if by == 1 else 1e3)
            optimizer.step()
            return {}

        return model, (x, y), step

    verdict = capture_step(build, {"dp": 2}, tmp_path / "x").verify().verdict
    assert verdict == ("PROVED" if by == 1 else "REFUTED")


def test_a_sharded_table_is_read_by_all_but_the_last_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut out of ids has their range, for rules, too; formulas follow small tables only."""
    monkeypatch.setattr("scalify_dl.prove.pipeline._by_formulas", lambda *_: iter(()))
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

    def step(model: Any, x: Any) -> dict[str, Any]:
        logits = model(x[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten(), reduction="sum")
        if isinstance(model[0].weight, DTensor):
            dist.all_reduce(loss, group=model[0].weight.device_mesh._get_root_mesh().get_group("dp"))
        return {"loss": loss}

    def build(mesh: Any) -> Any:
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Embedding(8, 8)), torch.randint(0, 8, (2, 4))
        if mesh is not None:
            parallelize_module(model, mesh["tp"], {"0": RowwiseParallel(input_layouts=Replicate())})
            x = x.chunk(2)[mesh.get_local_rank("dp")]
        return model, (x,), step

    assert capture_step(build, {"dp": 2, "tp": 2}, tmp_path / "x").verify().verdict == "PROVED"


def test_buffers_of_shards_that_are_padded(tmp_path: Path) -> None:
    """Those that FSDP makes for itself where ranks do not hold as many rows are no tensors that a program slips in."""
    from torch.distributed.fsdp import fully_shard

    def build() -> Any:
        torch.manual_seed(0)
        return nn.Linear(4, 7), (torch.randn(8, 4), torch.randn(8, 7)), padded

    def padded(model: Any, x: Any, y: Any) -> dict[str, Any]:
        nn.functional.mse_loss(model(x), y).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        return {}

    def build_dist(mesh: Any) -> Any:
        model, (x, y), _ = build()
        rank = mesh.get_local_rank()
        return fully_shard(model, mesh=mesh), (x.chunk(2)[rank], y.chunk(2)[rank]), padded

    captured = capture_step(build_dist, {"dp": 2}, tmp_path / "x", baseline=build)
    assert ".cat.default([bias, _tensor_constant" in captured.dist[1].read_text()


def test_buckets_of_gradients(tmp_path: Path) -> None:
    """Memory that DistributedDataParallel made, where no Python object holds it."""
    from torch.nn.parallel import DistributedDataParallel

    def wrapped(mesh: Any) -> Any:
        model, (x, y), _ = base()
        rank = mesh.get_local_rank("dp")
        return DistributedDataParallel(model), (x.chunk(2)[rank], y.chunk(2)[rank]), weights

    def weights(model: Any, x: Any, y: Any) -> dict[str, Any]:
        sgd(model, x, y)
        return {}

    def build() -> Any:
        return *base()[:2], weights

    assert capture_step(wrapped, {"dp": 2}, tmp_path / "x", baseline=build).verify().verdict == "PROVED"


def test_wrapped_within_the_step(tmp_path: Path) -> None:
    """DistributedDataParallel compares shapes of ranks as it is made, and sends the first rank's parameters to all."""
    from torch.nn.parallel import DistributedDataParallel

    def cut(mesh: Any) -> Any:
        model, (x, y), _ = base()
        rank = mesh.get_local_rank("dp")
        return model, (x.chunk(2)[rank], y.chunk(2)[rank]), wrapped

    def wrapped(model: Any, x: Any, y: Any) -> dict[str, Any]:
        sgd(DistributedDataParallel(model), x, y)
        return {}

    def plain(model: Any, x: Any, y: Any) -> dict[str, Any]:
        sgd(model, x, y)
        return {}

    captured = capture_step(cut, {"dp": 2}, tmp_path / "x", baseline=lambda: (*base()[:2], plain))
    assert captured.verify().verdict == "PROVED"
