"""DeepSeek-V3: latent attention, a shared expert and routed experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .llama import attend, feed_forward, finish, gated, linear, norm, stage_sizes, start, swap, view
from .step import Step, Value


@dataclass(frozen=True)
class DeepSeek:
    """Sizes of a model. Experts are stacked: one weight [experts, …] and one op for all."""

    layers: int = 3
    dense: int = 1
    """Layers before the first with experts."""
    hidden: int = 128
    heads: int = 8
    latent_q: int = 0
    """0: queries are not compressed."""
    latent_kv: int = 32
    plain: int = 16
    rotary: int = 8
    value: int = 16
    inner: int = 256
    experts: int = 16
    chosen: int = 4
    shared: int = 1
    expert_inner: int = 64
    vocabulary: int = 2048
    sequence: int = 64


def deepseek(size: DeepSeek) -> Callable[[Step, int], None]:
    """A step of the model, on so many stages. Routed experts lie over the tp ranks, or over the copies of an
    expert-parallel group where the step has one."""

    def build(s: Step, stages: int) -> None:
        x, mask = start(s, size.vocabulary, size.hidden, size.sequence)
        layer = 0
        for stage, count in enumerate(stage_sizes(size.layers, stages)):
            if stage:
                x, mask = s.next_stage(x, mask)
            for _ in range(count):
                name = f"layers.{layer}"
                x = latent_attention(s, size, name, x, mask)
                if layer < size.dense:
                    x = feed_forward(s, name, x, size.hidden, size.inner)
                else:
                    x = mixture(s, size, name, x)
                layer += 1
        finish(s, x, size.vocabulary, size.hidden)

    return build


def latent_attention(s: Step, size: DeepSeek, name: str, x: Value, mask: Value) -> Value:
    """The residual of attention whose keys and values come from a latent, heads cut over tp."""
    b, n = x.shape[:2]
    name += ".attention"
    h = norm(s, x, f"{name}_norm.weight")
    heads, wide = size.heads, size.plain + size.rotary
    if size.latent_q:
        c = linear(s, h, s.weight(f"{name}.wq_a.weight", size.latent_q, size.hidden))
        c = norm(s, c, f"{name}.q_norm.weight")
    else:
        c = h
    q = linear(s, s.enter(c), s.weight(f"{name}.wq_b.weight", heads * wide, c.shape[-1], cut=0), cut=True)
    q = view(s, q, (b, n, heads, wide), 2)
    plain, turned = s.op(
        "split", [q], (b, n, heads, size.plain), (b, n, heads, size.rotary), cut=2,
        split_size_or_sections=(size.plain, size.rotary), dim=-1,
    )  # fmt: skip
    both = linear(s, h, s.weight(f"{name}.wkv_a.weight", size.latent_kv + size.rotary, size.hidden))
    c, key = s.op(
        "split", [both], (b, n, size.latent_kv), (b, n, size.rotary),
        split_size_or_sections=(size.latent_kv, size.rotary), dim=-1,
    )  # fmt: skip
    key = s.op("view", [key], (b, n, 1, size.rotary), size=(b, n, 1, size.rotary))
    freqs = s.weight("freqs", n, size.rotary // 2, dtype="complex64", constant=True)
    turned, key = s.op("apply_rotary_emb", [turned, s.enter(key), freqs], turned.shape, key.shape, cut=[2, None])
    key = s.op("expand", [key], (b, n, heads, size.rotary), cut=2, size=lambda t, tp: (b, n, heads // tp, size.rotary))
    c = s.enter(norm(s, c, f"{name}.kv_norm.weight"))
    pair = size.plain + size.value
    kv = linear(s, c, s.weight(f"{name}.wkv_b.weight", heads * pair, size.latent_kv, cut=0), cut=True)
    k, v = s.op(
        "split", [view(s, kv, (b, n, heads, pair), 2)], (b, n, heads, size.plain), (b, n, heads, size.value), cut=2,
        split_size_or_sections=(size.plain, size.value), dim=-1,
    )  # fmt: skip
    q = s.op("cat", [plain, turned], (b, n, heads, wide), cut=2, dim=-1)
    k = s.op("cat", [k, key], (b, n, heads, wide), cut=2, dim=-1)
    q, k, v = (swap(s, y, 1, 2, 1) for y in (q, k, v))
    y = attend(s, q, k, v, mask, wide**0.5)
    y = view(s, y, (b, n, heads * size.value), 2)
    y = linear(s, y, s.weight(f"{name}.wo.weight", size.hidden, heads * size.value, cut=1), partial=True)
    found: Value = s.op("add", [x, s.leave(y)], x.shape, alpha=1)
    return found


def mixture(s: Step, size: DeepSeek, name: str, x: Value) -> Value:
    """The residual of a shared expert and of the routed ones."""
    h = norm(s, x, f"{name}.ffn_norm.weight")
    scores = linear(s, h, s.weight(f"{name}.gate.weight", size.experts, size.hidden))
    scores = s.op("sigmoid", [scores], scores.shape)
    gates = s.op("moe_gate", [scores], scores.shape, k=size.chosen)
    shape = (size.experts, size.expert_inner, size.hidden)
    inside = s.ep > 1
    w1, w3 = (s.weight(f"{name}.experts.{w}", *shape, cut=0, expert=inside) for w in ("w1", "w3"))
    w2 = s.weight(f"{name}.experts.w2", size.experts, size.hidden, size.expert_inner, cut=0, expert=inside)
    if inside:
        tokens = s.gather(h, 0)
        routed = s.op(
            "moe_experts", [tokens, s.exchange(gates, 2, 0), w1, w2, w3], tokens.shape, partial=True, expert=True
        )
        routed = s.scatter(routed, 0)
    else:
        routed = s.op("moe_experts", [s.enter(h), s.part(gates, 2), w1, w2, w3], h.shape, partial=True)
        routed = s.leave(routed)
    shared = s.leave(gated(s, f"{name}.shared", s.enter(h), size.hidden, size.shared * size.expert_inner))
    y = s.op("add", [routed, shared], x.shape, alpha=1)
    found: Value = s.op("add", [x, y], x.shape, alpha=1)
    return found
