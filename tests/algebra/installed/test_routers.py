"""Routers of experts, and tokens sent to experts and back, as Megatron-core and vLLM have them, against plain ones.

Megatron's other dispatch (`masked_select`: as many rows as tokens chose an expert) is no program of fixed sizes, and is
not captured; what is sent with a capacity is.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from scalify_dl.errors import InputError  # noqa: E402

from .pairs import Function, library, named, verdict  # noqa: E402

random = torch.randn
MEGATRON, SERVED = "megatron.core.transformer.moe.moe_utils", "vllm.model_executor.layers.fused_moe.router.cpu_router"


def megatron() -> Any:
    """Asked for before anything is captured: a test is skipped outside of a capture."""
    return library(MEGATRON, "megatron-core is not installed (pip install megatron-core)")


def served() -> Any:
    return library(SERVED, "vLLM is not installed, or is of a version that has no router of this name")


def table(like: Any, places: Any, shares: Any) -> Any:
    """Of each token the share of each expert."""
    return torch.zeros_like(like).scatter(1, places.long(), shares)


def plain(logits: Any, chosen: int = 2, *, normal: bool = True) -> Any:
    """Mixtral's: the greatest shares, which then add up to one."""
    shares, places = torch.topk(torch.softmax(logits, -1), chosen, -1)
    return table(logits, places, shares / shares.sum(-1, keepdim=True) if normal else shares)


@pytest.mark.parametrize(("before", "normal"), [(False, True), (True, False), (True, True), (False, False)])
def test_shares_of_the_experts_in_megatron(before: bool, normal: bool) -> None:
    megatron()
    own = lambda x: megatron().topk_routing_with_score_function(x, 2, use_pre_softmax=before)[0]  # noqa: E731
    found = verdict(named("y", lambda x: plain(x, normal=normal)), named("y", own), lambda: [random(3, 4)])
    assert found == ("PROVED" if before != normal else "REFUTED")


@pytest.mark.parametrize(("renormalize", "normal"), [(True, True), (False, False), (True, False), (False, True)])
def test_shares_of_the_experts_in_vllm(renormalize: bool, normal: bool) -> None:
    served()
    def chosen(logits: Any) -> Any:
        shares = torch.topk(torch.softmax(logits, -1), 2, -1)[0]
        return shares / shares.sum(-1, keepdim=True) if normal else shares

    own = named("shares", lambda x: served()._softmax_topk(x, 2, renormalize)[0])
    found = verdict(named("shares", chosen), own, lambda: [random(3, 4)])
    assert found == ("PROVED" if renormalize == normal else "REFUTED")


def grouped(epsilon: float, as_table: bool = True) -> Function:
    """DeepSeek's: of two groups the one whose two best are greater, of it two experts; the bias only chooses."""

    def called(logits: Any, bias: Any) -> Any:
        shares = logits.sigmoid()
        biased = shares + bias[None]
        best = biased.view(-1, 2, 4).topk(2, -1)[0].sum(-1)
        group = torch.zeros_like(best).scatter(1, torch.topk(best, 1, -1, sorted=False)[1], 1)
        here = group.unsqueeze(-1).expand(-1, 2, 4).reshape(-1, 8)
        places = torch.topk(biased.masked_fill(~here.bool(), -torch.inf), 2, -1, sorted=False)[1]
        chosen = shares.gather(1, places)
        total = chosen.sum(-1, keepdim=True)
        chosen = chosen / (total + epsilon if epsilon else total) * 2.5
        return table(logits, places, chosen) if as_table else (chosen, places.int())

    return called


@pytest.mark.parametrize(("biased", "expected"), [(1, "PROVED"), (0, "REFUTED")])
def test_groups_of_experts_in_megatron(biased: int, expected: str) -> None:
    megatron()
    def own(logits: Any, bias: Any) -> Any:
        options = {"num_groups": 2, "group_topk": 1, "score_function": "sigmoid", "scaling_factor": 2.5}
        return megatron().topk_routing_with_score_function(logits, 2, expert_bias=bias * biased, **options)[0]

    values = lambda: [random(2, 8), random(8)]  # noqa: E731
    assert verdict(named("y", grouped(1e-20)), named("y", own), values) == expected


@pytest.mark.parametrize(("scale", "expected"), [(2.5, "PROVED"), (1.0, "REFUTED")])
def test_groups_of_experts_in_vllm(scale: float, expected: str) -> None:
    served()
    def own(logits: Any, bias: Any) -> Any:
        return served()._grouped_topk(logits, 2, True, 2, 1, "sigmoid", scale, bias)

    values = lambda: [random(2, 8), random(8)]  # noqa: E731
    plain = named("shares places", grouped(0.0, as_table=False))
    assert verdict(plain, named("shares places", own), values) == expected


@pytest.mark.parametrize(("coefficient", "expected"), [(0.1, "PROVED"), (0.2, "REFUTED")])
def test_a_loss_of_large_logits(coefficient: float, expected: str) -> None:
    megatron()
    own = named("loss", lambda x: megatron().z_loss_func(x, coefficient))
    by_hand = named("loss", lambda x: 0.1 * (torch.exp(x).sum(-1).log() ** 2).mean())
    assert verdict(by_hand, own, lambda: [random(3, 4)]) == expected


def by_all_experts(x: Any, logits: Any, up: Any, down: Any) -> Any:
    shares = plain(logits, 1)
    return sum(shares[:, n : n + 1] * (F.silu(x @ up[n]) @ down[n]) for n in range(2))


def dispatched(x: Any, logits: Any, up: Any, down: Any, *, factor: float = 2.0, right: bool = True) -> Any:
    """Megatron's, with a capacity that experts are filled up to."""
    own, tokens, experts = megatron(), *logits.shape
    shares, chosen = own.topk_routing_with_score_function(logits, 1)
    options = {"router_topk": 1, "capacity_factor": factor, "drop_policy": "probs", "pad_to_capacity": True}
    shares, chosen = own.apply_router_token_dropping(shares, chosen, **options)
    count = tokens * experts
    rows, of_rows, order = own.permute(x, chosen, shares, num_out_tokens=count, drop_and_pad=True)
    of_rows = of_rows if right else of_rows.flip(0)
    inner = F.silu(torch.bmm(rows.view(experts, tokens, -1), up))
    rows = torch.bmm(inner, down).view(count, -1) * of_rows[:, None]
    return own.unpermute(rows, order, x.shape, routing_map=chosen, drop_and_pad=True)


@pytest.mark.parametrize(("right", "expected"), [(True, "PROVED"), (False, "REFUTED")])
@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_tokens_sent_to_experts_and_back(factor: float, right: bool, expected: str) -> None:
    """What one expert does not get is a row of nothing there; whether tokens may be dropped is asked with factor 2."""
    megatron()
    values = lambda: [random(3, 2), random(3, 2), random(2, 2, 3), random(2, 3, 2)]  # noqa: E731
    own = named("y", lambda *a: dispatched(*a, factor=factor, right=right))
    assert verdict(named("y", by_all_experts), own, values) == expected


def test_tokens_chosen_by_a_mask_are_not_captured() -> None:
    megatron()
    def own(x: Any, logits: Any) -> Any:
        shares, chosen = megatron().topk_routing_with_score_function(logits, 1)
        return megatron().permute(x, chosen, shares, num_out_tokens=3)[0]

    with pytest.raises(InputError, match="masked_select"):
        verdict(named("y", lambda x, _: x), named("y", own), lambda: [random(3, 2), random(3, 2)])
