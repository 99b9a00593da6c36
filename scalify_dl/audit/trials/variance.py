"""Means of squares less squares of means: what is below zero where they are of other elements, or of fewer.

The factor of a pending sum is the inverse of such a difference with a number added: infinite, where that makes zero.
"""

from __future__ import annotations

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.literals import Literal

from .infinite import before_and_after_the_sum, reduced
from .registry import trial


def numbers(g: Graph, *values: int) -> Tensor:
    return g.constant(Literal("{" + ",".join(map(str, values)) + "}"), "f32", (len(values),))


def times_inverse(g: Graph, y: Tensor, difference: Tensor, added: float) -> Tensor:
    """y over a difference and a number."""
    total = g.emit("add", [difference, g.splat(added, "f32", ())])
    inverse = g.emit("divide", [g.splat(1.0, "f32", ()), total])
    return g.emit("multiply", [y, g.emit("broadcast", [inverse], dimensions=[], shape=y.shape)])


def less_square(g: Graph, squares: Tensor, first: float, values: Tensor, second: float) -> Tensor:
    """A multiple of a sum less the square of a multiple of another."""
    mean = g.emit("multiply", [reduced(g, values, [0]), g.splat(second, "f32", ())])
    part = g.emit("multiply", [reduced(g, squares, [0]), g.splat(first, "f32", ())])
    return g.emit("subtract", [part, g.emit("multiply", [mean, mean])])


@trial
def a_mean_of_squares_over_fewer_than_there_are() -> Pair:
    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        x = numbers(g, 1, 2, 1, 2)
        return times_inverse(g, y, less_square(g, g.emit("multiply", [x, x]), 0.5, x, 0.5), 4.0)

    return before_and_after_the_sum(body)


@trial
def a_lesser_part_of_the_mean_of_squares() -> Pair:
    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        x = numbers(g, 1, 2, 1, 2)
        return times_inverse(g, y, less_square(g, g.emit("multiply", [x, x]), 0.015625, x, 0.25), 2.09375)

    return before_and_after_the_sum(body)


@trial
def a_mean_of_squares_less_the_square_of_another_mean() -> Pair:
    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        x, z = numbers(g, 1, 2, 1, 2), numbers(g, 5, 5, 5, 6)
        return times_inverse(g, y, less_square(g, g.emit("multiply", [x, x]), 0.25, z, 0.25), 25.0625)

    return before_and_after_the_sum(body)


@trial
def a_mean_of_squares_along_another_dim() -> Pair:
    """Of [[0, 4], [0, 4]]: the mean of squares of the first column less the squared mean of the first row."""

    def body(g: Graph, y: Tensor, c: Tensor) -> Tensor:
        x = g.constant(Literal("{{0,4},{0,4}}"), "f32", (2, 2))
        half = g.splat(0.5, "f32", (2,))
        mean = g.emit("multiply", [reduced(g, x, [1]), half])
        part = g.emit("multiply", [reduced(g, g.emit("multiply", [x, x]), [0]), half])
        difference = g.emit("subtract", [part, g.emit("multiply", [mean, mean])])
        first = g.emit("reshape", [g.emit("slice", [difference], start=[0], limit=[1], stride=[1])], shape=())
        return times_inverse(g, y, first, 4.0)

    return before_and_after_the_sum(body)
