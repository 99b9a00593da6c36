"""Programs of shard_map, captured at two sizes: proved for all sizes; bugs found, also those of four ranks and more."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import capture, capture_family
from scalify_dl.families.captures import load_family
from scalify_dl.families.family import Family
from scalify_dl.families.members import family_domain, ranks, some_sizes
from scalify_dl.families.verify import FamilyReport, verify_family
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.export import export
from scalify_dl.prove.verdict import Verdict

Sizes = dict[str, int]
SIZES, RANKS = int(os.environ.get("DLVERIFY_SIZES", "5")), 8
"""At how many sizes what is proved is captured again, and with how many ranks at most."""
FOUND = 20
"""Of the first capture: what a program must not take for a number."""


class Pair(NamedTuple):
    """Baseline, what every rank does, placements, abstract arguments."""

    base: Callable[..., Any]
    dist: Callable[..., Any]
    inputs: Any
    outputs: Any
    args: list[jax.ShapeDtypeStruct]


def real(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def cross_entropy(sizes: Sizes, bug: str) -> Pair:
    """The vocabulary over tp: maximum, sum of exponentials and the target's logit are reduced."""

    def base(h, w, target):
        logits = h @ w
        top = logits.max(-1)
        total = jnp.log(jnp.exp(logits - top[..., None]).sum(-1)) + top
        return (total - jnp.take_along_axis(logits, target[..., None], -1)[..., 0]).mean()

    def dist(h, w, target):
        logits, rows = h @ w, w.shape[1]
        top = lax.pmax(logits.max(-1), "tp")
        total = jnp.log(lax.psum(jnp.exp(logits - top[..., None]).sum(-1), "tp")) + top
        near = target - lax.axis_index("tp") * (FOUND if bug == "frozen offset" else rows)
        mine = (near >= 0) & (near < rows)
        logit = jnp.take_along_axis(logits, jnp.clip(near, 0, rows - 1)[..., None], -1)[..., 0]
        logit = jnp.where(mine, logit, 0.0)
        return (total - (logit if bug == "logit not summed" else lax.psum(logit, "tp"))).mean()

    batch, seq, vocab = sizes["batch"], sizes["seq"], sizes["vocab"]
    target = jax.ShapeDtypeStruct((batch, seq), jnp.int32)
    return Pair(base, dist, (P(), P(None, "tp"), P()), P(), [real(batch, seq, 16), real(16, vocab), target])


def sequence_parallel(sizes: Sizes, bug: str) -> Pair:
    """The sequence over tp between the layers: gathered before the MLP, scattered after it."""

    def base(x, w1, w2):
        return jax.nn.gelu(x @ w1) @ w2 + x

    def dist(x, w1, w2):
        pairs = [[i, i + 1] for i in range(0, sizes["tp"], 2)] if bug == "pairs" else None
        y = jax.nn.gelu(lax.all_gather(x, "tp", axis=1, tiled=True) @ w1) @ w2
        if pairs:  # as large as the right one, of the sums over neighbours
            y = lax.psum(y, "tp", axis_index_groups=pairs)
            place = lax.axis_index("tp") * x.shape[1]
            return lax.dynamic_slice_in_dim(y, place, x.shape[1], 1) + x
        return lax.psum_scatter(y, "tp", scatter_dimension=1, tiled=True) + x

    def squared(program):
        return jax.grad(lambda w1, x, w2: (program(x, w1, w2) ** 2).sum())

    batch, seq, inner = sizes["batch"], sizes["seq"], sizes["inner"]
    args, specs = [real(batch, seq, 16), real(16, inner), real(inner, 16)], (P(None, "tp"), P(None, "tp"), P("tp"))
    if bug == "the gradient":
        return Pair(squared(base), squared(dist), (specs[1], specs[0], specs[2]), specs[1], [args[1], args[0], args[2]])
    return Pair(base, dist, specs, P(None, "tp"), args)


def data_parallel_step(sizes: Sizes, bug: str) -> Pair:
    """A step of gradient descent, the batch over tp."""

    def loss(w, x, y):
        return ((jax.nn.relu(x @ w) - y) ** 2).mean()

    def base(w, x, y):
        return w - 0.1 * jax.grad(loss)(w, x, y)

    def dist(w, x, y):
        gradient = jax.grad(loss)(w, x, y)
        return w - 0.1 * (lax.psum(gradient, "tp") / 2 if bug == "half of the sum" else lax.pmean(gradient, "tp"))

    batch = sizes["batch"]
    return Pair(base, dist, (P(), P("tp"), P("tp")), P(), [real(16, 16), real(batch, 16), real(batch, 16)])


def layer_norm(sizes: Sizes, bug: str) -> Pair:
    """Features over tp."""

    def normed(x, gain, total):
        size = sizes["hidden"] if bug != "frozen width" else 40
        mean = total(x.sum(-1, keepdims=True)) / size
        return (x - mean) * lax.rsqrt(total(((x - mean) ** 2).sum(-1, keepdims=True)) / size + 1e-5) * gain

    def base(x, gain):
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain

    def dist(x, gain):
        return normed(x, gain, lambda t: lax.psum(t, "tp"))

    batch, hidden = sizes["batch"], sizes["hidden"]
    return Pair(base, dist, (P(None, "tp"), P("tp")), P(None, "tp"), [real(batch, hidden), real(hidden)])


def context_parallel(sizes: Sizes, bug: str) -> Pair:
    """Causal attention of a block of queries over all keys."""

    def attend(q, k, v, first):
        scores = jnp.einsum("bsd,btd->bst", q, k)
        seen = first + jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])[None, :]
        return jnp.einsum("bst,btd->bsd", jax.nn.softmax(jnp.where(seen, scores, -1e30), -1), v)

    def base(q, k, v):
        return attend(q, k, v, 0)

    def dist(q, k, v):
        k, v = (lax.all_gather(t, "tp", axis=1, tiled=True) for t in (k, v))
        return attend(q, k, v, lax.axis_index("tp") * (FOUND // 2 if bug == "frozen block" else q.shape[1]))

    return Pair(base, dist, (P(None, "tp"),) * 3, P(None, "tp"), [real(sizes["batch"], sizes["seq"], 8)] * 3)


def sequence_to_heads(sizes: Sizes, bug: str) -> Pair:
    """Attention by heads between two all-to-alls; the sequence is over tp outside."""

    def attend(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k), -1)
        return jnp.einsum("bhst,bthd->bshd", weights, v)

    def dist(q, k, v):
        q, k, v = (lax.all_to_all(t, "tp", 2, 1, tiled=True) for t in (q, k, v))
        out = attend(k, q, v) if bug == "keys as queries" else attend(q, k, v)
        return lax.all_to_all(out, "tp", 1, 2, tiled=True)

    shape = real(sizes["batch"], sizes["seq"], sizes["heads"], 8)
    return Pair(attend, dist, (P(None, "tp"),) * 3, P(None, "tp"), [shape] * 3)


TOKENS = {"batch": "0:0", "seq": "0:1"}
FAMILIES: dict[Callable[[Sizes, str], Pair], tuple[tuple[Sizes, Sizes], dict[str, str]]] = {
    cross_entropy: (
        ({"tp": 2, "batch": 2, "seq": 5, "vocab": 40}, {"tp": 4, "batch": 6, "seq": 25, "vocab": 280}),
        TOKENS | {"vocab": "1:1"},
    ),
    sequence_parallel: (
        ({"tp": 2, "batch": 2, "seq": 20, "inner": 56}, {"tp": 4, "batch": 6, "seq": 200, "inner": 616}),
        TOKENS,
    ),
    data_parallel_step: (({"tp": 2, "batch": 6}, {"tp": 4, "batch": 60}), {"batch": "1:0"}),
    layer_norm: (
        ({"tp": 2, "batch": 3, "hidden": 40}, {"tp": 4, "batch": 15, "hidden": 280}),
        {"batch": "0:0", "hidden": "0:1"},
    ),
    context_parallel: (({"tp": 2, "batch": 2, "seq": 20}, {"tp": 4, "batch": 6, "seq": 200}), TOKENS),
    sequence_to_heads: (
        ({"tp": 2, "batch": 3, "seq": 20, "heads": 14}, {"tp": 4, "batch": 21, "seq": 200, "heads": 308}),
        TOKENS | {"heads": "0:2"},
    ),
}
RIGHT = [*((family, "") for family in FAMILIES), (sequence_parallel, "the gradient")]
WRONG = [
    (cross_entropy, "frozen offset"),
    (cross_entropy, "logit not summed"),
    (sequence_parallel, "pairs"),
    (data_parallel_step, "half of the sum"),
    (layer_norm, "frozen width"),
    (context_parallel, "frozen block"),
    (sequence_to_heads, "keys as queries"),
]


def verdict(
    family: Callable[[Sizes, str], Pair], bug: str, folder: Path
) -> tuple[FamilyReport, Family | None, Callable[[Sizes], tuple[Any, ...]]]:
    """The report, the family (none where a capture itself is refuted), and the program at given sizes."""
    points, places = FAMILIES[family]
    if family is sequence_parallel:
        position = 0 if bug == "the gradient" else 1
        places = {"batch": f"{1 - position}:0", "seq": f"{1 - position}:1", "inner": f"{position}:1"}

    def at(sizes: Sizes) -> tuple[Any, ...]:
        pair, mesh = family(dict(sizes), bug), AbstractMesh((sizes["tp"],), ("tp",))
        shards = {"mesh": mesh, "in_specs": pair.inputs, "out_specs": pair.outputs, "check_vma": False}
        return pair.base, jax.shard_map(pair.dist, **shards), pair.args, mesh

    file = load_family(capture_family(at, points, {"tp": None, **places}, folder))
    found: list[Family] = []
    report = verify_family([capture.load() for capture in file.captures], file.symbols, keep=found.append)
    return report, found[-1] if found else None, at


@pytest.mark.parametrize(("family", "bug"), RIGHT, ids=lambda value: getattr(value, "__name__", value))
def test_a_right_program_is_proved_for_all_sizes(family, bug, tmp_path):
    """And is right where it is captured at other sizes of the domain, boundaries first."""
    report, found, at = verdict(family, bug, tmp_path / "family")
    assert report.verdict is Verdict.PROVED
    domain = family_domain(found)
    # on one rank JAX writes no shard_map
    points = some_sizes(domain, SIZES, random.Random(1), lambda point: 1 < ranks(found, point) <= RANKS)
    assert points
    for point in points:
        made = capture(*at(point), directory=tmp_path, name="member")
        facts = export(made.base, [made.dist], str(made.mesh))
        assert find_counterexample(load_program(facts.tables)).status == "agrees", point


@pytest.mark.parametrize(("family", "bug"), WRONG, ids=lambda value: getattr(value, "__name__", value))
def test_a_bug_is_refuted_at_some_size(family, bug, tmp_path):
    assert verdict(family, bug, tmp_path)[0].verdict is Verdict.REFUTED
