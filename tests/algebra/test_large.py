"""Pairs of large dims, of which no element is followed: right ones are PROVED, wrong ones are not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .programs import (
    SIZE,
    alone,
    compared,
    decided,
    iota,
    matmul,
    number,
    over,
    part,
    scaled,
    square,
    transposed,
    two,
    verdict,
    where,
    wide,
)


def softmax(g: Graph, x: Tensor, *, shift: bool = True, forgotten: bool = False) -> Tensor:
    """Over dim 1."""
    moved = two(g, "subtract", x, wide(g, over(g, x, "max", 1), x, 0)) if shift else x
    weights = g.emit("exponential", [moved])
    other = g.emit("exponential", [x]) if forgotten else weights
    return two(g, "divide", weights, wide(g, over(g, other, "sum", 1), x, 0))


def norm(g: Graph, x: Tensor, *, divided: bool) -> Tensor:
    """Rows over the root of the mean of their squares, as a quotient or by the inverse of the root."""
    mean = over(g, square(g, x), "sum", 1)
    mean = scaled(g, mean, 1 / x.shape[1])
    raised = two(g, "add", mean, number(g, 2**-16, mean))
    if divided:
        return two(g, "divide", x, wide(g, g.emit("sqrt", [raised]), x, 0))
    return two(g, "multiply", x, wide(g, g.emit("rsqrt", [raised]), x, 0))


def causal(g: Graph, x: Tensor, direction: str = "LE") -> Tensor:
    return where(g, compared(g, iota(g, x, 1), iota(g, x, 0), direction), x, float("-inf"))


def vocabulary(*, reducer: str = "max") -> Pair:
    pair = Pair({"tp": 4})
    x, dx = pair.input((SIZE, 8 * SIZE), {1: "tp"})
    g, groups = pair.dist, pair.groups("tp")
    top = g.emit("all-reduce", [over(g, dx, "max", 1)], reducer=reducer, groups=groups)
    weights = g.emit("exponential", [two(g, "subtract", dx, wide(g, top, dx, 0))])
    everyone = groups if reducer == "max" else pair.groups()
    total = g.emit("all-reduce", [over(g, weights, "sum", 1)], reducer="sum", groups=everyone)
    pair.outputs(softmax(pair.base, x, shift=False), two(g, "divide", weights, wide(g, total, dx, 0)))
    return pair


def low_rank(*, twice: bool = False) -> Pair:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((SIZE, SIZE)), pair.input((SIZE, 2 * SIZE))
    (a, da), (b, db) = pair.input((SIZE, 64), {1: "tp"}), pair.input((64, 2 * SIZE), {0: "tp"})
    whole = two(pair.base, "add", w, matmul(pair.base, a, b))
    g = pair.dist
    found = matmul(g, matmul(g, dx, da), db)
    if twice:
        found = two(g, "add", found, found)
    found = g.emit("all-reduce", [found], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(matmul(pair.base, x, whole), two(g, "add", matmul(g, dx, dw), found))
    return pair


def variance(g: Graph, x: Tensor, *, early: bool, count: float = SIZE) -> Tensor:
    """Over dim 1: of what is left of the mean, or the mean of squares less the square of the mean."""

    def mean(y: Tensor) -> Tensor:
        return scaled(g, over(g, y, "sum", 1), 1 / count)

    if early:
        return two(g, "subtract", mean(square(g, x)), square(g, mean(x)))
    return mean(square(g, two(g, "subtract", x, wide(g, mean(x), x, 0))))


def online(g: Graph, s: Tensor, v: Tensor, blocks: int, *, rescaled: bool = True, direction: str = "LE") -> Tensor:
    """Attention in blocks of keys with a running maximum and sum."""
    step = s.shape[1] // blocks
    top = total = out = None
    for n in range(blocks):
        scores = part(g, causal(g, s, direction), n * step, (n + 1) * step, dim=1)
        higher = over(g, scores, "max", 1)
        higher = higher if top is None else two(g, "maximum", top, higher)
        weights = g.emit("exponential", [two(g, "subtract", scores, wide(g, higher, scores, 0))])
        sums, values = over(g, weights, "sum", 1), matmul(g, weights, part(g, v, n * step, (n + 1) * step))
        if top is not None and total is not None and out is not None:
            old = g.emit("exponential", [two(g, "subtract", top, higher)])
            sums = two(g, "add", two(g, "multiply", total, old), sums)
            values = two(g, "add", two(g, "multiply", out, wide(g, old, out, 0)) if rescaled else out, values)
        top, total, out = higher, sums, values
    assert out is not None
    assert total is not None
    return two(g, "divide", out, wide(g, total, out, 0))


def attention(blocks: int = 4, size: int = SIZE, **options: Any) -> Pair:
    pair = Pair({"tp": 1})
    (s, ds), (v, dv) = pair.input((size, size)), pair.input((size, 128))
    whole = matmul(pair.base, softmax(pair.base, causal(pair.base, s)), v)
    pair.outputs(whole, online(pair.dist, ds, dv, blocks, **options))
    return pair


def chain(*, other: bool = False) -> Pair:
    pair = Pair({"tp": 1})
    made = [pair.input((SIZE, 2 * SIZE)), pair.input((2 * SIZE, SIZE)), pair.input((SIZE, SIZE))]
    (a, b, c), (da, db, dc) = ([m[n] for m in made] for n in range(2))
    found = matmul(pair.dist, da, matmul(pair.dist, db, dc))
    if other:
        found = transposed(pair.dist, found)
    pair.outputs(matmul(pair.base, matmul(pair.base, a, b), c), found)
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {
    "softmax": lambda: alone(lambda g, x: softmax(g, x, shift=False), softmax, SIZE, 8 * SIZE),
    "norm": lambda: alone(
        lambda g, x: norm(g, x, divided=True), lambda g, x: norm(g, x, divided=False), SIZE, 2 * SIZE
    ),
    "vocabulary": vocabulary,
    "low rank": low_rank,
    "products in another order": lambda: chain(),
    "variance": lambda: alone(
        lambda g, x: variance(g, x, early=True), lambda g, x: variance(g, x, early=False), SIZE, SIZE
    ),
    "attention in blocks": attention,
    "a sum in halves": lambda: alone(
        lambda g, x: over(g, x, "sum"),
        lambda g, x: two(g, "add", *(over(g, part(g, x, n, n + SIZE // 2), "sum") for n in (0, SIZE // 2))),
        SIZE, SIZE,
    ),
    "a maximum in halves, in the other order": lambda: alone(
        lambda g, x: over(g, x, "max"),
        lambda g, x: two(g, "maximum", *(over(g, part(g, x, n, n + SIZE // 2), "max") for n in (SIZE // 2, 0))),
        SIZE, SIZE,
    ),
    "a square of a sum": lambda: alone(
        lambda g, x: square(g, over(g, x, "sum")),
        lambda g, x: over(g, two(g, "multiply", x, wide(g, over(g, x, "sum"), x, 1)), "sum"),
        SIZE, SIZE,
    ),
}  # fmt: skip
WRONG: dict[str, Callable[[], Pair]] = {
    "softmax": lambda: alone(
        lambda g, x: softmax(g, x, shift=False), lambda g, x: softmax(g, x, forgotten=True), SIZE, SIZE
    ),
    "vocabulary": lambda: vocabulary(reducer="min"),
    "low rank": lambda: low_rank(twice=True),
    "transposed": lambda: chain(other=True),
    "variance": lambda: alone(
        lambda g, x: variance(g, x, early=True), lambda g, x: variance(g, x, early=False, count=SIZE - 1), SIZE, SIZE
    ),
    "not rescaled": lambda: attention(rescaled=False),
    "not the diagonal": lambda: attention(direction="LT"),
    "dims exchanged": lambda: alone(
        lambda g, x: two(g, "add", x, wide(g, over(g, x, "sum", 1), x, 0)),
        lambda g, x: two(g, "add", x, wide(g, over(g, x, "sum", 0), x, 1)),
        SIZE, SIZE,
    ),
    "its own transpose": lambda: alone(lambda g, x: x, transposed, SIZE, SIZE),
    "rows by columns": lambda: alone(
        lambda g, x: matmul(g, x, x), lambda g, x: matmul(g, x, transposed(g, x)), SIZE, SIZE
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_one_is_proved(name: str) -> None:
    assert verdict(RIGHT[name]()) == "PROVED"


@pytest.mark.parametrize("name", WRONG)
def test_the_wrong_twin_is_not(name: str) -> None:
    assert not decided(WRONG[name]())


def test_the_cost_does_not_depend_on_sizes() -> None:
    took = []
    for size in (1024, 16 * 1024):
        before = time.process_time()
        assert decided(attention(size=size))
        took.append(time.process_time() - before)
    assert took[1] < 2 * took[0] + 0.2
