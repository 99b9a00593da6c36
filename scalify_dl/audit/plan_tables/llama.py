"""Llama: root-mean-square norms, rotary attention with grouped keys and values, gated feed-forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .step import Step, Value

EPSILON = 1e-5


@dataclass(frozen=True)
class Llama:
    """Sizes of a model."""

    layers: int = 2
    hidden: int = 128
    heads: int = 8
    kv_heads: int = 4
    inner: int = 512
    vocabulary: int = 2048
    sequence: int = 64
    tied: bool = False

    @property
    def head(self) -> int:
        """Size of a head."""
        return self.hidden // self.heads


def stage_sizes(layers: int, stages: int) -> list[int]:
    """Layers of every stage; the first ones have one more where they do not divide."""
    each, more = divmod(layers, stages)
    return [each + (s < more) for s in range(stages)]


def llama(size: Llama) -> Callable[[Step, int], None]:
    """A step of the model, on so many stages."""

    def build(s: Step, stages: int) -> None:
        x, mask = start(s, size.vocabulary, size.hidden, size.sequence)
        layer = 0
        for stage, count in enumerate(stage_sizes(size.layers, stages)):
            if stage:
                x, mask = s.next_stage(x, mask)
            for _ in range(count):
                x = attention(s, size, f"layers.{layer}", x, mask)
                x = feed_forward(s, f"layers.{layer}", x, size.hidden, size.inner)
                layer += 1
        finish(s, x, size.vocabulary, size.hidden, tied=size.tied)

    return build


def start(s: Step, vocabulary: int, hidden: int, sequence: int) -> tuple[Value, Value]:
    """Rows of the ids, and the causal mask."""
    ids = s.data("tokens", s.batch, sequence)
    table = s.weight("tok_embeddings.weight", vocabulary, hidden)
    x = s.op("embedding", [ids, table], (s.batch, sequence, hidden), padding_idx=None, start=0, stop=vocabulary)
    mask = s.op("create_mask", [ids, x], (1, 1, sequence, sequence))
    mask.wants_gradient = False
    return x, mask


def finish(s: Step, x: Value, vocabulary: int, hidden: int, *, tied: bool = False) -> None:
    """The last norm, the head, the loss, and the backward pass."""
    x = norm(s, x, "norm.weight")
    head = s.weight("tok_embeddings.weight" if tied else "output.weight", vocabulary, hidden)
    logits = linear(s, x, head)
    s.finish(s.op("sum", [s.op("float", [logits], logits.shape)], (1,)))


def linear(s: Step, x: Value, w: Value, *, cut: bool = False, partial: bool = False) -> Value:
    """x times the transpose of w."""
    shape = (*x.shape[:-1], w.shape[0])
    found: Value = s.op("linear", [x, w], shape, cut=len(shape) - 1 if cut else None, partial=partial, bias=None)
    return found


def norm(s: Step, x: Value, name: str) -> Value:
    """Root-mean-square norm."""
    shape, kept = x.shape, (*x.shape[:-1], 1)
    y = s.op("float", [x], shape)
    mean = s.op("mean", [s.op("pow", [y], shape, constants=[2])], kept, dim=(len(shape) - 1,), keepdim=True)
    root = s.op("rsqrt", [s.op("add", [mean], kept, constants=[EPSILON], alpha=1)], kept)
    scaled = s.op("to", [s.op("mul", [y, root], shape)], shape, dtype_or_device="torch.float32")
    found: Value = s.op("mul", [scaled, s.weight(name, shape[-1])], shape)
    return found


def views(shape: tuple[int, ...], dim: int) -> Callable[[int, int], tuple[int, ...]]:
    """The `size` of a view whose dim is cut over tp."""
    return lambda t, tp: tuple(n // tp if d == dim else n for d, n in enumerate(shape))


def view(s: Step, x: Value, shape: tuple[int, ...], cut: int) -> Value:
    """A view, cut over tp along a dim."""
    found: Value = s.op("view", [x], shape, cut=cut, size=views(shape, cut))
    return found


def swap(s: Step, x: Value, a: int, b: int, cut: int) -> Value:
    """Two dims exchanged."""
    shape = list(x.shape)
    shape[a], shape[b] = shape[b], shape[a]
    found: Value = s.op("transpose", [x], tuple(shape), cut=cut, dim0=a, dim1=b)
    return found


def attend(s: Step, q: Value, k: Value, v: Value, mask: Value, scale: float) -> Value:
    """Attention of [batch, head, position, size], heads cut over tp; [batch, position, head, size]."""
    scores_shape = (*q.shape[:3], k.shape[2])
    scores = s.op("matmul", [q, swap(s, k, 2, 3, 1)], scores_shape, cut=1)
    scores = s.op("div", [scores], scores_shape, cut=1, constants=[scale], rounding_mode=None)
    scores = s.op("apply_mask", [scores, mask], scores_shape, cut=1)
    scores = s.op("softmax", [s.op("float", [scores], scores_shape, cut=1)], scores_shape, cut=1, dim=-1, dtype=None)
    scores = s.op("to", [scores], scores_shape, cut=1, dtype_or_device="torch.float32")
    y = s.op("matmul", [scores, v], (*q.shape[:3], v.shape[3]), cut=1)
    y = swap(s, y, 1, 2, 2)
    found: Value = s.op("contiguous", [y], y.shape, cut=2)
    return found


def repeated(s: Step, x: Value, times: int) -> Value:
    """Every key or value head as often as query heads read it."""
    if times == 1:
        return x
    b, n, heads, size = x.shape
    wide = (b, n, heads, times, size)
    y = s.op("unsqueeze", [x], (b, n, heads, 1, size), cut=2, dim=3)
    y = s.op("expand", [y], wide, cut=2, size=views(wide, 2))
    found: Value = s.op("reshape", [y], (b, n, heads * times, size), cut=2, size=views((b, n, heads * times, size), 2))
    return found


def attention(s: Step, size: Llama, name: str, x: Value, mask: Value) -> Value:
    """The residual of a layer's attention, heads cut over tp."""
    b, n = x.shape[:2]
    h = s.enter(norm(s, x, f"{name}.attention_norm.weight"))
    wide, narrow = size.heads * size.head, size.kv_heads * size.head
    q = linear(s, h, s.weight(f"{name}.attention.wq.weight", wide, size.hidden, cut=0), cut=True)
    k = linear(s, h, s.weight(f"{name}.attention.wk.weight", narrow, size.hidden, cut=0), cut=True)
    v = linear(s, h, s.weight(f"{name}.attention.wv.weight", narrow, size.hidden, cut=0), cut=True)
    q = view(s, q, (b, n, size.heads, size.head), 2)
    k, v = (view(s, y, (b, n, size.kv_heads, size.head), 2) for y in (k, v))
    freqs = s.weight("freqs", n, size.head // 2, dtype="complex64", constant=True)
    q, k = s.op("apply_rotary_emb", [q, k, freqs], q.shape, k.shape, cut=2)
    k, v = (repeated(s, y, size.heads // size.kv_heads) for y in (k, v))
    q, k, v = (swap(s, y, 1, 2, 1) for y in (q, k, v))
    y = attend(s, q, k, v, mask, size.head**0.5)
    y = view(s, y, (b, n, wide), 2)
    y = linear(s, y, s.weight(f"{name}.attention.wo.weight", size.hidden, wide, cut=1), partial=True)
    found: Value = s.op("add", [x, s.leave(y)], x.shape, alpha=1)
    return found


def gated(s: Step, name: str, h: Value, hidden: int, inner: int) -> Value:
    """The gated feed-forward of a value that entered, in addends."""
    gate = linear(s, h, s.weight(f"{name}.w1.weight", inner, hidden, cut=0), cut=True)
    up = linear(s, h, s.weight(f"{name}.w3.weight", inner, hidden, cut=0), cut=True)
    last = len(gate.shape) - 1
    active = s.op("silu", [gate], gate.shape, cut=last, inplace=False)
    y = s.op("mul", [active, up], gate.shape, cut=last)
    return linear(s, y, s.weight(f"{name}.w2.weight", hidden, inner, cut=1), partial=True)


def feed_forward(s: Step, name: str, x: Value, hidden: int, inner: int) -> Value:
    """The residual of a layer's feed-forward, its inner dim cut over tp."""
    h = s.enter(norm(s, x, f"{name}.ffn_norm.weight"))
    y = s.leave(gated(s, f"{name}.feed_forward", h, hidden, inner))
    found: Value = s.op("add", [x, y], x.shape, alpha=1)
    return found
