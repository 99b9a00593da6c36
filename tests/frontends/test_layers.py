"""What people build models of: each computes what it says, and distributed forms compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalify_dl.adjoint.run import ONE, executed
from scalify_dl.ir.programs import Program
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing import layers
from scalify_dl.pairing.builder import Distributed, Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

Array = np.ndarray[Any, Any]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gate(x: Array) -> Array:
    w = softmax(x)
    return np.where(w >= np.sort(w, 1)[:, -2:-1], w, 0)


def normed(x: Array, w: Array, b: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b


def seen(q: Array, k: Array, v: Array) -> Array:
    scores = np.where(np.tri(4, 6, dtype=bool), q @ k.swapaxes(1, 2) / np.sqrt(3), -np.inf)
    return softmax(scores) @ v


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Array], list[tuple[int, ...]]]] = {
    "silu": (layers.silu, lambda x: x / (1 + np.exp(-x)), [(3, 4)]),
    "rms_norm": (
        layers.rms_norm, lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w, [(3, 4), (4,)]
    ),
    "layer_norm": (layers.layer_norm, normed, [(3, 4), (4,), (4,)]),
    "attention": (lambda p, *x: layers.attention(p, *x, causal=True), seen, [(2, 4, 3), (2, 6, 3), (2, 6, 3)]),
    "gate": (lambda p, x: layers.top_k_gate(p, x, 2), gate, [(5, 4)]),
    "amax": (layers.amax, lambda x: np.abs(x).max(), [(3, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_it_says(name: str) -> None:
    build, wanted, shapes = CASES[name]
    p = Program("f", ONE)
    p.output(build(p, *(p.input(f"x{n}", shape) for n, shape in enumerate(shapes))))
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape) for shape in shapes]
    np.testing.assert_allclose(executed(p.graph, values)[0], wanted(*values), rtol=1e-6)


def test_a_loss_is_the_mean_of_the_logarithms() -> None:
    p = Program("f", ONE)
    p.output(layers.cross_entropy(p, p.input("x", (5, 4)), p.input("y", (5,), "s32", range=(0, 4))))
    x, y = np.random.default_rng(0).normal(size=(5, 4)), np.array([0, 3, 1, 1, 2], np.int32)
    assert executed(p.graph, [x, y])[0] == pytest.approx(-np.log(softmax(x))[range(5), y].mean())


def test_what_is_rounded_to_few_bits_comes_back_near() -> None:
    p = Program("f", ONE)
    x = p.input("x", (16,))
    q, scale = layers.quantise(p, x, layers.amax(p, x))
    p.output(layers.dequantise(p, q, scale))
    assert q.dtype == "f8e4m3fn"
    value = np.random.default_rng(0).normal(size=16)
    np.testing.assert_allclose(executed(p.graph, [value])[0], value, rtol=0.07)


def verdicts(pair: Pair) -> tuple[set[str], str]:
    facts = pair.facts()
    found = {str(row[2]) for row in analyse(facts, Options()).rows("output_verdict")}
    return found, find_counterexample(load_program(facts.tables), localise=False).status


def test_keys_that_go_round_are_attention_over_all() -> None:
    pair = Pair("cp=2")
    b, d = pair.base, pair.dist
    b.output(layers.attention(b, *(b.input(name, (2, 8, 4)) for name in "qkv")))
    d.output(layers.ring_attention(d, *(d.shard(name, {1: "cp"}) for name in "qkv"), "cp"))
    pair.expect(0, {1: "cp"})
    assert verdicts(pair)[1] == "agrees"


@pytest.mark.parametrize("right", [True, False])
def test_experts_on_several_ranks_are_those_of_one(right: bool) -> None:
    pair = Pair("ep=2")
    b, d = pair.base, pair.dist
    x, scores, w = b.input("x", (8, 16)), b.input("scores", (8, 4)), b.input("w", (4, 16, 16))
    chosen = layers.top_k_gate(b, scores, 2)
    wide = b.broadcast(x, (4, 8, 16), [1, 2])
    weights = b.broadcast(b.transpose(chosen, 1, 0), (4, 8, 16), [0, 1])
    b.output(b.reduce(b.multiply(layers.expert(b, wide, w), weights), 0))
    x, scores, w = d.shard("x", {0: "ep"}), d.shard("scores", {0: "ep"}), d.shard("w", {0: "ep"})
    chosen = layers.top_k_gate(d, scores, 2)
    y = layers.expert(d, layers.moe_dispatch(d, x, chosen, "ep"), w)
    d.output(layers.moe_combine(d, y, chosen if right else layers.top_k_gate(d, scores, 1), "ep"))
    pair.expect(0, {0: "ep"})
    assert verdicts(pair)[1] == ("agrees" if right else "refuted")


def test_a_step_on_blocks_of_a_parameter_is_the_step() -> None:
    pair = Pair("dp=2")
    b, d = pair.base, pair.dist
    x, g, w = b.input("x", (8, 16)), b.input("g", (8, 4)), b.input("w", (16, 4))
    b.output(b.subtract(w, b.divide(b.dot(x, g, ([0], [0])), 2.0)))
    x, g, w = d.shard("x", {0: "dp"}), d.shard("g", {0: "dp"}), d.shard("w", {0: "dp"})
    mine = layers.zero_scatter(d, d.dot(x, g, ([0], [0])), "dp")
    d.output(layers.zero_gather(d, d.subtract(w, mine), "dp"))
    assert verdicts(pair) == ({"PROVED"}, "agrees")


def test_what_one_rank_keeps_is_the_sum_of_all() -> None:
    pair = Pair("dp=2,tp=2")
    b, d = pair.base, pair.dist
    b.output(b.input("x", (4, 4)))
    d.output(d.all_reduce(layers.only_on(d, d.shard("x"), "tp", 1), "tp"))
    assert verdicts(pair) == ({"PROVED"}, "agrees")


def test_a_scaled_loss_gives_the_gradients_of_the_loss() -> None:
    p = Program("f", ONE)
    loss, g = p.input("loss", ()), p.input("g", (3,))
    scaled, (back,) = layers.loss_scale(p, loss, [p.multiply(g, 1024.0)], 1024.0)
    p.output(scaled, back)
    found = executed(p.graph, [np.array(2.0), np.arange(3.0)])
    assert found[0] == 2048
    np.testing.assert_array_equal(found[1], np.arange(3.0))


def rooted(build: Callable[[Distributed, Any], Any], base: Callable[[Program, Any], Any]) -> tuple[set[str], str]:
    """Verdicts of a program on one device and of one on two ranks, of whole inputs."""
    pair = Pair("tp=2")
    pair.base.output(base(pair.base, pair.base.input("x", (4, 6))))
    pair.dist.output(build(pair.dist, pair.dist.shard("x")))
    return verdicts(pair)


@pytest.mark.parametrize("root", [0, 1])
def test_what_one_rank_has_is_had_by_all(root: int) -> None:
    def whole(p: Distributed, x: Any) -> Any:
        return p.tanh(layers.broadcast_from(p, x, "tp", root))

    assert rooted(whole, lambda p, x: p.tanh(x)) == ({"PROVED"}, "agrees")


@pytest.mark.parametrize("root", [0, 1])
def test_blocks_that_one_rank_deals_out_are_put_together(root: int) -> None:
    def dealt(p: Distributed, x: Any) -> Any:
        return p.all_gather(p.tanh(layers.scatter_from(p, x, "tp", root)), "tp", 0)

    assert rooted(dealt, lambda p, x: p.tanh(x)) == ({"PROVED"}, "agrees")


@pytest.mark.parametrize("root", [0, 1])
def test_what_one_rank_collects_is_nothing_on_the_others(root: int) -> None:
    def collected(p: Distributed, x: Any) -> Any:
        mine = p.tanh(layers.zero_partition(p, x, "tp"))
        return p.all_reduce(layers.gather_to(p, mine, "tp", root), "tp")

    assert rooted(collected, lambda p, x: p.tanh(x))[1] == "agrees"
    assert rooted(lambda p, x: layers.gather_to(p, layers.zero_partition(p, x, "tp"), "tp", root),
                  lambda p, x: x)[1] == "refuted"  # fmt: skip


def test_a_reduction_to_one_rank_is_no_reduction_for_all() -> None:
    def reduced(p: Distributed, x: Any) -> Any:
        return layers.reduce_to(p, p.divide(x, 2.0), "tp")

    assert rooted(lambda p, x: p.all_reduce(reduced(p, x), "tp"), lambda p, x: x)[1] == "agrees"
    assert rooted(reduced, lambda p, x: x)[1] == "refuted"


def test_a_collective_that_goes_on_meanwhile_has_its_value_when_it_was_waited_for() -> None:
    def overlapped(p: Distributed, x: Any) -> Any:
        gathered = layers.start(p, lambda: p.all_gather(layers.zero_partition(p, x, "tp"), "tp", 0))
        meanwhile = p.exponential(x)
        assert p.graph.asynchronous
        return p.add(layers.wait(gathered), meanwhile)

    assert rooted(overlapped, lambda p, x: p.add(x, p.exponential(x))) == ({"PROVED"}, "agrees")


def test_what_is_sent_on_comes_from_the_place_before() -> None:
    p = Distributed("f", Pair("tp=3"), None)
    layers.send_on(p, p.input("x", (2,)), "tp")
    assert p.graph.ops[-1].pairs == [(0, 1), (1, 2)]


def test_the_largest_of_the_last_steps_scales_the_next() -> None:
    p = Program("f", ONE)
    history, scale = layers.amax_update(p, p.input("h", (3,)), p.input("x", (2, 2)))
    p.output(history, scale)
    rolled, largest = executed(p.graph, [np.array([1.0, 5.0, 9.0]), np.array([[1.0, -7.0], [2.0, 0.5]])])
    assert rolled.tolist() == [7.0, 1.0, 5.0]
    assert largest == 7.0
