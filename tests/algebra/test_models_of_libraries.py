"""What libraries compute, against other ways to write it: equal ones are PROVED, planted bugs are REFUTED."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.optim.adamw import adamw as library_adamw  # noqa: E402

import scalify_dl  # noqa: E402

Function = Callable[..., Any]
LOW = torch.finfo(torch.float32).min


class Grouped(torch.nn.Module):
    num_key_value_groups = 2


def eager(q: Any, k: Any, v: Any) -> Any:
    hidden = torch.triu(torch.full((4, 4), LOW), 1)[None, None]
    return llama.eager_attention_forward(Grouped().eval(), q, k, v, hidden, 0.5)[0]


def fused(q: Any, k: Any, v: Any, *, scale: float = 0.5) -> Any:
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale).transpose(1, 2)


def in_blocks(q: Any, k: Any, v: Any, *, rescaled: bool = True) -> Any:
    """Attention over two blocks of keys."""
    k, v = llama.repeat_kv(k, 2), llama.repeat_kv(v, 2)
    top, total, out = torch.full((1, 2, 4, 1), -torch.inf), torch.zeros(1, 2, 4, 1), torch.zeros(1, 2, 4, 2)
    for j in (0, 2):
        later = torch.arange(j, j + 2)[None] > torch.arange(4)[:, None]
        scores = (q @ k[:, :, j : j + 2].transpose(2, 3) * 0.5).masked_fill(later, -torch.inf)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, old = torch.exp(scores - higher), torch.exp(top - higher)
        total = total * old + weights.sum(-1, keepdim=True)
        out = (out * old if rescaled else out) + weights @ v[:, :, j : j + 2]
        top = higher
    return (out / total).transpose(1, 2)


def norm(x: Any, weight: Any) -> Any:
    return torch.func.functional_call(llama.LlamaRMSNorm(3), {"weight": weight}, (x,))


def norm_and_sum(x: Any, rest: Any, weight: Any) -> Any:
    return norm(x + rest, weight), x + rest


def fused_norm_and_sum(x: Any, rest: Any, weight: Any, *, size: int = 3) -> Any:
    x = x + rest
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) / size + 1e-6) * weight, x


def norm_gradients(x: Any, weight: Any, g: Any) -> Any:
    x, weight = x.requires_grad_(), weight.requires_grad_()
    return torch.autograd.grad(norm(x, weight), (x, weight), g)


def fused_norm_gradients(x: Any, weight: Any, g: Any, *, mean: bool = True) -> Any:
    inverse = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    hat, grown = x * inverse, g * weight
    along = (grown * hat).mean(-1, keepdim=True) if mean else (grown * hat).sum(-1, keepdim=True)
    return inverse * (grown - hat * along), (g * hat).sum(0)


def angles(at: Any) -> Any:
    return torch.outer(at, 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4)))


def rotary(q: Any, k: Any, at: Any) -> Any:
    both = torch.cat((angles(at), angles(at)), -1)[None]
    return llama.apply_rotary_pos_emb(q, k, both.cos(), both.sin())


def rotary_from_a_table(q: Any, k: Any, at: Any, *, sign: int = 1) -> Any:
    cos, sin = torch.cat((angles(at).cos(), sign * angles(at).sin()), -1).chunk(2, -1)

    def turned(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    return turned(q), turned(k)


def rotary_scores(q: Any, k: Any, at: Any) -> Any:
    q, k = rotary(q, k, at)
    return q @ k.transpose(2, 3)


def interleaved_scores(q: Any, k: Any, at: Any, *, paired: bool = True) -> Any:
    """Dims in another order on both sides, as permuted weights make them."""

    def turned(x: Any) -> Any:
        x = torch.stack((x[..., :2], x[..., 2:]), -1).flatten(-2) if paired else x
        a, b, cos, sin = x[..., ::2], x[..., 1::2], angles(at).cos(), angles(at).sin()
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

    return turned(q) @ turned(k).transpose(2, 3)


def adamw(p: Any, g: Any, m: Any, v: Any, *, foreach: bool = False, decay: float = 0.01) -> Any:
    p, m, v = p.clone(), m.clone(), v.clone()
    options = {"amsgrad": False, "beta1": 0.9, "beta2": 0.999, "lr": 1e-3, "eps": 1e-8, "maximize": False}
    step = torch.tensor(2.0)
    library_adamw([p], [g], [m], [v], [], [step], weight_decay=decay, foreach=foreach, **options)
    return p, m, v


def latent(x: Any, wq: Any, down: Any, up_k: Any, up_v: Any) -> Any:
    c = x @ down.T
    q, k, v = ((a @ b.T).view(3, 2, 2).transpose(0, 1) for a, b in ((x, wq), (c, up_k), (c, up_v)))
    return F.scaled_dot_product_attention(q, k, v).transpose(0, 1)


def absorbed(x: Any, wq: Any, down: Any, up_k: Any, up_v: Any, *, scale: float = 2**-0.5) -> Any:
    c = x @ down.T
    q = torch.einsum("shd,hdc->hsc", (x @ wq.T).view(3, 2, 2), up_k.view(2, 2, 2))
    return torch.einsum("hsc,hdc->shd", torch.softmax(q @ c.T * scale, -1) @ c, up_v.view(2, 2, 2))


def entropy_gradient(x: Any, y: Any) -> Any:
    return torch.autograd.grad(F.cross_entropy(x.requires_grad_(), y), x)


def entropy_gradient_by_hand(x: Any, y: Any, *, rows: int = 2) -> Any:
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    p = (weights / weights.sum(-1, keepdim=True)).clone()
    p[torch.arange(2), y] -= 1.0
    return (p / rows,)


def gelu_gradients(x: Any, g: Any) -> Any:
    x = x.requires_grad_()
    both = F.gelu(x), F.gelu(x, approximate="tanh")
    return [torch.autograd.grad(y, x, g)[0] for y in both]


def gelu_gradients_by_hand(x: Any, g: Any, *, power: float = 0.5) -> Any:
    """Φ(x) + x·φ(x), and the same of x·σ(2u)."""
    exact = 0.5 * (1 + torch.erf(x * 0.7071067811865476)) + x * torch.exp(-x * x * power) * 0.3989422804014327
    u = 1.5957691216057308 * (x + 0.044715 * x**3)
    share = torch.sigmoid(u)
    return g * exact, g * (share + x * share * (1 - share) * 1.5957691216057308 * (1 + 0.134145 * x * x))


def smoothed(x: Any, y: Any) -> Any:
    return F.cross_entropy(x, y, label_smoothing=0.1)


def smoothed_by_hand(x: Any, y: Any, *, share: float = 0.1) -> Any:
    logs = F.log_softmax(x, -1)
    return 0.9 * F.nll_loss(logs, y) - share * logs.mean()


def merged(x: Any, w: Any, a: Any, b: Any) -> Any:
    """A linear layer whose weight has a low-rank update in it."""
    return F.linear(x, w + 0.5 * (b @ a))


def beside(x: Any, w: Any, a: Any, b: Any, *, scale: float = 0.5) -> Any:
    return F.linear(x, w) + scale * F.linear(F.linear(x, a), b)


QKV = [(1, 2, 4, 2), (1, 1, 4, 2), (1, 1, 4, 2)]
TURNED = [(1, 2, 2, 4), (1, 1, 2, 4), (2,)]
PAIRS: dict[str, tuple[Function, Function, Function, list[tuple[int, ...]]]] = {
    # name: the baseline, the other way, a planted bug, shapes
    "fused attention": (eager, fused, lambda *a: fused(*a, scale=0.25), QKV),
    "attention in blocks": (eager, in_blocks, lambda *a: in_blocks(*a, rescaled=False), QKV),
    "norm": (
        norm_and_sum, fused_norm_and_sum, lambda *a: fused_norm_and_sum(*a, size=4), [(2, 3), (2, 3), (3,)],
    ),
    "norm backwards": (
        norm_gradients, fused_norm_gradients, lambda *a: fused_norm_gradients(*a, mean=False),
        [(2, 3), (3,), (2, 3)],
    ),
    "rotary": (rotary, rotary_from_a_table, lambda *a: rotary_from_a_table(*a, sign=-1), TURNED),
    "interleaved rotary": (
        rotary_scores, interleaved_scores, lambda *a: interleaved_scores(*a, paired=False), TURNED,
    ),
    "optimiser": (
        adamw, lambda *a: adamw(*a, foreach=True), lambda *a: adamw(*a, foreach=True, decay=0.1), [(3,)] * 4,
    ),
    "latent attention": (
        latent, absorbed, lambda *a: absorbed(*a, scale=0.5), [(3, 3), (4, 3), (2, 3), (4, 2), (4, 2)],
    ),
    "a low-rank update": (merged, beside, lambda *a: beside(*a, scale=1.0), [(3, 4), (5, 4), (2, 4), (5, 2)]),
    "gelu backwards": (
        gelu_gradients, gelu_gradients_by_hand, lambda *a: gelu_gradients_by_hand(*a, power=1.0), [(3,), (3,)],
    ),
    "cross entropy backwards": (
        entropy_gradient, entropy_gradient_by_hand, lambda *a: entropy_gradient_by_hand(*a, rows=1), [(2, 4)],
    ),
    "cross entropy with smoothed labels": (
        smoothed, smoothed_by_hand, lambda *a: smoothed_by_hand(*a, share=0.2), [(2, 4)],
    ),
}  # fmt: skip


def called(function: Function) -> Function:
    """The function without arguments by keyword, which tracing would count."""
    return lambda *args: function(*args)


def written(file: Path, function: Function, *values: Any) -> str:
    """The captured function as a file."""
    file.write_text(make_fx(called(function))(*(value.clone() for value in values)).print_readable(print_output=False))
    return str(file)


def verdict(folder: Path, base: Function, other: Function, shapes: list[tuple[int, ...]], labels: bool) -> str:
    values = [torch.rand(shape) for shape in shapes] + [torch.zeros(2, dtype=torch.int64)] * labels
    for name, function in (("base", base), ("dist", other)):
        written(folder / f"{name}.fx.txt", function, *values)
    (folder / "relate.yaml").write_text('ranges: {"#1": [0, 4]}' if labels else "{}")
    files = [str(folder / name) for name in ("base.fx.txt", "dist.fx.txt", "relate.yaml")]
    return str(scalify_dl.verify(*files[:2], mesh="x=1", relate=files[2]).verdict.value)


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_proved_and_a_planted_bug_is_refuted(name: str, tmp_path: Path) -> None:
    base, right, wrong, shapes = PAIRS[name]
    labels = name.startswith("cross entropy")
    assert verdict(tmp_path, base, right, shapes, labels) == "PROVED"
    assert verdict(tmp_path, base, wrong, shapes, labels) == "REFUTED"
