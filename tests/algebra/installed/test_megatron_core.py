"""Megatron-core's own functions and layers against plain ones: equal ones are PROVED, planted bugs are REFUTED."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")

from torch.nn import functional as F  # noqa: E402

from scalify_dl.audit.schedules.megatron import without_gpu  # noqa: E402

from .pairs import Function, library, named, verdict, with_gradients  # noqa: E402

library("megatron.core", "megatron-core is not installed (pip install megatron-core)")

from megatron.core import activations  # noqa: E402
from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add  # noqa: E402
from megatron.core.fusions.fused_bias_geglu import bias_geglu_impl  # noqa: E402
from megatron.core.fusions.fused_bias_gelu import bias_gelu_impl  # noqa: E402
from megatron.core.fusions.fused_bias_swiglu import bias_swiglu_impl, weighted_bias_swiglu_impl  # noqa: E402
from megatron.core.fusions.fused_softmax import FusedScaleMaskSoftmax  # noqa: E402
from megatron.core.fusions.fused_weighted_squared_relu import weighted_squared_relu_impl  # noqa: E402
from megatron.core.models.common.embeddings.rope_utils import apply_rotary_pos_emb  # noqa: E402
from megatron.core.transformer.enums import AttnMaskType  # noqa: E402
from megatron.core.transformer.torch_norm import WrappedTorchNorm  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402
from megatron.core.transformer.utils import attention_mask_func  # noqa: E402
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek  # noqa: E402
from transformers.models.gptj import modeling_gptj as gptj  # noqa: E402

call = torch.func.functional_call
random = torch.randn
GROUP = SimpleNamespace(size=lambda: 1, rank=lambda: 0)


def config(**options: Any) -> Any:
    return TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=2, **options)


def gated(x: Any, b: Any) -> Any:
    a, c = (x + b).chunk(2, -1)
    return F.silu(a) * c


def gated_by_gelu(x: Any, b: Any) -> Any:
    a, c = (x + b).chunk(2, -1)
    return F.gelu(a, approximate="tanh") * c


def halves_exchanged(x: Any, b: Any) -> Any:
    return bias_swiglu_impl(x.roll(4, -1), b.roll(4))


def weighted_gate(x: Any, w: Any) -> Any:
    a, c = x.chunk(2, -1)
    return F.silu(a) * c * w


def dropout_add(x: Any, b: Any, rest: Any, *, twice: bool = False) -> Any:
    out = get_bias_dropout_add(True, True)((x, b), rest, 0.0)
    return out + b if twice else out


def softmax(kind: Any, scale: float) -> Function:
    def called(x: Any, mask: Any = None, sink: Any = None) -> Any:
        with without_gpu():
            own = FusedScaleMaskSoftmax(False, False, kind, False, attention_mask_func, True, scale)
            return own(x, mask, sink)

    return called


def masked(x: Any, mask: Any) -> Any:
    return torch.softmax((x * 0.5).masked_fill(mask, -10000.0), -1)


def causal(x: Any) -> Any:
    return masked(x, torch.ones(4, 4).tril() == 0)


def with_a_sink(x: Any, sink: Any) -> Any:
    weights = torch.exp(x * 0.5)
    return weights / (weights.sum(-1, keepdim=True) + torch.exp(sink)[None, :, None, None])


def norm(x: Any, w: Any) -> Any:
    return call(llama.LlamaRMSNorm(8), {"weight": w}, (x,))


def wrapped_norm(x: Any, w: Any, *, eps: float = 1e-6) -> Any:
    return call(WrappedTorchNorm(config(normalization="RMSNorm"), 8, eps), {"weight": w}, (x,))


def centred(x: Any, w: Any, b: Any) -> Any:
    far = x - x.mean(-1, keepdim=True)
    return far / torch.sqrt((far * far).mean(-1, keepdim=True) + 1e-5) * w + b


def wrapped_layer_norm(x: Any, w: Any, b: Any, *, eps: float = 1e-5) -> Any:
    return call(WrappedTorchNorm(config(), 8, eps), {"weight": w, "bias": b}, (x,))


def angles() -> Any:
    return torch.outer(torch.arange(5).float(), 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4)))


def turned(paired: bool, *, latent: bool = False) -> Function:
    """Megatron's rotary embedding, positions first."""
    own = config(apply_rope_fusion=False, rotary_interleaved=paired)
    own.multi_latent_attention = latent
    scale = 1.5 if latent else 1.0

    def called(*both: Any) -> Any:
        pairs = torch.stack((angles(), angles()), -1).flatten(-2) if paired else torch.cat((angles(), angles()), -1)
        return tuple(apply_rotary_pos_emb(x, pairs[:, None, None], own, mscale=scale, cp_group=GROUP) for x in both)

    return called


def heads_first(function: Function, scale: float = 1.0) -> Function:
    """Hugging Face's, whose heads come before positions."""

    def called(*both: Any) -> Any:
        pairs = torch.cat((angles(), angles()), -1)[None]
        out = function(*(x.permute(1, 2, 0, 3) for x in both), pairs.cos() * scale, pairs.sin() * scale)
        return tuple(x.permute(2, 0, 1, 3) for x in out)

    return called


def turned_in_pairs(*both: Any) -> Any:
    near = angles()[None]
    return tuple(gptj.apply_rotary_pos_emb(x.transpose(0, 1), near.sin(), near.cos()).transpose(0, 1) for x in both)


HEADS = [(5, 1, 2, 4), (5, 1, 1, 4)]
PADDING, CAUSAL = AttnMaskType.padding, AttnMaskType.causal
PAIRS: dict[str, tuple[Function, Function, Function, list[tuple[int, ...]]]] = {
    # name: the plain one, Megatron's, a planted bug, shapes
    "gated unit and its gradients": (
        with_gradients(gated), with_gradients(bias_swiglu_impl), with_gradients(halves_exchanged),
        [(3, 8), (8,), (3, 4)],
    ),
    "gated unit with shares": (
        with_gradients(weighted_gate), with_gradients(lambda x, w: weighted_bias_swiglu_impl(x, None, w)),
        with_gradients(lambda x, w: weighted_bias_swiglu_impl(x, None, w * w)), [(3, 8), (3, 1), (3, 4)],
    ),
    "gelu with a bias": (
        with_gradients(lambda x, b: F.gelu(x + b, approximate="tanh")), with_gradients(bias_gelu_impl),
        with_gradients(lambda x, b: F.gelu(x + b)), [(3, 8), (8,), (3, 8)],
    ),
    "unit gated by a gelu": (
        with_gradients(gated_by_gelu), with_gradients(bias_geglu_impl),
        with_gradients(lambda x, b: bias_geglu_impl(x.roll(4, -1), b.roll(4))), [(3, 8), (8,), (3, 4)],
    ),
    "bias, dropout of nothing and residual": (
        with_gradients(lambda x, b, rest: x + b + rest), with_gradients(dropout_add),
        with_gradients(lambda *a: dropout_add(*a, twice=True)), [(3, 8), (8,), (3, 8), (3, 8)],
    ),
    "squared relu with shares": (
        with_gradients(lambda x, w: F.relu(x) ** 2 * w), with_gradients(weighted_squared_relu_impl),
        with_gradients(lambda x, w: weighted_squared_relu_impl(-x, w)), [(3, 8), (3, 1), (3, 8)],
    ),
    "squared relu": (
        named("y", lambda x: F.relu(x) * F.relu(x)), named("y", activations.squared_relu), named("y", F.relu), [(3, 8)],
    ),
    "quick gelu": (
        named("y", lambda x: x / (1 + torch.exp(-1.702 * x))), named("y", activations.quick_gelu), named("y", F.silu),
        [(3, 8)],
    ),
    "softmax with a causal mask": (
        named("y", causal), named("y", softmax(CAUSAL, 0.5)), named("y", softmax(CAUSAL, 0.25)), [(1, 2, 4, 4)],
    ),
    "softmax with a sink": (
        named("y", with_a_sink), named("y", lambda x, sink: softmax(PADDING, 0.5)(x, None, sink)),
        named("y", lambda x, sink: softmax(PADDING, 0.5)(x, None, -sink)), [(1, 2, 4, 4), (2,)],
    ),
    "norm by the root of squares": (
        named("y", norm), named("y", wrapped_norm), named("y", lambda *a: wrapped_norm(*a, eps=1e-5)), [(3, 8), (8,)],
    ),
    "layer norm": (
        named("y", centred), named("y", wrapped_layer_norm), named("y", lambda *a: wrapped_layer_norm(*a, eps=1e-6)),
        [(3, 8), (8,), (8,)],
    ),
    "rotary embedding in halves": (
        named("q k", heads_first(llama.apply_rotary_pos_emb)), named("q k", turned(False)), named("q k", turned(True)),
        HEADS,
    ),
    "rotary embedding in pairs": (
        named("q k", turned_in_pairs), named("q k", turned(True)), named("q k", turned(False)), HEADS,
    ),
    "rotary embedding of latent attention": (
        named("q k", heads_first(deepseek.apply_rotary_pos_emb_interleave, 1.5)),
        named("q k", turned(False, latent=True)), named("q k", turned(False)), HEADS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_proved_and_a_planted_bug_is_refuted(name: str) -> None:
    base, own, wrong, shapes = PAIRS[name]
    assert verdict(base, own, lambda: map(random, shapes)) == "PROVED"
    assert verdict(base, wrong, lambda: map(random, shapes)) == "REFUTED"


@pytest.mark.parametrize(("scale", "expected"), [(0.5, "PROVED"), (0.25, "REFUTED")])
def test_softmax_under_a_mask_that_is_given(scale: float, expected: str) -> None:
    values = lambda: [random(1, 2, 4, 4), random(1, 1, 4, 4) > 0]  # noqa: E731
    assert verdict(named("y", masked), named("y", softmax(PADDING, scale)), values) == expected
