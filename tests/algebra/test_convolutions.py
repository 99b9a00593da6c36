"""Convolutions written as products: right ones and wrong twins, at small sizes and at large ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.algebra.decide import Decider
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import load_program

from .programs import decided, verdict


def convolved(g: Graph, x: Tensor, w: Tensor, spatial: int, **window: list[int]) -> Tensor:
    """Batch first and features last; kernels have the features that are read and then those that are made last."""
    dims = list(range(1, spatial + 1))
    labels = {"input_batch": 0, "input_feature": spatial + 1, "output_batch": 0, "output_feature": spatial + 1,
              "kernel_input_feature": spatial, "kernel_output_feature": spatial + 1}  # fmt: skip
    groups = x.shape[-1] // w.shape[spatial]
    return g.emit("convolution", [x, w], input_spatial=dims, output_spatial=dims, kernel_spatial=list(range(spatial)),
                  feature_group_count=groups, **labels, **window)  # fmt: skip


def product(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    return g.emit("dot", [x, w], lhs_contracting_dims=[len(x.shape) - 1], rhs_contracting_dims=[0])


def cut(g: Graph, x: Tensor, dim: int, start: int, size: int) -> Tensor:
    starts, limits = [0] * len(x.shape), list(x.shape)
    starts[dim], limits[dim] = start, start + size
    return g.emit("slice", [x], start=starts, limit=limits, stride=[1] * len(starts))


def added(g: Graph, parts: list[Tensor]) -> Tensor:
    found = parts[0]
    for part in parts[1:]:
        found = g.emit("add", [found, part])
    return found


def shifts(*, turned: bool = False, features: int = 16, n: int = 12) -> Pair:
    """Windows of three, one place of padding at either end."""
    pair = Pair({"tp": 1})
    (x, dx), (w, dw) = pair.input((4, n, features)), pair.input((3, features, 24))
    h = pair.dist
    wide = h.emit("pad", [dx, h.splat(0.0, "f32", ())], low=[0, 1, 0], high=[0, 1, 0], interior=[0, 0, 0])
    parts = []
    for k in range(3):
        tap = h.emit("reshape", [cut(h, dw, 0, 2 - k if turned else k, 1)], shape=(features, 24))
        parts.append(product(h, cut(h, wide, 1, k, n), tap))
    pair.outputs(convolved(pair.base, x, w, 1, window_pad_low=[1], window_pad_high=[1]), added(h, parts))
    return pair


def depthwise(*, later: bool = False) -> Pair:
    """Each feature on its own, from places before it on."""
    pair = Pair({"tp": 1})
    (x, dx), (w, dw) = pair.input((4, 12, 8)), pair.input((3, 1, 8))
    h = pair.dist
    low, high = (0, 2) if later else (2, 0)
    wide = h.emit("pad", [dx, h.splat(0.0, "f32", ())], low=[0, low, 0], high=[0, high, 0], interior=[0, 0, 0])
    parts = []
    for k in range(3):
        tap = h.emit("reshape", [cut(h, dw, 0, k, 1)], shape=(8,))
        every = h.emit("broadcast", [tap], shape=(4, 12, 8), dimensions=[2])
        parts.append(h.emit("multiply", [cut(h, wide, 1, k, 12), every]))
    pair.outputs(convolved(pair.base, x, w, 1, window_pad_low=[2], window_pad_high=[0]), added(h, parts))
    return pair


def patches(*, side: int = 14, window: int = 16, features: int = 3, made: int = 768, turned: bool = False) -> Pair:
    """An image in patches, each a row of a product."""
    pair = Pair({"tp": 1})
    n, wide = side * side, window * window * features
    x, dx = pair.input((8, side * window, side * window, features))
    w, dw = pair.input((window, window, features, made))
    h = pair.dist
    split = h.emit("reshape", [dx], shape=(8, side, window, side, window, features))
    order = [0, 1, 3, 4, 2, 5] if turned else [0, 1, 3, 2, 4, 5]
    rows = h.emit("transpose", [split], dimensions=order)
    found = product(h, h.emit("reshape", [rows], shape=(8, n, wide)), h.emit("reshape", [dw], shape=(wide, made)))
    whole = convolved(pair.base, x, w, 2, window_stride=[window, window])
    pair.outputs(pair.base.emit("reshape", [whole], shape=(8, n, made)), found)
    return pair


def single(*, turned: bool = False) -> Pair:
    """Windows of one element: a product of the features."""
    pair = Pair({"tp": 1})
    (x, dx), (w, dw) = pair.input((8, 56, 56, 256)), pair.input((1, 1, 256, 512))
    h = pair.dist
    rows = h.emit("reshape", [h.emit("transpose", [dx], dimensions=[0, 2, 1, 3]) if turned else dx],
                  shape=(8 * 56 * 56, 256))  # fmt: skip
    made = product(h, rows, h.emit("reshape", [dw], shape=(256, 512)))
    pair.outputs(convolved(pair.base, x, w, 2), h.emit("reshape", [made], shape=(8, 56, 56, 512)))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {
    "shifted products": shifts, "shifted products of large features": lambda: shifts(features=1024, n=6),
    "depthwise": depthwise, "patches": patches, "small patches": lambda: patches(side=2, window=2),
    "single elements": single,
}  # fmt: skip
WRONG: dict[str, Callable[[], Pair]] = {
    "taps the other way round": lambda: shifts(turned=True), "later places": lambda: depthwise(later=True),
    "patches on their side": lambda: patches(turned=True), "rows for columns": lambda: single(turned=True),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_one_is_equal(name: str) -> None:
    assert decided(RIGHT[name]())


@pytest.mark.parametrize("name", WRONG)
def test_the_wrong_twin_is_refuted(name: str) -> None:
    assert not decided(WRONG[name]())
    assert verdict(WRONG[name]()) != "PROVED"


@pytest.mark.parametrize("stride", [1, 2])
def test_windows_that_overlap_or_leave_gaps_are_no_patches(stride: int) -> None:
    pair = Pair({"tp": 1})
    (x, dx), (w, dw) = pair.input((2, 8, 3)), pair.input((2 if stride == 1 else 1, 3, 5))
    h = pair.dist
    rows = h.emit("reshape", [cut(h, dx, 1, 0, 8)], shape=(2, 8, 3))
    tap = h.emit("reshape", [cut(h, dw, 0, 0, 1)], shape=(3, 5))
    made = product(h, rows, tap)
    whole = convolved(pair.base, x, w, 1, window_stride=[stride])
    pair.outputs(whole, cut(h, made, 1, 0, whole.shape[1]))
    assert not decided(pair)


def test_programs_are_what_they_were_after_their_formulas() -> None:
    program = load_program(patches(side=2, window=4).tables())
    ops = [op for graph in program.graphs.values() for op in graph.ops]
    before = [{key: list(values) for key, values in op.numbers.items()} for op in ops]
    assert Decider(program, program.shards).decide(*program.expects[0]) is not None
    assert [op.numbers for op in ops] == before
