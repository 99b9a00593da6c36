"""Functions of JAX that are written in two ways: those that are equal are PROVED, their wrong twins are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import AbstractMesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from scalify_dl.pairing.export import export  # noqa: E402
from scalify_dl.prove.options import Options  # noqa: E402
from scalify_dl.prove.pipeline import analyse  # noqa: E402

softmax = jax.nn.softmax
Function = Callable[..., Any]


def verdicts(
    folder: Path,
    base: Function,
    dist: Function,
    args: list[Any],
    ranks: int = 1,
    specs: Any = None,
    out: Any = None,
    relate: str = "{}",
) -> set[str]:
    """The verdicts of a pair; shapes are of f32, or of the type that stands beside them."""
    typed = [a if isinstance(a[0], tuple) else (a, "float32") for a in args]
    values = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in typed]
    if specs is not None:
        mesh = AbstractMesh((ranks,), ("x",))
        dist = jax.shard_map(dist, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
    for name, function in (("base", base), ("dist", dist)):
        lowered = jax.jit(function, keep_unused=True).trace(*values).lower(lowering_platforms=("cpu",))
        (folder / f"{name}.mlir").write_text(lowered.as_text())
    (folder / "relate.yaml").write_text(relate)
    facts = export(folder / "base.mlir", [folder / "dist.mlir"], f"x={ranks}", folder / "relate.yaml")
    return {row[2] for row in analyse(facts, Options()).rows("output_verdict")}


def flash(sizes: list[int], *, rescaled: bool = True) -> Function:
    """Attention over blocks of keys with a running maximum and sum."""

    def function(q: Any, k: Any, v: Any) -> Any:
        top, total, out, lo = jnp.full(len(q), -jnp.inf), jnp.zeros(len(q)), jnp.zeros((len(q), v.shape[1])), 0
        for n in sizes:
            scores = q @ k[lo : lo + n].T / 2
            higher = jnp.maximum(top, scores.max(-1))
            weights, old = jnp.exp(scores - higher[:, None]), jnp.exp(top - higher)
            total = total * old + weights.sum(-1)
            out = (out * old[:, None] if rescaled else out) + weights @ v[lo : lo + n]
            top, lo = higher, lo + n
        return out / total[:, None]

    return function


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.T / 2) @ v


def experts(x: Any, gate: Any, w: Any) -> Any:
    """Each token goes to one expert, by a one-hot product."""
    p = softmax(x @ gate)
    return jnp.einsum("te,td,edf->tf", jax.nn.one_hot(jnp.argmax(p, -1), len(w)) * p, x, w)


def experts_sorted(x: Any, gate: Any, w: Any, *, back: bool = True) -> Any:
    """The same, tokens sorted by expert."""
    p = softmax(x @ gate)
    chosen = jnp.argmax(x @ gate, -1)
    order = jnp.argsort(chosen)
    out = jnp.einsum("td,tdf->tf", x[order], w[chosen[order]]) * p.max(-1)[order][:, None]
    return jnp.zeros_like(out).at[order if back else jnp.argsort(order)].set(out)


def experts_gathered(x: Any, gate: Any, w: Any, *, least: bool = False) -> Any:
    """The same, each token with the weights of its expert."""
    p = softmax(x @ gate)
    chosen = jnp.argmax(p, -1)
    share = jnp.take_along_axis(p, (jnp.argmin(p, -1) if least else chosen)[:, None], 1)
    return jnp.einsum("td,tdf->tf", x, w[chosen]) * share


def experts_put_back(x: Any, gate: Any, w: Any, *, twice: bool = False) -> Any:
    """The same, tokens sorted by expert and read back by a sort of their places."""
    p = softmax(x @ gate)
    chosen = jnp.argmax(p, -1)
    order = jnp.argsort(chosen)
    out = jnp.einsum("td,tdf->tf", x[order], w[chosen[order]])
    return out[order if twice else jnp.argsort(order)] * p.max(-1)[:, None]


def two_experts(x: Any, gate: Any, w: Any) -> Any:
    p, places = lax.top_k(softmax(x @ gate), 2)
    out = jnp.einsum("td,edf->tef", x, w)
    return (jnp.take_along_axis(out, places[..., None], 1) * (p / p.sum(-1, keepdims=True))[..., None]).sum(1)


def two_experts_by_logits(x: Any, gate: Any, w: Any, *, shown: int = 2) -> Any:
    logits, places = lax.top_k(x @ gate, 2)
    hot = jax.nn.one_hot(places, 3) * softmax(logits)[..., None]
    return jnp.einsum("te,td,edf->tf", hot[:, :shown].sum(1), x, w)


def one_after_the_other(x: Any, gate: Any, w: Any, *, hidden: float = -jnp.inf) -> Any:
    """Two experts of each token: the greatest, and the greatest of those that are left."""
    p, out, chosen = softmax(x @ gate), jnp.einsum("td,edf->tef", x, w), []
    left = p
    for _ in range(2):
        hot = jax.nn.one_hot(jnp.argmax(left, -1), 3)
        chosen.append((hot, left.max(-1)))
        left = jnp.where(hot > 0, hidden, left)
    shared = sum(hot * top[:, None] for hot, top in chosen) / sum(top for _, top in chosen)[:, None]
    return jnp.einsum("te,tef->tf", shared, out)


def top_over_ranks(x: Any, *, shifted: bool = True) -> Any:
    """The greatest of each row, and where it is, through those of each rank."""
    place = jnp.argmax(x, -1) + lax.axis_index("x") * (x.shape[1] if shifted else 0)
    tops, places = lax.all_gather(x.max(-1), "x", axis=1), lax.all_gather(place, "x", axis=1)
    return jnp.take_along_axis(places, jnp.argmax(tops, -1)[:, None], 1)[:, 0]


def entropy(x: Any, y: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()


def vocabulary_gradient(x: Any, y: Any, *, whole: bool = False) -> Any:
    """The gradient of cross entropy, the vocabulary over ranks."""
    top = lax.pmax(x.max(-1), "x")
    weights = jnp.exp(x - top[:, None])
    p = weights / lax.psum(weights.sum(-1), "x")[:, None]
    mine = y - lax.axis_index("x") * x.shape[1]
    held = (mine >= 0) & (mine < x.shape[1])
    return p.at[jnp.arange(len(y)), jnp.where(held, mine, 0)].add(-1.0 if whole else -1.0 * held) / len(y)


def cumulative_over_ranks(x: Any, *, mine: bool = False) -> Any:
    here = jnp.cumsum(x, 1)
    sums, rank = lax.all_gather(here[:, -1], "x"), lax.axis_index("x")
    before = jnp.arange(len(sums)) <= rank if mine else jnp.arange(len(sums)) < rank
    return here + jnp.where(before[:, None], sums, 0).sum(0)[:, None]


def scores_of_pairs(q: Any, k: Any, *, conjugate: bool = True) -> Any:
    """q · k with the halves of a row as the parts of complex numbers."""
    q, k = (lax.complex(*jnp.split(x, 2, -1)) for x in (q, k))
    return jnp.real(q @ (jnp.conj(k) if conjugate else k).T)


def complex_rows(a: Any, b: Any, *, by: int = 1) -> Any:
    """Rows of complex numbers that are read at other places, chosen and added."""
    z = jnp.roll(lax.complex(a, b), by, 0)[jnp.array([0, 1, 2])]
    z = lax.dynamic_update_slice(z, jnp.where(jnp.arange(2) < 2, z[:1], 0), (0, 0)).sum(1)
    return jnp.real(z) - jnp.imag(lax.complex(a[0], b[0]))[0]


def best(x: Any) -> Any:
    return jnp.take_along_axis(x, jnp.argmax(x, -1)[:, None], 1)[:, 0]


SHOWN = jnp.tril(jnp.ones((3, 3), bool))
X, XY = [(2, 3)], [(2, 3), (2, 3)]
QKV = [(2, 4), (6, 4), (6, 3)]
EXPERTS = [(3, 2), (2, 2), (2, 2, 2)]
LABELS: dict[str, Any] = {"args": [(3, 4), ((3,), "int32")], "relate": 'ranges: {"#1": [0, 4]}'}
MORE = [(6, 2), (2, 3), (3, 2, 2)]
SPREAD: dict[str, Any] = {"ranks": 2, "specs": P(None, "x")}
PAIRS: dict[str, tuple[Function, Function, Function, dict[str, Any]]] = {
    # name: the baseline, the other way, a wrong one, how they are called
    "flash": (attention, flash([1, 3, 2]), flash([1, 3, 2], rescaled=False), {"args": QKV}),
    "sorted experts": (
        experts, experts_sorted, lambda *a: experts_sorted(*a, back=False), {"args": EXPERTS},
    ),
    "more tokens, sorted by expert": (
        experts, experts_sorted, lambda *a: experts_sorted(*a, back=False), {"args": MORE},
    ),
    "tokens sorted by expert and put back": (
        experts, experts_put_back, lambda *a: experts_put_back(*a, twice=True), {"args": MORE},
    ),
    "experts by gathered weights": (
        experts, experts_gathered, lambda *a: experts_gathered(*a, least=True),
        {"args": [(6, 2), (2, 4), (4, 2, 3)]},
    ),
    "two experts, one after the other": (
        two_experts, one_after_the_other, lambda *a: one_after_the_other(*a, hidden=0.5),
        {"args": [(2, 2), (2, 3), (3, 2, 2)]},
    ),
    "two experts": (
        two_experts, two_experts_by_logits, lambda *a: two_experts_by_logits(*a, shown=1),
        {"args": [(2, 2), (2, 3), (3, 2, 2)]},
    ),
    "greatest over ranks": (
        lambda x: jnp.argmax(x, -1), top_over_ranks, lambda x: top_over_ranks(x, shifted=False),
        {"args": [(2, 4)], "out": P(), **SPREAD},
    ),
    "vocabulary": (
        jax.grad(entropy), vocabulary_gradient, lambda x, y: vocabulary_gradient(x, y, whole=True),
        {**LABELS, "ranks": 2, "specs": (P(None, "x"), P()), "out": P(None, "x")},
    ),
    "cumulative sums": (
        lambda x: jnp.cumsum(x, 1), cumulative_over_ranks, lambda x: cumulative_over_ranks(x, mine=True),
        {"args": [(2, 4)], "out": P(None, "x"), **SPREAD},
    ),
    "median": (
        lambda x: jnp.sort(x, -1)[:, 1],
        lambda x: jnp.maximum(
            jnp.minimum(x[:, 0], x[:, 1]), jnp.minimum(jnp.maximum(x[:, 0], x[:, 1]), x[:, 2])
        ),
        lambda x: jnp.minimum(x[:, 0], jnp.maximum(x[:, 1], x[:, 2])),
        {"args": X},
    ),
    "a ratio that is clipped": (
        lambda x, y: jnp.minimum(jnp.exp(x) * y, jnp.clip(jnp.exp(x), 0.8, 1.2) * y),
        lambda x, y: jnp.where(y >= 0, jnp.minimum(jnp.exp(x), 1.2) * y, jnp.maximum(jnp.exp(x), 0.8) * y),
        lambda x, y: jnp.where(y >= 0, jnp.minimum(jnp.exp(x), 1.2) * y, jnp.maximum(jnp.exp(x), 0.7) * y),
        {"args": XY},
    ),
    "the greatest of eight by a sort": (
        lambda x: lax.top_k(x, 3)[0], lambda x: -jnp.sort(-x, -1)[:, :3], lambda x: -jnp.sort(-x, -1)[:, 1:4],
        {"args": [(2, 8)]},
    ),
    "where the greatest is": (
        lambda x: x.max(-1), best, lambda x: jnp.take_along_axis(x, jnp.argmax(-x, -1)[:, None], 1)[:, 0], {"args": X},
    ),
    "argmax of softmax": (
        lambda x: jnp.argmax(x, -1), lambda x: jnp.argmin(-softmax(x), -1), lambda x: jnp.argmax(x * x, -1),
        {"args": X},
    ),
    "argmax at ties": (
        lambda x: jnp.argmax(jnp.maximum(x, 0), -1), lambda x: lax.top_k(jnp.maximum(x, 0), 1)[1][:, 0],
        lambda x: 2 - jnp.argmax(jnp.maximum(x, 0)[:, ::-1], -1), {"args": X},
    ),
    "sum in order": (
        lambda x: x.sum(-1), lambda x: jnp.sort(x, -1).sum(-1), lambda x: jnp.sort(x, -1)[:, 1:].sum(-1), {"args": X},
    ),
    "pooling": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 1), "VALID"),
        lambda x: jnp.maximum(x[:, 1:], x[:, :-1]), lambda x: jnp.maximum(x[:, :-1], jnp.roll(x, -2, 1)[:, :-1]),
        {"args": [(2, 4)]},
    ),
    "clamp": (
        lambda x: jnp.clip(x, -1, 1), lambda x: jnp.where(x > 1, 1.0, jnp.where(x < -1, -1.0, x)),
        lambda x: jnp.where(x > 1, 1.0, jnp.where(x < -1, 1.0, x)), {"args": X},
    ),
    "elu": (
        jax.nn.elu, lambda x: jnp.maximum(x, 0) + jnp.minimum(jnp.exp(x) - 1, 0),
        lambda x: jnp.maximum(x, 0) + jnp.minimum(jnp.exp(x) - 2, 0), {"args": X},
    ),
    "tanh": (
        jnp.tanh, lambda x: jnp.sign(x) * (1 - jnp.exp(-2 * abs(x))) / (1 + jnp.exp(-2 * abs(x))),
        lambda x: (1 - jnp.exp(-2 * abs(x))) / (1 + jnp.exp(-2 * abs(x))), {"args": X},
    ),
    "binary cross entropy": (
        lambda x, t: -(t * jnp.log(jax.nn.sigmoid(x)) + (1 - t) * jnp.log(1 - jax.nn.sigmoid(x))).mean(),
        lambda x, t: (jnp.maximum(x, 0) - x * t + jnp.log1p(jnp.exp(-abs(x)))).mean(),
        lambda x, t: (jnp.maximum(x, 0) + x * t + jnp.log1p(jnp.exp(-abs(x)))).mean(), {"args": XY},
    ),
    "any": (
        lambda x: jnp.any(x > 0, -1), lambda x: (x > 0).astype(jnp.float32).sum(-1) > 0,
        lambda x: x.max(-1) >= 0, {"args": X},
    ),
    "masks that are large numbers": (
        lambda x: softmax(jnp.where(SHOWN, x, -jnp.inf)), lambda x: softmax(jnp.where(SHOWN, x, -1e30)),
        lambda x: softmax(jnp.where(SHOWN, x, -1.0)), {"args": [(3, 3)]},
    ),
    "a row that is masked altogether": (
        lambda x: jnp.ones((2, 3)) / 3, lambda x: softmax(jnp.where(jnp.zeros((2, 3), bool), x, -1e30)),
        lambda x: softmax(x + -1e30), {"args": X},
    ),
    "rotation by complex numbers": (
        lambda a, b, t: a * jnp.cos(t) - b * jnp.sin(t),
        lambda a, b, t: jnp.real(lax.complex(a, b) * jnp.exp(1j * t)),
        lambda a, b, t: jnp.real(lax.complex(a, b) * jnp.exp(-1j * t)), {"args": [(3,), (3,), (3,)]},
    ),
    "scores of complex numbers": (
        lambda q, k: q @ k.T, scores_of_pairs, lambda q, k: scores_of_pairs(q, k, conjugate=False),
        {"args": [(3, 4), (2, 4)]},
    ),
    "complex rows": (
        lambda a, b: jnp.roll(a, 1, 0).sum(1) - b[0, 0],
        complex_rows, lambda a, b: complex_rows(a, b, by=-1), {"args": [(3, 2), (3, 2)]},
    ),
    "powers of two": (
        softmax, lambda x: softmax(jnp.log2(jnp.exp2(x * 1.4426950408889634)) * 0.6931471805599453),
        lambda x: softmax(jnp.log2(jnp.exp2(x * 1.4426))), {"args": X},
    ),
    "root of a square": (abs, lambda x: jnp.sqrt(x * x), lambda x: x, {"args": X}),
    "a floor below a root": (
        lambda x: x / jnp.maximum(jnp.sqrt((x * x).sum(-1, keepdims=True)), 1e-2),
        lambda x: x * lax.rsqrt(jnp.maximum((x * x).sum(-1, keepdims=True), 1e-4)),
        lambda x: x * lax.rsqrt(jnp.maximum((x * x).sum(-1, keepdims=True), 1e-2)), {"args": X},
    ),
    "fractions in fractions": (
        lambda x: jnp.log(jax.nn.sigmoid(x) / (1 - jax.nn.sigmoid(x))), lambda x: x,
        lambda x: -jnp.log(jax.nn.sigmoid(x)), {"args": X},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_proved_and_its_wrong_twin_is_not(name: str, tmp_path: Path) -> None:
    base, right, wrong, call = PAIRS[name]
    assert verdicts(tmp_path, base, right, **call) == {"PROVED"}
    assert "PROVED" not in verdicts(tmp_path, base, wrong, **call)
