"""Captures a small Hugging Face Llama, alone and tensor-parallel over `--tp` ranks, and verifies the pair.

    python examples/hf_llama/live.py                        # PROVED
    python examples/hf_llama/live.py --bug missing-allreduce  # not PROVED, located at what misses it

The model is split by its own `tp_plan`. Needs `torch` and `transformers`; no GPU, no launcher. What it captures is text
and JSON, so `--keep DIR` and a later `dlverify verify DIR/llama.base.fx.txt DIR/llama.r*.fx.txt --mesh tp=2` does the
same on a machine without either. `dump/` beside this file is such a capture.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

from scalify_dl.capture.torch import capture_pair

BUGS = ("missing-allreduce", "bias-per-rank", "wrong-slice")
BATCH, SEQUENCE = 2, 32


class Loss(nn.Module):
    """The training loss as a function of tokens, positions and mask."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        out = self.model(input_ids=ids, position_ids=positions, attention_mask=mask, labels=ids, use_cache=False)
        return out.loss


def local(value: torch.Tensor) -> torch.Tensor:
    """This rank's part of a parameter."""
    return value.to_local() if isinstance(value, DTensor) else value


def break_model(model: nn.Module, mesh: DeviceMesh, bug: str) -> None:
    """Puts a mistake into the first layer's output projection, whose product is a sum over the ranks."""
    projection = model.model.layers[0].self_attn.o_proj

    def forward(x: torch.Tensor) -> torch.Tensor:
        weight, bias = local(projection.weight), local(projection.bias)
        if bug == "wrong-slice":  # every rank multiplies the heads of its neighbour, which it gathers first
            whole = DTensor.from_local(x, mesh, [torch.distributed.tensor.Shard(-1)]).full_tensor()
            other = (mesh.get_local_rank() + 1) % mesh.size()
            x = whole.chunk(mesh.size(), -1)[other]
        product = nn.functional.linear(x, weight, bias if bug == "bias-per-rank" else None)
        if bug == "missing-allreduce":
            return product + bias
        total = DTensor.from_local(product, mesh, [Partial()]).redistribute(placements=[Replicate()]).to_local()
        return total if bug == "bias-per-rank" else total + bias

    projection.forward = forward


def build(
    mesh: DeviceMesh | None, tp: int, layers: int, bug: str | None
) -> tuple[nn.Module, tuple[torch.Tensor, ...], dict[str, object]]:
    """The model, whole or split over the mesh, and its inputs."""
    config = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=4,
        vocab_size=256, attention_bias=True, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    if mesh is not None:
        plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=tp))
        apply_tensor_parallelism(model, mesh["tp"], plan)
        if bug is not None:
            break_model(model, mesh["tp"], bug)
    ids = torch.randint(0, config.vocab_size, (BATCH, SEQUENCE))
    positions = torch.arange(SEQUENCE).repeat(BATCH, 1)
    return Loss(model), (ids, positions, torch.ones_like(ids)), {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tp", type=int, default=2, help="ranks (default 2)")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--bug", choices=BUGS, help="a mistake to put in")
    parser.add_argument("--keep", type=Path, help="directory for the captured text (default: a temporary one)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        base, ranks = capture_pair(
            lambda mesh: build(mesh, arguments.tp, arguments.layers, arguments.bug),
            {"tp": arguments.tp},
            folder / "llama",
        )
        command = ["verify", base, *ranks, "--mesh", f"tp={arguments.tp}"]
        return subprocess.run([sys.executable, "-m", "scalify_dl.cli", *map(str, command)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
