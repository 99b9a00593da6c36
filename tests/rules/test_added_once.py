"""One number added to zeros, once to each: what the gradient of reading the only column is."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor


def column(g: Graph, rows: int, number: float, *, columns: int = 1, place: int = 0, times: int = 1) -> Tensor:
    """`number`, added to a column of zeros [rows, columns]."""
    zeros = g.splat(0.0, "f32", (rows, columns))
    shape, dims = ((rows,), [0]) if times == 1 else ((times, rows), [1])
    ids = g.splat(place, "s32", (1,) if times == 1 else (times, 1))
    return g.emit(
        "scatter", [zeros, ids, g.splat(number, "f32", shape)], update_window_dims=dims, inserted_window_dims=[1],
        scatter_dims_to_operand_dims=[1], input_batching_dims=[], scatter_indices_batching_dims=[],
        index_vector_dim=0 if times == 1 else 1, reducer="sum",
    )  # fmt: skip


def pair(number: float = -0.125, *, columns: int = 1, place: int = 0, times: int = 1) -> Pair:
    """x times -1/8 everywhere, against x times a column that -1/8 was added to."""
    pair = Pair({"dp": 4})
    x, dx = pair.input((8, columns), {0: "dp"})
    made = column(pair.dist, 2, number, columns=columns, place=place, times=times)
    right = pair.base.splat(-0.125, "f32", (8, columns))
    pair.outputs(pair.base.emit("multiply", [x, right]), pair.dist.emit("multiply", [dx, made]))
    return pair


def test_the_only_column_is_that_number_everywhere() -> None:
    assert not derive(pair().tables()).unproved


@pytest.mark.parametrize("wrong", [pair(columns=2), pair(place=1), pair(times=2), pair(0.125)])
def test_other_columns_are_not(wrong: Pair) -> None:
    assert derive(wrong.tables()).unproved
