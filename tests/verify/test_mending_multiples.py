"""Bugs beside multiples that are meant: means of a rank's own rows, an average that comes later, a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scalify_dl.audit.pair import matmul, spread
from scalify_dl.facts import Facts

from .test_mending_lines import Lined
from .test_mending_steps import first_cause
from .test_mending_where import divided, summed


def a_gradient_in_parts_beside_the_multiple_of_a_local_mean() -> Facts:
    """Ranks of dp take means of their own rows, and average gradients later; over tp one of two is not summed."""
    pair = Lined({"dp": 2, "tp": 2})
    (x, dx), (a, da), (b, db) = (
        pair.input((4, 6), {0: "dp"}), pair.input((4, 8), {0: "dp", 1: "tp"}), pair.input((8, 6), {0: "tp"}),
    )  # fmt: skip
    base, dist = pair.base, pair.dist
    whole, part = divided(base, x, 4), divided(dist, dx, 2)
    pair.at(2)
    dots = divided(base, matmul(base, a, b), 4), divided(dist, matmul(dist, da, db), 2)
    pair.at(3)
    made = base.emit("add", [whole, dots[0]]), dist.emit("add", [part, dots[1]])
    pair.at(4)
    sums = summed(base, base.emit("multiply", [made[0], x])), summed(dist, dist.emit("multiply", [made[1], dx]))
    pair.at(5)
    pair.outputs(sums[0], divided(dist, pair.all_reduced(sums[1]), 2))
    pair.at(6)
    return pair.facts()


def norms_averaged_under_a_bound() -> Facts:
    """Where the bound holds, gradients come out as they were, which the baseline has, too."""
    pair = Lined({"dp": 4})
    g, dg = pair.input((8, 4), {0: "dp"})
    base, dist = pair.base, pair.dist
    made = []
    for graph, t in ((base, g), (dist, dg)):
        squares = graph.emit("reduce", [graph.emit("multiply", [t, t])], dimensions=[0, 1], reducer="sum")
        pair.at(3)
        if graph is dist:
            squares = divided(dist, pair.all_reduced(squares), 4)
        pair.at(5)
        one, bound = graph.constant(1.0, "f32"), graph.constant(4.0, "f32")
        share = graph.emit("divide", [bound, graph.emit("sqrt", [squares])])
        share = graph.emit("minimum", [one, share])
        made.append(graph.emit("multiply", [t, spread(graph, share, t.shape, ())]))
        pair.at(7)
    pair.outputs(*made, layout=str(pair.layout((8, 4), {0: "dp"})))
    return pair.facts()


def a_sum_under_a_rate_that_halves() -> Facts:
    """The rate is 1/2: with gradients that are twice too large the step is the gradient, which the baseline has."""
    pair = Lined({"dp": 2})
    (x, dx), (w, dw) = pair.input((4, 5), {0: "dp"}), pair.input((5,))
    base, dist = pair.base, pair.dist
    whole, part = divided(base, summed(base, x), 4), divided(dist, summed(dist, dx), 2)
    pair.at(3)
    part = pair.all_reduced(part)
    pair.at(5)
    steps = divided(base, whole, 2), divided(dist, part, 2)
    pair.at(8)
    pair.outputs(base.emit("subtract", [w, steps[0]]), dist.emit("subtract", [dw, steps[1]]))
    pair.at(9)
    return pair.facts()


def a_product_with_one_that_the_baseline_has_too() -> Facts:
    """What a backward multiplies by 1 is no place of a bug: nobody wrote it."""
    pair = Lined({"dp": 2})
    x, dx = pair.input((4, 6), {0: "dp"})
    base, dist = pair.base, pair.dist
    made = [
        g.emit("multiply", [t, spread(g, g.constant(1.0, "f32"), t.shape, ())]) for g, t in ((base, x), (dist, dx))
    ]
    made = [divided(base, made[0], 4), divided(dist, made[1], 2)]
    pair.lines = {"base": [1] * len(base.ops), "dist": [3] * len(dist.ops)}
    part = dist.emit("reduce-scatter", [summed(dist, made[1])], reducer="sum", groups=pair.groups("dp"), dimension=0)
    whole = summed(base, made[0])
    pair.at(6)
    pair.outputs(whole, part, layout=str(pair.layout((6,), {0: "dp"})))
    return pair.facts()


def labels_in_the_other_order() -> Facts:
    """Rows of y are reversed on every rank, rows of x are not."""
    pair = Lined({"dp": 2})
    (x, dx), (y, dy) = pair.input((8, 5), {0: "dp"}), pair.input((8, 5), {0: "dp"})
    base, dist = pair.base, pair.dist
    dy = dist.emit("reverse", [dy], dimensions=[0])
    pair.at(4)
    made: list[Any] = [summed(g, g.emit("multiply", ts)) for g, ts in ((base, [x, y]), (dist, [dx, dy]))]
    pair.at(6)
    pair.outputs(made[0], pair.all_reduced(made[1]))
    pair.at(8)
    return pair.facts()


FAULTS: dict[Callable[[], Facts], tuple[str, int, str, str]] = {
    a_gradient_in_parts_beside_the_multiple_of_a_local_mean: ("dot", 3, "is never summed", "all-reduce(sum) over tp"),
    norms_averaged_under_a_bound: ("divide", 5, "a factor 2 enters here", "reduce with sum, not with its mean"),
    a_sum_under_a_rate_that_halves: ("all-reduce", 5, "a factor 2 enters here", "by 1/2"),
    a_product_with_one_that_the_baseline_has_too: ("reduce-scatter", 6, "a factor 2 enters here", "by 1/2"),
    labels_in_the_other_order: ("reverse", 4, "the baseline does nothing of the kind", "leave out this reverse"),
}


@pytest.mark.parametrize("wrong", FAULTS)
def test_the_line_of_the_bug_leads(wrong: Callable[[], Facts]) -> None:
    kind, line, sentence, advice = FAULTS[wrong]
    first = first_cause(wrong())
    said = (first.kind, first.source[0].line, first.found, first.suggestion, first.tried)
    assert said[:2] == (kind, line), said
    assert sentence in " ".join(first.found), said
    assert advice in " ".join(first.suggestion), said
    assert "PROVED" in " ".join(first.tried), said
