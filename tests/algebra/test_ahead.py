"""Programs of many layers that are written differently, on one device or over ranks: parts, on conditions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.algebra import ahead
from scalify_dl.audit.pair import Pair
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove import ahead as prove_ahead
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, analyse
from scalify_dl.report.explain import as_text, explain

from .programs import matmul, number, over, square, two, wide

LAYERS, ROWS, MODEL, HIDDEN = 6, 16, 32, 64
Norm = Callable[[Graph, Tensor], Tensor]


def mean_square(g: Graph, x: Tensor, epsilon: float = 1e-5) -> Tensor:
    mean = two(g, "divide", over(g, square(g, x), "sum", 1), g.splat(MODEL, "f32", (x.shape[0],)))
    return two(g, "add", mean, number(g, epsilon, mean))


def by_rsqrt(g: Graph, x: Tensor) -> Tensor:
    return two(g, "multiply", x, wide(g, g.emit("rsqrt", [mean_square(g, x)]), x, 0))


def by_sqrt(g: Graph, x: Tensor, epsilon: float = 1e-5) -> Tensor:
    return two(g, "divide", x, wide(g, g.emit("sqrt", [mean_square(g, x, epsilon)]), x, 0))


def by_logistic(g: Graph, x: Tensor) -> Tensor:
    return two(g, "multiply", x, g.emit("logistic", [x]))


def by_exp(g: Graph, x: Tensor) -> Tensor:
    return two(g, "divide", x, two(g, "add", number(g, 1, x), g.emit("exponential", [g.emit("negate", [x])])))


def layers(tp: int, *, wrong: int | None = None) -> Pair:
    """Norm and MLP of a residual stream; in the distributed program a layer may have another ε in its norm."""
    pair = Pair({"tp": tp})
    x, dx = pair.input((ROWS, MODEL))
    groups = pair.groups("tp")
    for layer in range(LAYERS):
        up, dist_up = pair.input((MODEL, HIDDEN), {1: "tp"})
        down, dist_down = pair.input((HIDDEN, MODEL), {0: "tp"})
        g = pair.base
        x = two(g, "add", x, matmul(g, by_logistic(g, matmul(g, by_rsqrt(g, x), up)), down))
        g = pair.dist
        part = by_exp(g, matmul(g, by_sqrt(g, dx, 1e-3 if layer == wrong else 1e-5), dist_up))
        summed = g.emit("all-reduce", [matmul(g, part, dist_down)], reducer="sum", groups=groups)
        dx = two(g, "add", dx, summed)
    pair.outputs(x, dx)
    return pair


def analysed(pair: Pair) -> Analysis:
    return analyse(Facts({name: list(rows) for name, rows in pair.tables().items()}), Options())


def verdict(analysis: Analysis) -> str:
    (found,) = {row[2] for row in analysis.rows("output_verdict")}
    return str(found)


def test_an_explanation_goes_on_below_what_formulas_show() -> None:
    found = analysed(layers(2))
    (end,) = [tensor for graph, _, tensor in found.view.facts("output") if graph == "dist"]
    lines = as_text(explain(found, end, 20)).splitlines()
    at = next(n for n, line in enumerate(lines) if line.endswith("[equal-parts]"))
    indent = len(lines[at]) - len(lines[at].lstrip())
    assert lines[at + 1].startswith(" " * indent + "    dot holds dot")


@pytest.mark.parametrize("tp", [1, 2])
def test_layers_that_are_written_differently_are_proved_and_decided_once(
    tp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = []
    original = ahead.Pair.answer
    monkeypatch.setattr(ahead.Pair, "answer", lambda pair, *a, **k: decided.append(pair) or original(pair, *a, **k))
    found = analysed(layers(tp))
    assert verdict(found) == "PROVED"
    assert len([*found.rows("equal_if")]) == 2 * LAYERS
    assert len(decided) <= 4  # a norm of an input, one of what a layer makes, and the activation


def test_what_parts_rest_on_is_listed_for_each() -> None:
    found = {(str(t), str(why)) for t, _, why in analysed(layers(2)).rows("assumption")}
    last = 2 * LAYERS  # a weight of which no part is made
    assert {t for t, why in found if why == "finite"} == {f"base/x{n}" for n in range(last)}
    assert sum(why == "nonnegative" for _, why in found) == LAYERS  # each norm takes a root


def test_one_wrong_layer_of_many_is_not_proved() -> None:
    assert verdict(analysed(layers(2, wrong=3))) != "PROVED"


Side = Callable[[Graph, Tensor, Tensor], Tensor]


def outputs_alike(base: Side, dist: Side, *operands: Norm) -> Pair:
    """One function of several values, each of which is an output."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((4, 6))
    for of in operands:
        w, dw = pair.input((6, 6))
        pair.outputs(
            base(pair.base, x, of(pair.base, matmul(pair.base, x, w))),
            dist(pair.dist, dx, of(pair.dist, matmul(pair.dist, dx, dw))),
        )
    return pair


def shares(g: Graph, _: Tensor, scores: Tensor) -> Tensor:
    weights = g.emit("exponential", [scores])
    return two(g, "divide", weights, wide(g, over(g, weights, "sum", 1), weights, 0))


def shifted_shares(g: Graph, x: Tensor, scores: Tensor) -> Tensor:
    return shares(g, x, two(g, "subtract", scores, wide(g, over(g, scores, "max", 1), scores, 0)))


def test_what_may_leave_its_range_is_asked_of_each_output_of_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponentials of tanh do not, those of scores do."""
    monkeypatch.setattr(prove_ahead, "ELEMENTS", 0)
    for operands in ((bounded, plain), (plain, bounded)):
        found = analysed(outputs_alike(shifted_shares, shares, *operands))
        last = [dist for dist, _, _ in found.facts["expect"]][operands.index(plain)]
        assert len([*found.rows("equal_if")]) == 2
        assert (last, "precision") in {(t, why) for t, _, why in found.rows("assumption")}


def bounded(g: Graph, x: Tensor) -> Tensor:
    return g.emit("tanh", [x])


def plain(g: Graph, x: Tensor) -> Tensor:
    return two(g, "multiply", x, number(g, 1, x))


def square_root_of(other: bool) -> Analysis:
    """x / √u against x · 1/√u, where u of the distributed program may be another one; a claim says that they are equal
    if x and u are."""
    pair = Pair({"tp": 1})
    (x, dx), (u, du), (_, dv) = (pair.input((4,)) for _ in range(3))
    y = two(pair.base, "multiply", x, pair.base.emit("rsqrt", [u]))
    dy = two(pair.dist, "divide", dx, pair.dist.emit("sqrt", [dv if other else du]))
    pair.outputs(y, dy)
    facts = Facts({name: list(rows) for name, rows in pair.tables().items()})
    (dist, base, _), layout = facts["expect"][0], "[0:1x4]|tp="
    claim = f"""
        equal_if(0, "{dist}", "{base}", "{layout}").
        equal_given(0, 0, "x0", "base/x0", "{layout}").
        equal_given(0, 1, "{'x2' if other else 'x1'}", "base/x1", "{layout}").
    """
    return analyse(facts, Options(), None, claim)


def test_a_claim_holds_only_where_all_of_its_unknowns_are_what_it_took_them_for() -> None:
    assert verdict(square_root_of(other=False)) == "PROVED"
    assert verdict(square_root_of(other=True)) != "PROVED"
