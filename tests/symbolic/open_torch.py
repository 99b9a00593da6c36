"""Programs that `torch.export` writes with sizes left open, for the baseline and for every rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.export import Dim

from scalify_dl.capture.torch import capture_exported, fake_rank


class Program(nn.Module):
    """A part of a model on one rank of `ranks`; `group` is None for the baseline."""

    def __init__(self, group: Any, rank: int, ranks: int, bug: str) -> None:
        super().__init__()
        self.group, self.rank, self.ranks, self.bug = group, rank, ranks, bug

    def reduced(self, x: Any, op: str = "sum") -> Any:
        if self.group is None or self.bug == "no reduction":
            return x
        return collectives.all_reduce(x, op, self.group)


class MLP(Program):
    """Column-parallel, then row-parallel."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.up = nn.Linear(8, 32 // self.ranks)
        self.down = nn.Linear(32 // self.ranks, 8, bias=False)

    def forward(self, x: Any) -> Any:
        return self.reduced(self.down(nn.functional.gelu(self.up(x))))


class Attention(Program):
    """Causal attention, heads over ranks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        width = 32 // self.ranks
        self.q, self.k, self.v = (nn.Linear(16, width, bias=False) for _ in range(3))
        self.o = nn.Linear(width, 16, bias=False)

    def forward(self, x: Any) -> Any:
        batch, seq, _ = x.shape
        q, k, v = (f(x).view(batch, seq, -1, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / 8**0.5
        diagonal = 1 if self.bug == "mask" else 0
        causal = torch.ones(seq, seq, dtype=torch.bool).tril(diagonal)
        weights = scores.masked_fill(~causal, float("-inf")).softmax(-1)
        return self.reduced(self.o((weights @ v).transpose(1, 2).reshape(batch, seq, -1)))


class Embedding(Program):
    """Every rank has a block of the rows; ids outside of it are masked."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rows = 40 // self.ranks
        self.table = nn.Embedding(self.rows, 16)

    def forward(self, ids: Any) -> Any:
        if self.group is None:
            return self.table(ids)
        first = self.rank * self.rows
        last = first + self.rows - (self.bug == "bound")
        outside = (ids < first) | (ids >= last)
        found = self.table((ids - first).masked_fill(outside, 0))
        return self.reduced(found.masked_fill(outside.unsqueeze(-1), 0.0))


class Mean(Program):
    """The mean of squares, the batch over ranks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.up = nn.Linear(8, 16)

    def forward(self, x: Any) -> Any:
        squares = self.up(x) ** 2
        if self.bug == "frozen":  # right where a rank has 4 samples of 6
            return self.reduced(squares.sum() / (4 * 6 * 16 * self.ranks))
        if self.bug == "sum":
            return self.reduced(squares.mean())
        return self.reduced(squares.mean(), "avg")


PROGRAMS: dict[str, tuple[type[Program], Any, str]] = {
    "mlp": (MLP, lambda: torch.randn(4, 6, 8), "tp"),
    "attention": (Attention, lambda: torch.randn(4, 6, 16), "tp"),
    "embedding": (Embedding, lambda: torch.zeros(4, 6, dtype=torch.int64), "tp"),
    "mean": (Mean, lambda: torch.randn(4, 6, 8), "dp"),
}


def write(name: str, folder: Path, ranks: int = 2, bug: str = "") -> tuple[Path, Sequence[Path], str]:
    """The exports of a program: baseline, every rank, mesh."""
    kind, argument, axis = PROGRAMS[name]
    shapes = ({0: Dim("batch", min=2, max=100_000), 1: Dim("seq", min=2)},)
    args = (argument(),)
    base = capture_exported(kind(None, 0, 1, ""), args, folder / "base", dynamic_shapes=shapes)
    files = []
    for rank in range(ranks):
        with fake_rank(rank, {axis: ranks}) as mesh:
            program = kind(mesh.get_group(axis), rank, ranks, bug)
            files.append(capture_exported(program, args, folder / f"r{rank}", dynamic_shapes=shapes))
    return base, files, f"{axis}={ranks}"
