"""The baseline: a decoder block in PyTorch, captured as FX text.

python examples/cross_framework/torch_block.py        # rewrites dump/block.base.fx.txt and its JSON; needs torch
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from scalify_dl.capture.torch import capture

BATCH, SEQUENCE, WIDTH, HIDDEN, HEADS, HEAD = 2, 16, 64, 128, 4, 16
HERE = Path(__file__).parent


class Block(nn.Module):
    """RMSNorm, causal attention, RMSNorm, SwiGLU, residuals; the sum of squares of the result as its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.Parameter(torch.ones(WIDTH))
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.o = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.norm2 = nn.Parameter(torch.ones(WIDTH))
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def norm(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x, self.norm1)
        q, k, v = (layer(h).view(BATCH, SEQUENCE, HEADS, HEAD).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) * HEAD**-0.5
        position = torch.arange(SEQUENCE, dtype=torch.int32)
        causal = position[:, None] >= position[None, :]
        weights = torch.softmax(torch.where(causal, scores, float("-inf")), -1)
        x = x + self.o((weights @ v).transpose(1, 2).reshape(BATCH, SEQUENCE, HEADS * HEAD))
        h = self.norm(x, self.norm2)
        x = x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))
        return x.pow(2).sum()


if __name__ == "__main__":
    model = Block().requires_grad_(False)
    print(capture(model, (torch.randn(BATCH, SEQUENCE, WIDTH),), {}, HERE / "dump" / "block.base"))
