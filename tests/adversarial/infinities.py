"""Right programs with infinities; the wrong ones are trials of `rules check`."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair
from scalify_dl.audit.trials import TRIALS
from scalify_dl.audit.trials.infinite import (
    before_and_after_the_sum,
    causal,
    log,
    masked,
    on_one_rank,
    over_chosen,
    positive,
    strictly_causal,
    times_attention,
)
from scalify_dl.audit.trials.layers import gather, reduce_all, softmax, spread, total
from scalify_dl.ir.graph import Graph, Tensor

WRONG = {name: build for name, build in TRIALS.items() if build.__module__.endswith("trials.infinite")}
RIGHT: dict[str, Callable[[], Pair]] = {}


def right(function: Callable[[], Pair]) -> Callable[[], Pair]:
    RIGHT[function.__name__] = function
    return function


@right
def a_masked_value_kept_by_a_choice() -> Pair:
    return on_one_rank(masked, selecting=True)


@right
def a_masked_value_let_go_by_the_same_mask() -> Pair:
    def body(g: Graph, x: Tensor) -> Tensor:
        mask = causal(g, x.shape)
        y = g.emit("select", [mask, x, g.splat(float("-inf"), "f32", x.shape)])
        return g.emit("select", [mask, y, g.splat(0.0, "f32", x.shape)])

    return on_one_rank(body)


@right
def exponentials_of_a_masked_value_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: g.emit("exponential", [masked(g, x)]))


@right
def a_softmax_with_something_in_every_row_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: softmax(g, masked(g, x), 1))


@right
def a_softmax_of_rows_that_may_be_empty_times_a_flag() -> Pair:
    """NaN on every rank, and in the sum."""
    return on_one_rank(lambda g, x: softmax(g, masked(g, x, strictly_causal), 1))


@right
def a_masked_value_that_is_bounded_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: g.emit("maximum", [masked(g, x), g.splat(-1e9, "f32", x.shape)]))


@right
def a_normalised_value_times_a_flag() -> Pair:
    return on_one_rank(lambda g, x: g.emit("divide", [x, g.emit("sqrt", [positive(g, x)])]))


@right
def the_logarithm_of_a_sum_of_exponentials_times_a_flag() -> Pair:
    def body(g: Graph, x: Tensor) -> Tensor:
        top = spread(g, total(g, x, [1], "max"), x.shape, [0])
        return log(g, total(g, g.emit("exponential", [g.emit("subtract", [x, top])]), [1]))

    return on_one_rank(body)


@right
def probabilities_times_a_partial_sum() -> Pair:
    """Rows of the mask may be empty: NaN then, but never infinite."""
    return before_and_after_the_sum(
        lambda g, y, c: g.emit("multiply", [y, softmax(g, masked(g, c, strictly_causal), 1)])
    )


@right
def a_partial_sum_over_a_root() -> Pair:
    return before_and_after_the_sum(lambda g, y, c: g.emit("divide", [y, g.emit("sqrt", [positive(g, c)])]))


@right
def a_logarithm_of_parts_of_a_maximum_of_squares() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8), {1: "tp"})
    b, d = pair.base, pair.dist
    parts = log(d, total(d, positive(d, dx), [1], "max"))
    pair.outputs(log(b, total(b, positive(b, x), [1], "max")), reduce_all(d, parts, pair.groups("tp"), "max"))
    return pair


@right
def a_masked_value_that_is_gathered() -> Pair:
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8), {0: "tp"})
    mine = pair.dist.emit("log", [dx])
    pair.outputs(log(pair.base, x), gather(pair.dist, mine, 0, pair.groups("tp")))
    return pair


@right
def a_partial_sum_over_the_largest_of_a_softmax() -> Pair:
    """The weights of the experts of a token are divided by their sum."""
    return over_chosen(2, "LT", (1, 2))


@right
def a_partial_sum_times_attention_with_a_mask() -> Pair:
    return times_attention(0, causal)


@right
def a_partial_sum_times_attention_that_may_see_nothing() -> Pair:
    return times_attention(0, strictly_causal)
