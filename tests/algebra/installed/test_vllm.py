"""vLLM's own layers, in the ways that it has for every device, against Hugging Face's and torch's: equal ones are
PROVED, planted bugs are REFUTED.

What it computes in kernels of its own (attention with pages, fused experts, quantised products) is no program that can
be captured: kernels are read by `dlverify kernel`, and calls of them by name (docs/frontends.md).
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")

import torch.distributed as dist  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from transformers.models.gemma import modeling_gemma as gemma  # noqa: E402
from transformers.models.gptj import modeling_gptj as gptj  # noqa: E402

from .pairs import Function, library, named, verdict  # noqa: E402

library("vllm.model_executor.layers.layernorm", "vLLM is not installed")

from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.distributed import parallel_state  # noqa: E402
from vllm.model_executor.layers.activation import GeluAndMul, SiluAndMul  # noqa: E402
from vllm.model_executor.layers.layernorm import GemmaRMSNorm, RMSNorm  # noqa: E402
from vllm.model_executor.layers.linear import (  # noqa: E402
    ColumnParallelLinear,
    MergedColumnParallelLinear,
    RowParallelLinear,
)
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding  # noqa: E402
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm  # noqa: E402
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding  # noqa: E402

call = torch.func.functional_call
random = torch.randn


def made(kind: Any, *args: Any, **options: Any) -> Any:
    """A layer of vLLM's, under its default configuration."""
    with set_current_vllm_config(VllmConfig()):
        return kind(*args, **options)


def norm(x: Any, *rest: Any, kind: Any = llama.LlamaRMSNorm) -> Any:
    """Hugging Face's, of a sum where there are three arguments."""
    *rest, w = rest
    x = x + rest[0] if rest else x
    out = call(kind(8), {"weight": w}, (x,))
    return (out, x) if rest else out


def own_norm(x: Any, *rest: Any, kind: Any = RMSNorm, eps: float = 1e-6) -> Any:
    *rest, w = rest
    own = made(kind, 8, eps)
    own.weight.data = w
    return own.forward_native(x, *rest)


def unit(function: Function) -> Function:
    return lambda x: function(x[:, :4]) * x[:, 4:]


def turned_in_halves(at: Any, q: Any, k: Any) -> Any:
    """Hugging Face's, whose angles are made of the positions."""
    config = llama.LlamaConfig(hidden_size=8, num_attention_heads=2, head_dim=4, max_position_embeddings=16)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, at[None])
    both = llama.apply_rotary_pos_emb(*(x.view(1, 5, -1, 4).transpose(1, 2) for x in (q, k)), cos, sin)
    return tuple(x.transpose(1, 2).reshape(5, -1) for x in both)


def turned_in_pairs(at: Any, q: Any, k: Any) -> Any:
    sin, cos = gptj.create_sinusoidal_positions(16, 4)[at].chunk(2, -1)
    apply = gptj.apply_rotary_pos_emb
    return tuple(apply(x.view(1, 5, -1, 4), sin[None], cos[None]).reshape(x.shape) for x in (q, k))


def own_turned(paired: bool, base: int = 10000) -> Function:
    def called(at: Any, q: Any, k: Any) -> Any:
        return made(RotaryEmbedding, 4, 4, 16, base, not paired, torch.float32).forward_native(at, q, k)

    return called


def tokens() -> list[Any]:
    return [torch.tensor([0, 3, 1, 7, 2]), random(5, 8), random(5, 4)]


def of(*shapes: tuple[int, ...]) -> Function:
    return lambda: list(map(random, shapes))


PAIRS: dict[str, tuple[Function, Function, Function, Function]] = {
    # name: the plain one, vLLM's, a planted bug, arguments
    "norm": (
        named("y", norm), named("y", own_norm), named("y", lambda *a: own_norm(*a, eps=1e-5)), of((3, 8), (8,)),
    ),
    "norm of a sum": (
        named("y x", norm), named("y x", own_norm), named("y x", lambda *a: own_norm(*a, eps=1e-5)),
        of((3, 8), (3, 8), (8,)),
    ),
    "norm around one": (
        named("y", lambda *a: norm(*a, kind=gemma.GemmaRMSNorm)),
        named("y", lambda *a: own_norm(*a, kind=GemmaRMSNorm)), named("y", own_norm), of((3, 8), (8,)),
    ),
    "gated unit": (
        named("y", unit(F.silu)), named("y", lambda x: made(SiluAndMul).forward_native(x)),
        named("y", lambda x: made(SiluAndMul).forward_native(x.roll(4, 1))), of((3, 8)),
    ),
    "gated unit with a gelu": (
        named("y", unit(F.gelu)), named("y", lambda x: made(GeluAndMul).forward_native(x)),
        named("y", lambda x: made(GeluAndMul, approximate="tanh").forward_native(x)), of((3, 8)),
    ),
    "rotary embedding in halves": (
        named("q k", turned_in_halves), named("q k", own_turned(False)), named("q k", own_turned(True)), tokens,
    ),
    "rotary embedding with other angles": (
        named("q k", turned_in_halves), named("q k", own_turned(False)), named("q k", own_turned(False, 5000)), tokens,
    ),
    "rotary embedding in pairs": (
        named("q k", turned_in_pairs), named("q k", own_turned(True)), named("q k", own_turned(False)), tokens,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_proved_and_a_planted_bug_is_refuted(name: str) -> None:
    base, own, wrong, values = PAIRS[name]
    assert verdict(base, own, values) == "PROVED"
    assert verdict(base, wrong, values) == "REFUTED"


def ready(rank: int, ranks: int) -> None:
    """vLLM's tensor-parallel group, on that of the capture."""
    new = dist.new_group
    with (
        mock.patch("torch.distributed.new_group", lambda ranks=None, **options: new(ranks)),
        set_current_vllm_config(VllmConfig()),
    ):
        parallel_state._TP = parallel_state.GroupCoordinator([list(range(ranks))], 0, "fake", True, group_name="tp")


def product(layer: Any, x: Any, w: Any) -> Any:
    layer.weight = torch.nn.Parameter(w)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=False)  # what vLLM does once weights are loaded
    return layer(x)[0]


def block(x: Any, gate: Any, up: Any, down: Any) -> Any:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def own_block(x: Any, gate: Any, up: Any, down: Any, *, summed: bool = True) -> Any:
    first = made(MergedColumnParallelLinear, 8, [16, 16], bias=False, prefix="gate_up")
    second = made(RowParallelLinear, 16, 8, bias=False, prefix="down", reduce_results=summed)
    inner = made(SiluAndMul).forward_native(product(first, x, torch.cat((gate, up))))
    return product(second, inner, down)


@pytest.mark.parametrize(("summed", "expected"), [(True, "PROVED"), (False, "REFUTED")])
def test_a_gated_block_over_ranks(summed: bool, expected: str) -> None:
    own = named("y", lambda *a: own_block(*a, summed=summed))
    values = of((4, 8), (16, 8), (16, 8), (8, 16))
    assert verdict(named("y", block), own, values, (None, 0, 0, 1), 2, ready) == expected


@pytest.mark.parametrize(("places", "expected"), [(0, "PROVED"), (1, "REFUTED")])
def test_a_layer_whose_columns_are_gathered(places: int, expected: str) -> None:
    def own(x: Any, w: Any) -> Any:
        layer = made(ColumnParallelLinear, 8, 16, bias=False, gather_output=True, prefix="layer")
        return product(layer, x, w).roll(places, -1)

    assert verdict(named("y", F.linear), named("y", own), of((4, 8), (16, 8)), (None, 0), 2, ready) == expected


@pytest.mark.parametrize(("first", "expected"), [(0, "PROVED"), (1, "REFUTED")])
def test_an_embedding_over_a_cut_vocabulary(first: int, expected: str) -> None:
    def own(ids: Any, w: Any) -> Any:
        table = made(VocabParallelEmbedding, 128, 4, prefix="table")
        table.weight = torch.nn.Parameter(w)
        table.shard_indices.org_vocab_start_index += first
        return table(ids)

    values = lambda: [torch.tensor([0, 127, 64, 63, 5]), random(128, 4)]  # noqa: E731
    assert verdict(named("y", F.embedding), named("y", own), values, (None, 0), 2, ready) == expected


@pytest.mark.parametrize(("scale", "expected"), [(1.0, "PROVED"), (2.0, "REFUTED")])
def test_a_head_whose_logits_are_gathered(scale: float, expected: str) -> None:
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    def own(x: Any, w: Any) -> Any:
        head = made(ParallelLMHead, 128, 4, prefix="head")
        head.weight = torch.nn.Parameter(w)
        dispatch_cpu_unquantized_gemm(head, remove_weight=False)
        with set_current_vllm_config(VllmConfig()):
            return LogitsProcessor(128, scale=scale)(head, x)

    assert verdict(named("y", F.linear), named("y", own), of((3, 4), (128, 4)), (None, 0), 2, ready) == expected
