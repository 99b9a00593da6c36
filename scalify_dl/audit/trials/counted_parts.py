"""Wrong programs by hand about counts over values that were put together, whose parts' ranges decide them."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .counted import over_the_count
from .registry import trial

IGNORED = -100

Labels = Callable[[Graph, Tensor], Tensor]
"""Labels that a program makes of those that are given."""


def kept(
    labels: Labels, expected: int, *, shape: tuple[int, ...] = (2, 3), range: tuple[int, int] = (0, 6),
    bound: int = IGNORED, way: str = "NE", over: tuple[int, ...] = (0, 1), dtype: str = "f32",
) -> Pair:  # fmt: skip
    """An input over how many labels compare so with the bound; `expected` in the baseline, which is another number."""
    pair = Pair({"tp": 2})
    _, given = pair.input(shape, dtype="s32", range=range)
    pair.dist.inputs[-1].range = range
    g = pair.dist
    made = labels(g, given)
    mask = g.emit("compare", [made, g.splat(bound, made.dtype, made.shape)], direction=way)
    count = g.emit("reduce", [g.emit("convert", [mask], dtype=dtype)], dimensions=list(over), reducer="sum")
    if count.shape:  # one of several, each of which counts on its own
        count = g.emit("reshape", [g.emit("slice", [count], start=[0], limit=[1], stride=[1])], shape=())
    over_the_count(pair, expected, count)
    return pair


def padded(g: Graph, x: Tensor, low: list[int], high: list[int], interior: list[int] | None = None) -> Tensor:
    """With labels that are ignored around it."""
    filling = g.constant(IGNORED, x.dtype)
    return g.emit("pad", [x, filling], low=low, high=high, interior=interior or [0] * len(low))


def cut(g: Graph, x: Tensor, start: list[int], limit: list[int], stride: list[int] | None = None) -> Tensor:
    return g.emit("slice", [x], start=start, limit=limit, stride=stride or [1] * len(start))


def beside(g: Graph, *parts: Tensor) -> Tensor:
    return g.emit("concatenate", list(parts), dimension=1)


def some(g: Graph, number: int, like: Tensor, columns: int) -> Tensor:
    return g.splat(number, like.dtype, (like.shape[0], columns))


def narrow(g: Graph, x: Tensor) -> Tensor:
    return g.emit("convert", [x], dtype="u8")


@trial
def labels_with_an_ignored_column_are_not_all_counted() -> Pair:
    return kept(lambda g, x: padded(g, x, [0, 0], [0, 1]), 8)


@trial
def labels_that_may_be_ignored_themselves() -> Pair:
    return kept(lambda g, x: padded(g, x, [0, 0], [0, 1]), 6, range=(IGNORED, 6))


@trial
def labels_padded_along_two_dims() -> Pair:
    """Two of three rows have three labels: six."""
    return kept(lambda g, x: padded(g, x, [0, 0], [1, 1]), 8)


@trial
def labels_between_which_others_were_put() -> Pair:
    """Of label, ignored, label two are counted."""
    return kept(lambda g, x: cut(g, padded(g, x, [0, 0], [0, 1], [0, 1]), [0, 0], [2, 3]), 6)


@trial
def what_a_negative_padding_takes_away_in_front() -> Pair:
    """A zero, and the last two labels of three, which may be zeros."""
    return kept(lambda g, x: beside(g, some(g, 0, x, 1), padded(g, x, [0, -1], [0, 0])), 6, range=(1, 6),
                bound=1, way="GE")  # fmt: skip


@trial
def what_a_negative_padding_takes_away_behind() -> Pair:
    """Two of three labels, and a column that is ignored."""
    return kept(lambda g, x: beside(g, padded(g, x, [0, 0], [0, -1]), some(g, IGNORED, x, 1)), 6)


@trial
def every_other_label() -> Pair:
    """Of label, label, ignored, ignored one of each."""

    def labels(g: Graph, x: Tensor) -> Tensor:
        return cut(g, beside(g, x, some(g, IGNORED, x, 2)), [0, 0], [2, 4], [1, 2])

    return kept(labels, 4, shape=(2, 2))


@trial
def labels_that_a_cast_wraps_above() -> Pair:
    """Of 250 … 259, as u8, some are 0 … 3."""
    return kept(lambda g, x: narrow(g, beside(g, x, some(g, 0, x, 1))), 6, range=(250, 260), bound=250, way="GE")


@trial
def labels_that_a_cast_wraps_below() -> Pair:
    """-3 … -1 as u8 are 253 … 255."""
    return kept(lambda g, x: narrow(g, beside(g, x, some(g, 9, x, 1))), 6, range=(-3, 0), bound=5, way="LE")


@trial
def labels_counted_once_for_each_index() -> Pair:
    """Two rows of three labels are no 24."""
    return kept(lambda g, x: padded(g, x, [0, 0], [0, 1]), 24)


@trial
def labels_of_one_row_are_not_those_of_all() -> Pair:
    return kept(lambda g, x: padded(g, x, [0, 0], [0, 1]), 6, over=(1,))


@trial
def a_count_of_parts_that_wraps_round() -> Pair:
    """200 truths are -56 in s8."""
    return kept(lambda g, x: padded(g, x, [0, 0], [0, 1]), 200, shape=(1, 200), dtype="s8")


@trial
def labels_of_which_the_greatest_is_that_number() -> Pair:
    """Of 0 and 1 some are no 1, of a column of ones all are."""
    return kept(lambda g, x: beside(g, x, some(g, 1, x, 1)), 8, range=(0, 2), bound=1, way="EQ")


@trial
def labels_of_which_the_least_is_that_number() -> Pair:
    return kept(lambda g, x: beside(g, x, some(g, 1, x, 1)), 8, range=(1, 3), bound=1, way="EQ")


@trial
def labels_that_may_be_less_than_the_number_that_is_not_counted() -> Pair:
    """Of 0 and 1 some are no 1, and a column of fives."""
    return kept(lambda g, x: beside(g, x, some(g, 5, x, 1)), 2, range=(0, 2), bound=1)


@trial
def labels_that_may_be_more_than_the_number_that_is_not_counted() -> Pair:
    return kept(lambda g, x: beside(g, x, some(g, 5, x, 1)), 2, range=(1, 3), bound=1)
