"""Numbers that a program compares with have inputs on either side of them."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample
from scalify_dl.oracle.inputs import baseline_inputs

from .small import program


def _where_greater(graph: Graph, x: Tensor, number: int, dtype: str) -> Tensor:
    return graph.emit("compare", [x, graph.splat(number, dtype, (8,))], dtype="pred", direction="GT")


@pytest.mark.parametrize("dtype", ["s32", "f32"])
@pytest.mark.parametrize("theirs", [31, 32])
def test_another_threshold_far_from_small_numbers_is_refuted(dtype: str, theirs: int) -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((8,), dtype=dtype)
    pair.outputs(_where_greater(pair.base, x, 31, dtype), _where_greater(pair.dist, dx, theirs, dtype))
    assert find_counterexample(program(pair)).status == ("agrees" if theirs == 31 else "refuted")


def test_other_limits_of_a_clamp_are_refuted() -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((8,))
    kept = [
        graph.emit("clamp", [graph.splat(-3, "f32", (8,)), value, graph.splat(most, "f32", (8,))])
        for graph, value, most in ((pair.base, x, 3), (pair.dist, dx, 4))
    ]
    pair.outputs(*kept)
    assert find_counterexample(program(pair)).status == "refuted"


def test_what_becomes_a_position_is_not_drawn_near_numbers() -> None:
    pair = Pair({"tp": 1})
    (table, dtable), (ids, dids) = pair.input((4, 3)), pair.input((8, 1), dtype="s32")
    rows = []
    for graph, held, at in ((pair.base, table, ids), (pair.dist, dtable, dids)):
        graph.emit("compare", [at, graph.splat(100, "s32", (8, 1))], dtype="pred", direction="GT")
        rows.append(graph.emit(
            "gather", [held, at], shape=(8, 3), offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0],
            index_vector_dim=1, slice_sizes=[1, 3],
        ))  # fmt: skip
    pair.outputs(*rows)
    with_rows = program(pair)
    drawn = baseline_inputs(with_rows, "thresholds", 0)
    assert max(int(value.max()) for by in drawn.values() for value in by.values() if value.dtype.kind == "i") < 4


@pytest.mark.parametrize("asks", ["EQ", "GT"])
def test_labels_that_the_baseline_ignores_are_among_those_that_are_drawn(asks: str) -> None:
    pair = Pair({"tp": 1})
    (table, dtable), (ids, dids) = pair.input((4, 3)), pair.input((8, 1), dtype="s32")
    rows = []
    for graph, held, at in ((pair.base, table, ids), (pair.dist, dtable, dids)):
        ignored = graph.emit("compare", [at, graph.splat(-100, "s32", (8, 1))], dtype="pred", direction=asks)
        safe = graph.emit("select", [ignored, graph.splat(0, "s32", (8, 1)), at])
        rows.append(graph.emit(
            "gather", [held, safe], shape=(8, 3), offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0],
            index_vector_dim=1, slice_sizes=[1, 3],
        ))  # fmt: skip
    pair.outputs(*rows)
    drawn = baseline_inputs(program(pair), "thresholds", 0)
    least = min(int(value.min()) for by in drawn.values() for value in by.values() if value.dtype.kind == "i")
    assert least == (-100 if asks == "EQ" else 0)


def test_what_libraries_leave_out_beyond_a_threshold_refutes_nothing() -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((8,))
    limit = pair.base.splat(20, "f32", (8,))
    far = pair.base.emit("compare", [x, limit], dtype="pred", direction="GT")
    pair.outputs(
        pair.base.emit("select", [far, x, pair.base.emit("softplus", [x])]), pair.dist.emit("softplus", [dx])
    )
    assert find_counterexample(program(pair)).status == "agrees"


def _clipped(graph: Graph, x: Tensor, scale: float) -> Tensor:
    """The vector, scaled, and then shortened to length 1 where it is longer."""
    y = graph.emit("multiply", [x, graph.splat(scale, "f32", x.shape)])
    square = graph.emit("reduce", [graph.emit("multiply", [y, y])], dimensions=[0], reducer="sum")
    share = graph.emit("divide", [graph.splat(1.0, "f32", ()), graph.emit("sqrt", [square])])
    share = graph.emit("minimum", [share, graph.splat(1.0, "f32", ())])
    return graph.emit("multiply", [y, graph.emit("broadcast", [share], shape=x.shape, dimensions=[])])


@pytest.mark.parametrize(("scale", "status"), [(1.0, "agrees"), (4.0, "refuted")])
def test_a_factor_that_clipping_takes_away_from_long_vectors_is_refuted(scale: float, status: str) -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((64,))
    pair.outputs(_clipped(pair.base, x, 1.0), _clipped(pair.dist, dx, scale))
    assert find_counterexample(program(pair)).status == status


def test_what_a_clipped_norm_hides_is_shown_where_nothing_is_clipped() -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((64,))
    kept = []
    for graph, gradient, times in ((pair.base, x, 1), (pair.dist, dx, 4)):
        scaled = graph.emit("multiply", [gradient, graph.splat(times, "f32", (64,))])
        square = graph.emit("reduce", [graph.emit("multiply", [scaled, scaled])], dimensions=[0], reducer="sum")
        norm = graph.emit("add", [graph.emit("sqrt", [square]), graph.constant(1e-6, "f32")])
        one = graph.constant(1, "f32")
        scale = graph.emit("minimum", [one, graph.emit("divide", [one, norm])])
        wide = graph.emit("broadcast", [scale], shape=(64,), dimensions=[])
        kept.append(graph.emit("multiply", [scaled, wide]))
    pair.outputs(*kept)
    found = find_counterexample(program(pair))
    assert (found.status, found.best and (found.best.draw, found.best.faint)) == ("refuted", ("small", False))
    assert found.best is not None
    assert found.readings is not None
    assert 4 in {reading.scale for reading in found.readings.of(found.best.output)}
