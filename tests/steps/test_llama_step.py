"""A whole step of a Hugging Face Llama under FSDP2 and tensor parallelism, as tutorials write it: proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.prove.verdict import Verdict

pytest.importorskip("transformers")
pytestmark = pytest.mark.slow

MESH = {"dp": 2, "tp": 2}
VOCAB, BATCH, SEQ = 96, 4, 16


def llama(tied: bool) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=tied, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def tokens() -> Any:
    import torch

    return torch.randint(0, VOCAB, (BATCH, SEQ), generator=torch.Generator().manual_seed(1))


def loss_of(model: Any, ids: Any, labels: str) -> Any:
    """By the model itself, which shifts the labels and ignores the last one; with a prompt ignored; or by hand."""
    import torch
    import torch.nn.functional as F

    positions = torch.arange(ids.shape[1])[None]
    if labels == "by hand":
        logits = model(input_ids=ids, position_ids=positions).logits
        return F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    targets = ids
    if labels == "behind a prompt":
        targets = ids.clone()
        targets[:, :5] = -100
    return model(input_ids=ids, position_ids=positions, labels=targets).loss


def clipped_by_hand(model: Any, groups: dict[str, Any] | None) -> Any:
    """The norm of all gradients: of shards over both axes, and of what only dp cuts."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor

    def own(tensor: Any) -> Any:
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    if groups is None:
        total = sum(p.grad.pow(2).sum() for p in model.parameters())
    else:
        cut = [p for p in model.parameters() if "tp" in p.device_mesh.mesh_dim_names]
        rest = [p for p in model.parameters() if "tp" not in p.device_mesh.mesh_dim_names]
        total = sum(own(p.grad).pow(2).sum() for p in cut)
        dist.all_reduce(total, group=groups["tp"])
        total = total + sum(own(p.grad).pow(2).sum() for p in rest)
        dist.all_reduce(total, group=groups["dp"])
    norm = total.sqrt()
    for parameter in model.parameters():
        own(parameter.grad).mul_((1.0 / (norm + 1e-6)).clamp(max=1.0))
    return norm


def stepper(labels: str, by_hand: bool, groups: dict[str, Any] | None = None) -> Callable[..., Any]:
    import torch
    import torch.distributed as dist

    def step(model: Any, ids: Any) -> Any:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
        loss = loss_of(model, ids, labels)
        loss.backward()
        if by_hand:
            norm = clipped_by_hand(model, groups)
        else:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss = loss.detach()
        if groups is not None:
            dist.all_reduce(loss, group=groups["dp"])
            loss = loss / 2
        return {"loss": loss, "norm": norm if by_hand or groups is None else norm.full_tensor()}

    return step


def parallelized(model: Any, mesh: Any, sequence: bool) -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    out = Shard(1) if sequence else Replicate()
    plan: dict[str, Any] = {
        "self_attn.q_proj": ColwiseParallel(), "self_attn.k_proj": ColwiseParallel(),
        "self_attn.v_proj": ColwiseParallel(), "self_attn.o_proj": RowwiseParallel(output_layouts=out),
        "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(),
        "mlp.down_proj": RowwiseParallel(output_layouts=out),
    }  # fmt: skip
    if sequence:
        inputs = {"hidden_states": Shard(1)}, {"hidden_states": Replicate()}
        plan |= {
            "input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(),
            "self_attn": PrepareModuleInput(input_kwarg_layouts=inputs[0], desired_input_kwarg_layouts=inputs[1]),
            "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        }  # fmt: skip
        parallelize_module(model, mesh["tp"], {
            "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "model.norm": SequenceParallel(),
            "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        })  # fmt: skip
    for layer in model.model.layers:
        parallelize_module(layer, mesh["tp"], plan)
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])


@pytest.mark.parametrize(
    ("labels", "sequence", "by_hand", "tied"),
    [
        ("by the model", True, False, False), ("behind a prompt", True, False, False),
        ("by the model", False, True, False), ("by hand", False, True, True),
    ],
)  # fmt: skip
def test_a_step_of_llama_is_proved(tmp_path: Path, labels: str, sequence: bool, by_hand: bool, tied: bool) -> None:
    from torch.distributed.device_mesh import init_device_mesh

    from scalify_dl import capture_step

    def build() -> Any:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = llama(tied)
        parallelized(model, mesh, sequence)
        groups = {axis: mesh.get_group(axis) for axis in MESH}
        return model, (tokens().chunk(2)[mesh.get_local_rank("dp")],), stepper(labels, by_hand, groups)

    captured = capture_step(
        build, MESH, tmp_path / "step", baseline=lambda: (llama(tied), (tokens(),), stepper(labels, by_hand))
    )
    assert captured.verify().verdict is Verdict.PROVED
