"""Causal language models of `transformers` that bring a tensor-parallel plan, small and with random weights.

What a family computes and how it is split is its own code: only the sizes are ours, and that embeddings are not tied
(plans name the weights of both).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PretrainedConfig
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

BATCH, SEQUENCE = 2, 16
SIZES: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "ffn_hidden_size": 128, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 16, "num_experts": 4, "n_routed_experts": 4, "num_local_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "moe_topk": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "qk_head_dim": 16,
    "v_head_dim": 16, "max_position_embeddings": 64, "sliding_window": 8, "linear_num_key_heads": 4,
    "linear_num_value_heads": 8, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "mamba_n_heads": 8,
    "mamba_d_head": 16, "mamba_d_state": 8, "mamba_expand": 2, "vocab_size_per_layer_input": 128,
    "hidden_size_per_layer_input": 8, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "use_cache": False,
    "attention_dropout": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "hidden_dropout": 0.0, "attention_hidden_size": 64,
    "residual_dropout": 0.0, "tie_word_embeddings": False,
}  # fmt: skip
"""By the name of a field; what a family has no field for is left out."""


def families() -> list[str]:
    """Names of the families whose configuration has a plan."""
    names = []
    for name in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        if name in CONFIG_MAPPING and getattr(CONFIG_MAPPING[name], "base_model_tp_plan", None):
            names.append(name)
    return names


def small(family: str) -> PretrainedConfig:
    """A small configuration of the family."""
    kind = CONFIG_MAPPING[family]
    fields = set(vars(kind()))
    wanted = {name: value for name, value in SIZES.items() if name in fields}
    return kind(**wanted)


class Loss(nn.Module):
    """The training loss as a function of tokens: their sum by their number, as the Trainer of the library has it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        count = BATCH * (SEQUENCE - 1)
        return self.model(input_ids=ids, labels=ids, use_cache=False, num_items_in_batch=count).loss


def step(model: nn.Module, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Forward and backward, hooks on gradients included: the loss and every gradient."""
    loss = model(ids)
    loss.backward()
    return {"loss": loss} | {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def build(family: str, mesh: DeviceMesh | None) -> tuple[nn.Module, tuple[torch.Tensor], Callable[..., Any]]:
    """The model with its loss, whole or split by its plan over axis `tp` of a mesh; tokens; the step."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(small(family))
    if mesh is not None:
        plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=mesh["tp"].size()))
        apply_tensor_parallelism(model, mesh["tp"], plan)
    return Loss(model).train(), (torch.randint(3, 128, (BATCH, SEQUENCE)),), step
