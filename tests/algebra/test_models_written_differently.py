"""Parts of models as several people write them: those that are equal are PROVED, their wrong twins are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from .test_functions_written_differently import Function, attention, softmax, verdicts  # noqa: E402


def rotated(x: Any, at: Any) -> Any:
    angles = jnp.outer(at, 1 / jnp.array([1.0, 10.0]))
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


def scores_of_distances(q: Any, k: Any, at: Any, there: Any, *, apart: int = 1) -> Any:
    return (q * rotated(k, apart * (there - at))).sum(-1)


def shown_attention(q: Any, k: Any, v: Any, shown: Any) -> Any:
    return softmax(jnp.where(shown, q @ k.T, -jnp.inf)) @ v


def shown_flash(q: Any, k: Any, v: Any, shown: Any, *, guarded: bool = True) -> Any:
    """Two blocks, of which one may be masked altogether."""
    top, total, out = jnp.full((2, 1), -jnp.inf), jnp.zeros((2, 1)), jnp.zeros((2, 2))
    for j in (0, 2):
        scores = jnp.where(shown[:, j : j + 2], q @ k[j : j + 2].T, -jnp.inf)
        higher = jnp.maximum(top, scores.max(-1, keepdims=True))
        shift = jnp.where(higher == -jnp.inf, 0, higher) if guarded else higher
        weights, old = jnp.exp(scores - shift), jnp.exp(top - shift)
        total, out, top = total * old + weights.sum(-1, keepdims=True), out * old + weights @ v[j : j + 2], higher
    return out / total


def merged_ring(q: Any, k: Any, v: Any, *, away: bool = True) -> Any:
    """Ring attention that merges results by a logistic of the difference of their sums."""
    out = top = None
    for _ in range(2):
        scores = q @ k.T / 2
        here = jax.nn.logsumexp(scores, -1, keepdims=True)
        new = jnp.exp(scores - here) @ v
        if out is None:
            out, top = new, here
        else:
            out = out - jax.nn.sigmoid(here - top if away else top - here) * (out - new)
        k, v = (lax.ppermute(t, "x", [(0, 1), (1, 0)]) for t in (k, v))
    return out


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def norm_of_halves(x: Any, *, weight: float = 1.0) -> Any:
    """Means and squares of two halves, merged."""
    a, b = x[:, :2], x[:, 2:]
    means = a.mean(1), b.mean(1)
    squares = sum(((half - mean[:, None]) ** 2).sum(1) for half, mean in zip((a, b), means, strict=True))
    mean = (means[0] + means[1]) / 2
    variance = (squares + weight * (means[1] - means[0]) ** 2) / 4
    return (x - mean[:, None]) * lax.rsqrt(variance + 1e-5)[:, None]


def decoded(x: Any, wq: Any, wk: Any, wv: Any, *, future: int = 0) -> Any:
    """One token after the other, with a cache."""

    def step(cache: Any, now: Any) -> Any:
        at, token = now
        keys = lax.dynamic_update_slice(cache[0], (token @ wk)[None], (at, 0))
        values = lax.dynamic_update_slice(cache[1], (token @ wv)[None], (at, 0))
        scores = keys @ (token @ wq)
        return (keys, values), softmax(jnp.where(jnp.arange(3) <= at + future, scores, -jnp.inf)) @ values

    empty = jnp.zeros((3, 2)), jnp.zeros((3, 2))
    return lax.scan(step, empty, (jnp.arange(3), x))[1]


def causal(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
    return shown_attention(x @ wq, x @ wk, x @ wv, jnp.tril(jnp.ones((3, 3), bool)))


def entropy_in_chunks(x: Any, w: Any, y: Any, *, chunk: int = 2) -> Any:
    """Cross entropy of a vocabulary that comes in chunks."""

    def step(state: Any, part: Any) -> Any:
        top, total, picked, at = state
        logits = x @ part
        higher = jnp.maximum(top, logits.max(-1))
        total = total * jnp.exp(top - higher) + jnp.exp(logits - higher[:, None]).sum(-1)
        picked = picked + (logits * (jnp.arange(2) + chunk * at == y[:, None])).sum(-1)
        return (higher, total, picked, at + 1), None

    start = jnp.full(2, -jnp.inf), jnp.zeros(2), jnp.zeros(2), 0
    (top, total, picked, _), _ = lax.scan(step, start, w.reshape(3, 2, 2).transpose(1, 0, 2))
    return (top + jnp.log(total) - picked).mean()


def entropy(x: Any, w: Any, y: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], 1).mean()


def trusted(p: Any, u: Any, *, whole: bool = True) -> Any:
    """A step of LAMB on shards."""
    ratio = lax.psum((p * p).sum(), "x") / (lax.psum((u * u).sum(), "x") if whole else (u * u).sum())
    return p - jnp.sqrt(ratio) * u


QKV = [(4, 3), (4, 3), (4, 3)]
MASKED = [(2, 2), (4, 2), (4, 2), ((2, 4), "bool")]
WEIGHTS = [(3, 2), (2, 2), (2, 2), (2, 2)]
SHARDS: dict[str, Any] = {"ranks": 2, "out": P("x")}
PAIRS: dict[str, tuple[Function, Function, Function, dict[str, Any]]] = {
    # name: the baseline, the other way, a wrong one, how they are called
    "rotations by distances": (
        lambda q, k, at, there: (rotated(q, at) * rotated(k, there)).sum(-1), scores_of_distances,
        lambda *a: scores_of_distances(*a, apart=-1), {"args": [(2, 4), (2, 4), (2,), (2,)]},
    ),
    "masks as logarithms": (
        shown_attention, lambda q, k, v, m: softmax(q @ k.T + jnp.log(m.astype(jnp.float32))) @ v,
        lambda q, k, v, m: softmax(q @ k.T * m) @ v, {"args": MASKED},
    ),
    "a block that is masked altogether": (
        shown_attention, shown_flash, lambda *a: shown_flash(*a, guarded=False), {"args": MASKED},
    ),
    "merged by logistic": (
        attention, merged_ring, lambda *a: merged_ring(*a, away=False),
        {"args": QKV, "specs": (P("x"), P("x"), P("x")), **SHARDS},
    ),
    "halves of a norm": (layer_norm, norm_of_halves, lambda x: norm_of_halves(x, weight=2.0), {"args": [(2, 4)]}),
    "decoding": (causal, decoded, lambda *a: decoded(*a, future=1), {"args": WEIGHTS}),
    "a vocabulary in chunks": (
        entropy, entropy_in_chunks, lambda *a: entropy_in_chunks(*a, chunk=1),
        {"args": [(2, 3), (3, 4), ((2,), "int32")], "relate": 'ranges: {"#2": [0, 4]}'},
    ),
    "steep gradients": (
        lambda g, s: g / jnp.sqrt(s * s + g * g), lambda g, s: jnp.sign(g) / jnp.sqrt(1 + (s / g) ** 2),
        lambda g, s: jnp.sign(g) / jnp.sqrt(1 + s / g), {"args": [(3,), (3,)]},
    ),
    "norms of shards": (
        lambda p, u: p - jnp.linalg.norm(p) / jnp.linalg.norm(u) * u, trusted, lambda *a: trusted(*a, whole=False),
        {"args": [(4,), (4,)], "specs": (P("x"), P("x")), **SHARDS},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_proved_and_its_wrong_twin_is_not(name: str, tmp_path: Path) -> None:
    base, right, wrong, call = PAIRS[name]
    assert verdicts(tmp_path, base, right, **call) == {"PROVED"}
    assert "PROVED" not in verdicts(tmp_path, base, wrong, **call)
