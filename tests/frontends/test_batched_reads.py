"""A position among the components of an index makes a batch dim, and what is no position does not."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.readers.normalise import normalise

ROWS, COLUMNS, THIRD = 6, 5, 4


def positions(graph: Graph, spelling: str, along: int, shape: tuple[int, ...]) -> Tensor:
    """What counts along a dim of the index, with a last dim of one element."""
    if spelling == "whole":
        return graph.emit("iota", [], dtype="s32", shape=(*shape, 1), dimension=along)
    place = graph.emit("iota", [], dtype="s32", shape=(shape[along],), dimension=0)
    if spelling == "numpy":  # negative ones would count from the end
        zero, size = graph.splat(0, "s32", place.shape), graph.splat(ROWS, "s32", place.shape)
        below = graph.emit("compare", [place, zero], dtype="pred", direction="LT")
        place = graph.emit("select", [below, graph.emit("add", [place, size]), place])
    elif spelling == "narrow":
        place = graph.emit("convert", [graph.emit("convert", [place], dtype="s8")], dtype="s32")
    elif spelling == "column":
        place = graph.emit("reshape", [graph.emit("reshape", [place], shape=(1, shape[along]))], shape=(shape[along],))
    elif spelling == "beyond":
        place = graph.emit("add", [place, graph.splat(1, "s32", place.shape)])
    elif spelling == "backwards":
        place = graph.emit("reverse", [place], dimensions=[0])
    return graph.emit("broadcast", [place], shape=(*shape, 1), dimensions=[along])


def read(graph: Graph, x: Tensor, ids: list[Tensor], order: list[str], spelling: str) -> Tensor:
    """Elements of x at components in that order: `row` counts, the others are ids."""
    parts, given = [], iter(ids)
    for name in order:
        part = positions(graph, spelling, 0, ids[0].shape) if name == "row" else None
        parts.append(part or graph.emit("reshape", [next(given)], shape=(*ids[0].shape, 1)))
    vector = graph.emit("concatenate", parts, dimension=len(ids[0].shape))
    dims = list(range(len(order)))
    return graph.emit(
        "gather", [x, vector], shape=ids[0].shape, offset_dims=[], collapsed_slice_dims=dims, start_index_map=dims,
        index_vector_dim=len(ids[0].shape), slice_sizes=[1] * len(dims),
    )  # fmt: skip


def both(order: list[str], spelling: str, rows: int = ROWS) -> tuple[Pair, Graph]:
    """The same read on both sides, of which one is as it was written."""
    pair = Pair({"tp": 1})
    x, dx = pair.input(tuple(rows if name == "row" else COLUMNS for name in order))
    ids = [pair.input((ROWS, 3), dtype="s32", range=(0, COLUMNS)) for name in order if name != "row"]
    one = read(pair.base, x, [base for base, _ in ids], order, spelling)
    other = read(pair.dist, dx, [dist for _, dist in ids], order, spelling)
    pair.outputs(one, other)
    normalise(pair.dist)
    return pair, pair.dist


@pytest.mark.parametrize("spelling", ["whole", "numpy", "narrow", "column"])
@pytest.mark.parametrize("order", [["row", "id"], ["id", "row"], ["row", "id", "id"], ["id", "row", "id"]])
def test_a_position_among_components_is_a_batch_dim(order: list[str], spelling: str) -> None:
    pair, graph = both(order, spelling)
    (gather,) = [op for op in graph.ops if op.kind == "gather"]
    assert gather.numbers["operand_batching_dims"] == [order.index("row")]
    assert gather.numbers["start_indices_batching_dims"] == [0]
    assert len(gather.numbers["start_index_map"]) == len(order) - 1
    assert find_counterexample(load_program(pair.tables())).status == "agrees"


@pytest.mark.parametrize(("spelling", "rows"), [("beyond", ROWS), ("backwards", ROWS), ("numpy", ROWS + 2)])
def test_what_is_no_position_of_every_row_stays_a_component(spelling: str, rows: int) -> None:
    pair, graph = both(["row", "id"], spelling, rows)
    (gather,) = [op for op in graph.ops if op.kind == "gather"]
    assert gather.numbers["start_index_map"] == [0, 1]
    assert find_counterexample(load_program(pair.tables())).status == "agrees"


def test_positions_beyond_a_type_are_none() -> None:
    graph = Graph()
    x = graph.input("x", "f32", (300, COLUMNS))
    ids = graph.input("ids", "s8", (300, 1))
    place = graph.emit("iota", [], dtype="s8", shape=(300, 1), dimension=0)
    vector = graph.emit("concatenate", [place, ids], dimension=1)
    graph.output(graph.emit(
        "gather", [x, vector], shape=(300,), offset_dims=[], collapsed_slice_dims=[0, 1], start_index_map=[0, 1],
        index_vector_dim=1, slice_sizes=[1, 1],
    ))  # fmt: skip
    normalise(graph)
    assert graph.ops[-1].numbers["start_index_map"] == [0, 1]


@pytest.mark.parametrize("reducer", ["sum", "replace"])
def test_writes_at_positions_are_in_batches(reducer: str) -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((ROWS, COLUMNS))
    ids, dids = pair.input((ROWS, 1), dtype="s32")
    new, dnew = pair.input((ROWS,))
    written = []
    for graph, into, at, values in ((pair.base, x, ids, new), (pair.dist, dx, dids, dnew)):
        vector = graph.emit("concatenate", [positions(graph, "numpy", 0, (ROWS,)), at], dimension=1)
        written.append(graph.emit(
            "scatter", [into, vector, values], reducer=reducer, update_window_dims=[], inserted_window_dims=[0, 1],
            scatter_dims_to_operand_dims=[0, 1], index_vector_dim=1,
        ))  # fmt: skip
    pair.outputs(*written)
    normalise(pair.dist)
    (scatter,) = [op for op in pair.dist.ops if op.kind == "scatter"]
    assert scatter.numbers["input_batching_dims"] == [0]
    assert scatter.numbers["inserted_window_dims"] == [1]
    assert find_counterexample(load_program(pair.tables())).status == "agrees"


def test_one_component_of_a_diagonal_stays() -> None:
    graph = Graph()
    x = graph.input("x", "f32", (ROWS, ROWS))
    place = graph.emit("iota", [], dtype="s32", shape=(ROWS, 1), dimension=0)
    vector = graph.emit("concatenate", [place, place], dimension=1)
    graph.output(graph.emit(
        "gather", [x, vector], shape=(ROWS,), offset_dims=[], collapsed_slice_dims=[0, 1], start_index_map=[0, 1],
        index_vector_dim=1, slice_sizes=[1, 1],
    ))  # fmt: skip
    normalise(graph)
    assert graph.ops[-1].numbers["operand_batching_dims"] == [0]
    assert graph.ops[-1].operands[1] is place
