"""What serving and training libraries write otherwise than Hugging Face's models: norms, rotary embeddings, experts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")
moe = pytest.importorskip("transformers.integrations.moe")

from torch.nn import functional as F  # noqa: E402

from .test_models_of_libraries import Function, verdict  # noqa: E402


def norm(x: Any, weight: Any) -> Any:
    return torch.func.functional_call(llama.LlamaRMSNorm(4), {"weight": weight}, (x,))


def norm_of_sum(x: Any, rest: Any, weight: Any) -> Any:
    return norm(x + rest, weight), x + rest


def served_norm(x: Any, rest: Any, weight: Any, *, eps: float = 1e-6) -> Any:
    """Sum, norm and weight in one, as vLLM has them."""
    x = x.to(torch.float32) + rest.to(torch.float32)
    shown = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return shown.to(torch.float32) * weight, x


def norm_around_one(x: Any, gamma: Any, *, shifted: float = 1.0) -> Any:
    """Megatron's, whose weight is less by one."""
    return x.float() * torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + 1e-6) * (shifted + gamma)


def angles(x: Any) -> Any:
    size = x.shape[3]
    return torch.outer(
        torch.arange(x.shape[2]).float(), 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size))
    )


def rotary(q: Any, k: Any) -> Any:
    both = torch.cat((angles(q), angles(q)), -1)[None]
    return llama.apply_rotary_pos_emb(q, k, both.cos(), both.sin())


def served_rotary(q: Any, k: Any, *, sign: int = 1) -> Any:
    """From a table by position, tokens flat, as vLLM has it."""
    table = torch.cat((angles(q).cos(), angles(q).sin()), -1)
    cos, sin = (x.unsqueeze(-2) for x in table.index_select(0, torch.arange(q.shape[2])).chunk(2, -1))

    def turned(x: Any) -> Any:
        _, heads, tokens, size = x.shape
        a, b = x.transpose(1, 2).reshape(tokens, heads * size).view(tokens, -1, size).chunk(2, dim=-1)
        turned = torch.cat((a * cos - b * sin * sign, b * cos + a * sin), dim=-1)
        return turned.reshape(1, tokens, heads, size).transpose(1, 2)

    return turned(q), turned(k)


def trained_rotary(q: Any, k: Any, *, paired: bool = False) -> Any:
    """Positions first, as Megatron has it."""
    both = torch.cat((angles(q), angles(q)), -1)[:, None, None, :]

    def half(x: Any) -> Any:
        a, b = (x[..., ::2], x[..., 1::2]) if paired else x.chunk(2, dim=-1)
        return torch.stack((-b, a), dim=-1).flatten(-2) if paired else torch.cat((-b, a), dim=-1)

    def turned(x: Any) -> Any:
        x = x.permute(2, 0, 1, 3)
        return (x * torch.cos(both) + half(x) * torch.sin(both)).permute(1, 2, 0, 3)

    return turned(q), turned(k)


def gate(x: Any, first: int = 0) -> Any:
    return F.silu(x.chunk(2, -1)[first]) * x.chunk(2, -1)[1 - first]


def routed(x: Any, router: Any) -> Any:
    """Mixtral's router."""
    shares, places = torch.topk(torch.softmax(F.linear(x, router).float(), -1), 1, dim=-1)
    return shares / shares.sum(-1, keepdim=True), places


def experts_gathered(x: Any, router: Any, up: Any, down: Any) -> Any:
    """Hugging Face's, each token with the weights of its expert."""
    owner = SimpleNamespace(
        _is_expert_parallel=False, num_experts=3, has_gate=True, has_bias=False, is_transposed=False,
        has_post_expert_norm=False, gate_up_proj=up, down_proj=down, _apply_gate=gate,
    )  # fmt: skip
    shares, places = routed(x, router)
    return moe.batched_mm_experts_forward(owner, x, places, shares)


def experts_by_products(x: Any, router: Any, up: Any, down: Any, *, first: int = 0) -> Any:
    """By one-hot products, as GShard has them."""
    shares, places = routed(x, router)
    hot = (places == torch.arange(3)).float()
    inner = gate(torch.einsum("etd,efd->etf", torch.einsum("te,td->etd", hot, x), up), first)
    return torch.einsum("te,etf,edf->td", hot * shares, inner, down)


def experts_sorted(x: Any, router: Any, up: Any, down: Any, *, back: bool = True) -> Any:
    """Tokens sorted by expert, and put back by the inverse of the order, as Hugging Face's grouped products are."""
    shares, places = routed(x, router)
    sorted_places, order = torch.sort(places.reshape(-1), stable=True)
    inner = gate(torch.bmm(up[sorted_places], x[order][..., None]).squeeze(-1))
    out = torch.bmm(down[sorted_places], inner[..., None]).squeeze(-1) * shares.reshape(-1)[order][:, None]
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.numel())
    return out[inverse if back else order]


HEADS = [(1, 2, 3, 4), (1, 1, 3, 4)]
EXPERTS = [(6, 2), (3, 2), (3, 4, 2), (3, 2, 2)]
PAIRS: dict[str, tuple[Function, Function, Function, list[tuple[int, ...]]]] = {
    # name: the baseline, the other way, a planted bug, shapes
    "a norm that is served": (
        norm_of_sum, served_norm, lambda *a: served_norm(*a, eps=1e-5), [(2, 4), (2, 4), (4,)],
    ),
    "a norm around one": (
        lambda x, gamma: norm(x, gamma + 1), norm_around_one, lambda *a: norm_around_one(*a, shifted=0.0),
        [(2, 4), (4,)],
    ),
    "a rotary embedding that is served": (rotary, served_rotary, lambda *a: served_rotary(*a, sign=-1), HEADS),
    "positions first": (rotary, trained_rotary, lambda *a: trained_rotary(*a, paired=True), HEADS),
    "experts by products": (
        experts_gathered, experts_by_products, lambda *a: experts_by_products(*a, first=1), EXPERTS,
    ),
    "experts that are sorted": (
        experts_gathered, experts_sorted, lambda *a: experts_sorted(*a, back=False), EXPERTS,
    ),
    "experts that are sorted, by products": (
        experts_by_products, experts_sorted, lambda *a: experts_sorted(*a, back=False), EXPERTS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_proved_and_a_planted_bug_is_refuted(name: str, tmp_path: Path) -> None:
    base, right, wrong, shapes = PAIRS[name]
    assert verdict(tmp_path, base, right, shapes, labels=False) == "PROVED"
    assert verdict(tmp_path, base, wrong, shapes, labels=False) == "REFUTED"
