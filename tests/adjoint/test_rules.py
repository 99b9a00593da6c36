"""Rules that random programs seldom reach: every kind has one or says why not; quotients of differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from scalify_dl.adjoint import MISSING, RULES, NoAdjoint, backward
from scalify_dl.adjoint.derive import FLAT
from scalify_dl.adjoint.run import ONE, executed
from scalify_dl.adjoint.tiles import join_tiles
from scalify_dl.audit.adjoints.executed import gradients, slope
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.ir.vocabulary import KINDS

Build = Callable[..., Sequence[Tensor]]


def follows(build: Build, *shapes: tuple[int, ...]) -> None:
    """The derived gradient of every input is the slope along a random way."""

    def made() -> Graph:
        p = Program("f", ONE)
        p.output(*build(p, *(p.input(f"x{n}", shape, "f64") for n, shape in enumerate(shapes))))
        return p.graph

    rng = np.random.default_rng(0)
    inputs: list[np.ndarray[Any, Any]] = [rng.normal(size=shape) for shape in shapes]
    graph = made()
    cotangents = {n: rng.normal(size=port.tensor.shape) for n, port in enumerate(graph.outputs)
                  if port.tensor.dtype == "f64"}  # fmt: skip
    found, why, left = gradients(graph, inputs, cotangents)
    assert not why
    assert left == set(cotangents)
    for n, x in enumerate(inputs):
        way = rng.normal(size=x.shape)
        steep = slope(made(), inputs, n, way, cotangents)
        np.testing.assert_allclose(float((found.get(n, np.zeros(x.shape)) * way).sum()), steep, rtol=1e-5, atol=1e-6)


def test_every_kind_has_a_backward_or_a_reason() -> None:
    assert frozenset(RULES) | FLAT | frozenset(MISSING) == KINDS
    assert not frozenset(MISSING) & (frozenset(RULES) | FLAT)


PLAIN = {
    "input_batch": 0, "input_feature": 1, "input_spatial": [2, 3], "kernel_output_feature": 0,
    "kernel_input_feature": 1, "kernel_spatial": [2, 3], "output_batch": 0, "output_feature": 1,
    "output_spatial": [2, 3],
}  # fmt: skip
LAST = {
    "input_batch": 0, "input_feature": 3, "input_spatial": [1, 2], "kernel_output_feature": 3,
    "kernel_input_feature": 2, "kernel_spatial": [0, 1], "output_batch": 2, "output_feature": 0,
    "output_spatial": [3, 1],
}  # fmt: skip
WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"window_pad_low": [1, 2], "window_pad_high": [0, 3]},
    "cropped": {"window_pad_low": [-1, 0], "window_pad_high": [0, -1]},
    "strided": {"window_stride": [2, 3], "window_pad_low": [1, 0]},
    "with gaps": {"window_dilation": [2, 1], "window_stride": [1, 2], "window_pad_high": [2, 1]},
    "spread": {"base_dilation": [2, 3], "window_stride": [3, 1]},
    "turned": {"window_reversal": [1, 0], "window_stride": [2, 1]},
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("dims", [PLAIN, LAST], ids=["features first", "features last"])
def test_a_convolution_is_differentiated_by_both_operands(name: str, groups: tuple[int, int], dims: Any) -> None:
    features, batches = groups
    at = {**dims, **WINDOWS[name], "feature_group_count": features, "batch_group_count": batches}
    x = {dims["input_batch"]: 4, dims["input_feature"]: 2 * features, dims["input_spatial"][0]: 7,
         dims["input_spatial"][1]: 6}  # fmt: skip
    w = {dims["kernel_output_feature"]: 6, dims["kernel_input_feature"]: 2, dims["kernel_spatial"][0]: 3,
         dims["kernel_spatial"][1]: 2}  # fmt: skip
    follows(lambda p, x, w: [p.op("convolution", x, w, attributes=at).result],
            tuple(x[d] for d in range(4)), tuple(w[d] for d in range(4)))  # fmt: skip


@pytest.mark.parametrize("reducer", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("name", [name for name in WINDOWS if name not in ("turned", "cropped")])
def test_windows_of_any_kind_are_differentiated(reducer: str, name: str) -> None:
    at: dict[str, Any] = {"window_size": [3, 2], **WINDOWS[name], "reducer": reducer}
    follows(lambda p, x: [p.tanh(p.op("reduce-window", x, attributes=at).result)], (7, 6))  # of nothing: no number


@pytest.mark.parametrize("reducer", ["sum", "max", "min", "prod", "logsumexp"])
@pytest.mark.parametrize("turned", [0, 1])
def test_running_reductions_are_differentiated(reducer: str, turned: int) -> None:
    follows(lambda p, x: [p.op("cumulative", x, dimension=1, reducer=reducer, reverse=turned).result], (3, 4, 2))


def test_a_product_with_a_factor_zero_has_the_product_of_the_others() -> None:
    def build(p: Program, x: Tensor) -> list[Tensor]:
        some = p.multiply(x, p.convert(p.compare(p.iota(x.shape, 1), 2, direction="NE"), "f64"))
        shifted = p.select(p.compare(p.iota(x.shape, 1), 2, direction="EQ"), p.subtract(x, x), some)
        return [p.reduce(p.add(shifted, p.multiply(x, 0.0)), [0, 2], "prod"), p.cumulative(some, 1, "prod")]

    follows(build, (2, 4, 2))


@pytest.mark.parametrize("reducer", ["sum", "replace", "max", "min", "prod"])
def test_writes_to_the_same_place_and_outside_are_differentiated(reducer: str) -> None:
    def build(p: Program, x: Tensor, updates: Tensor) -> list[Tensor]:
        rows = p.remainder(p.multiply(p.iota((5, 1), 0), 3), 7)  # 0, 3, 6, 2, 5: the last is outside
        rows = p.select(p.compare(rows, 6, direction="EQ"), p.full(3, rows.shape, "s32"), rows)  # 3 twice
        return [p.op("scatter", x, rows, updates, update_window_dims=[1], inserted_window_dims=[0],
                     scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer=reducer).result]  # fmt: skip

    follows(build, (5, 2), (5, 2))


def test_bounds_that_meet_have_the_gradient_of_the_bound() -> None:
    """JAX gives it to none of the three; a seed of the campaign found that."""
    follows(lambda p, x, b: [p.clamp(b, x, b), p.clamp(b, x, p.add(b, 0.25))], (5, 4), (5, 4))


def test_loops_of_known_length_are_differentiated() -> None:
    def build(p: Program, x: Tensor, w: Tensor) -> list[Tensor]:
        def on(q: Program, i: Tensor, *_: Tensor) -> Tensor:
            return q.compare(i, 3, direction="LT")

        def body(q: Program, i: Tensor, y: Tensor, w: Tensor, total: Tensor) -> list[Tensor]:
            z = q.tanh(q.matmul(y, w))
            return [q.add(i, 1), q.multiply(z, q.broadcast(q.convert(i, "f64"), z.shape, ())), w, q.add(total, z)]

        start = p.constant(0, "s32")
        return p.loop([start, x, w, p.full(0, x.shape, "f64")], on, body, trip_count=3)[1:]

    follows(build, (2, 3), (3, 3))


def test_a_loop_of_unknown_length_is_not_guessed() -> None:
    p = Program("f", ONE)
    x = p.input("x", (), "f64")
    (y,) = p.loop([x], lambda q, y: q.compare(y, 9, direction="LT"), lambda q, y: [q.multiply(y, y)])
    with pytest.raises(NoAdjoint, match="how often"):
        backward(p, {y: p.full(1, (), "f64")}, [x])


def test_branches_are_differentiated() -> None:
    def build(p: Program, x: Tensor, y: Tensor, *, taken: int) -> list[Tensor]:
        index = p.constant(taken, "s32")
        regions = [
            p.region("a", [x], lambda q, x: [q.sine(x), x]),
            p.region("b", [y, x], lambda q, y, x: [q.multiply(y, x), q.exponential(y)]),
        ]
        types = [(x.dtype, x.shape)] * 2
        return p.op("conditional", index, x, y, x, types=types, regions=regions, branch_operand_count=[1, 2]).results

    for taken in (0, 1):
        follows(lambda p, x, y, taken=taken: build(p, x, y, taken=taken), (2, 3), (2, 3))


def test_complex_numbers_on_the_way_are_differentiated() -> None:
    def build(p: Program, x: Tensor, y: Tensor) -> list[Tensor]:
        z = p.op("complex", x, y).result
        made = p.multiply(p.multiply(z, z), p.exponential(z))
        return [p.real(made), p.imag(made)]

    follows(build, (2, 3), (2, 3))


def test_a_sort_carries_the_gradients_of_all_its_operands() -> None:
    def build(p: Program, x: Tensor, y: Tensor) -> list[Tensor]:
        return p.op("sort", x, y, types=[("f64", x.shape)] * 2, dimension=0, direction="DESC").results

    follows(build, (5, 2), (5, 2))


def weights(p: Program, x: Tensor, *, guarded: str) -> Tensor:
    """Softmax along dim 1, in which the maximum is guarded, or made of the whole, or read by itself."""
    most = p.reduce(x, 1, "max")
    shift = p.maximum(most, float("-inf")) if guarded != "other" else p.multiply(most, p.reduce(x, 1, "sum"))
    e = p.exponential(p.subtract(x, p.broadcast(shift, x.shape, [0])))
    y = p.divide(e, p.broadcast(p.reduce(e, 1), x.shape, [0]))
    return p.add(y, p.broadcast(shift, x.shape, [0])) if guarded == "read" else y


@pytest.mark.parametrize("guarded", ["guarded", "other", "read"])
def test_no_gradient_goes_through_a_maximum_that_only_shifts_softmax(guarded: str) -> None:
    follows(lambda p, x: [weights(p, x, guarded=guarded)], (3, 5))
    p = Program("f", ONE)
    x = p.input("x", (3, 5), "f64")
    y, first = weights(p, x, guarded=guarded), len(p.graph.ops)
    (found,) = backward(p, {y: p.input("g", (3, 5), "f64")}, [x])
    read, kinds = {found}, set()
    for op in reversed(p.graph.ops[first:]):
        if not read.isdisjoint(op.results):
            read.update(op.operands)
            kinds.add(op.kind)
    assert ("compare" in kinds) is (guarded != "guarded")  # where the maximum is


@pytest.mark.parametrize(("cuts", "joined"), [
    ([(0, 2), (2, 5)], 1), ([(2, 5), (0, 2)], 1), ([(0, 3), (2, 5)], 0), ([(0, 2), (3, 5)], 0),
    ([(0, 2), (2, 5), (0, 5)], 1), ([(0, 2), (2, 5), (0, 2)], 1),
])  # fmt: skip
def test_gradients_of_slices_that_fill_a_dim_are_joined(cuts: Sequence[tuple[int, int]], joined: int) -> None:
    def made(tiles: bool) -> np.ndarray[Any, Any]:
        p = Program("f", ONE)
        x = p.input("x", (3, 5), "f64")
        parts = [p.sine(p.slice(x, 1, lo, hi)) for lo, hi in cuts]
        (found,) = backward(p, {part: p.cosine(part) for part in parts}, [x])
        assert found is not None
        p.output(found)
        if tiles:
            join_tiles(p.graph)
            assert sum(op.kind == "concatenate" for op in p.graph.ops) == joined
        return executed(p.graph, [np.arange(15.0).reshape(3, 5)])[0]

    np.testing.assert_allclose(made(True), made(False))
