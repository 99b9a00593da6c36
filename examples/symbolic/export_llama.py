"""A Llama of transformers, tensor-parallel by hand, exported by `torch.export` with batch and sequence left open.

    python examples/symbolic/export_llama.py DIRECTORY --ranks 2 [--bug]
    dlverify verify DIRECTORY/base.fx.txt DIRECTORY/r*.fx.txt --mesh tp=2 --symbolic batch=ids:0,seq=ids:1

Needs PyTorch and transformers; no devices, no weights. The proof is for every batch and sequence length within the
bounds of the export. With --bug one row-parallel layer does not add up its ranks.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.export import Dim
from transformers import LlamaConfig, LlamaForCausalLM

from scalify_dl.capture.torch import capture_exported, fake_rank

CONFIG = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "attn_implementation": "eager",
}
SIZES = {0: Dim("batch", min=2), 1: Dim("seq", min=2, max=2048)}


class RowParallel(nn.Module):
    """A rank's share of the columns of a weight; ranks add up."""

    def __init__(self, inputs: int, outputs: int, group: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.linear(x, self.weight)
        return y if self.group is None else collectives.all_reduce(y, "sum", self.group)


class Model(nn.Module):
    """The logits of a Llama; linear layers are a rank's share of those of `ranks`."""

    def __init__(self, ranks: int = 1, group: Any = None, bug: bool = False) -> None:
        super().__init__()
        self.llama = LlamaForCausalLM(LlamaConfig(**CONFIG, use_cache=False)).eval()
        for number, layer in enumerate(self.llama.model.layers if ranks > 1 else ()):
            for block, columns, row in (
                (layer.self_attn, ("q_proj", "k_proj", "v_proj"), "o_proj"),
                (layer.mlp, ("gate_proj", "up_proj"), "down_proj"),
            ):
                for name in columns:
                    whole = getattr(block, name)
                    setattr(block, name, nn.Linear(whole.in_features, whole.out_features // ranks, bias=False))
                whole = getattr(block, row)
                forgotten = bug and number == 0 and row == "down_proj"
                share = RowParallel(whole.in_features // ranks, whole.out_features, None if forgotten else group)
                setattr(block, row, share)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.llama(input_ids=ids, use_cache=False).logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bug", action="store_true")
    options = parser.parse_args()
    ids = torch.randint(0, CONFIG["vocab_size"], (3, 12))
    capture_exported(Model(), (ids,), options.directory / "base", dynamic_shapes=(SIZES,))
    for rank in range(options.ranks):
        with fake_rank(rank, {"tp": options.ranks}) as mesh:
            model = Model(options.ranks, mesh.get_group("tp"), options.bug)
            capture_exported(model, (ids,), options.directory / f"r{rank}", dynamic_shapes=(SIZES,))


if __name__ == "__main__":
    main()
