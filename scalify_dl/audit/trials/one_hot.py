"""Wrong programs by hand about rows of which one place is not zero."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor

from .registry import trial

PLACES = 3


def rows_of(ids: Tensor, along: int) -> tuple[tuple[int, ...], list[int]]:
    """The shape of rows whose places run along a dim, and the other dims."""
    return (*ids.shape[:along], PLACES, *ids.shape[along:]), [d for d in range(len(ids.shape) + 1) if d != along]


def marked(g: Graph, ids: Tensor, rest: float, along: int) -> Tensor:
    """1 where the index along a dim is the id, and another number elsewhere."""
    shape, dims = rows_of(ids, along)
    line = g.emit("iota", [], dtype=ids.dtype, shape=shape, dimension=along)
    there = g.emit("compare", [spread(g, ids, shape, dims), line], direction="EQ")
    return g.emit("select", [there, g.splat(1.0, "f32", shape), g.splat(rest, "f32", shape)])


def written(g: Graph, ids: Tensor, before: float, order: list[int], along: int) -> Tensor:
    """1 written into each row at its id; `order`: which dims of the ids go along with the rows' dims."""
    shape, dims = rows_of(ids, along)
    return g.emit(
        "scatter", [g.splat(before, "f32", shape), ids, g.splat(1.0, "f32", ids.shape)],
        update_window_dims=[], inserted_window_dims=[along], scatter_dims_to_operand_dims=[along],
        input_batching_dims=dims, scatter_indices_batching_dims=order, index_vector_dim=len(dims), reducer="replace",
    )  # fmt: skip


def one_hot(shape: tuple[int, ...], make: Callable[[Graph, Tensor], Tensor], along: int) -> Pair:
    """1 at each row's id, as it is, and as somebody makes it."""
    pair = Pair({"tp": 2})
    ids, dist_ids = pair.input(shape, dtype="s32", range=(0, PLACES))
    pair.outputs(marked(pair.base, ids, 0.0, along), make(pair.dist, dist_ids))
    return pair


@trial
def a_number_at_the_id_and_another_one_elsewhere() -> Pair:
    """1 at the id, 1/2 elsewhere."""
    return one_hot((6,), lambda g, ids: marked(g, ids, 0.5, 1), 1)


@trial
def an_element_written_into_rows_of_ones() -> Pair:
    """1 at the id, 1 elsewhere."""
    return one_hot((6,), lambda g, ids: written(g, ids, 1.0, [0], 1), 1)


@trial
def an_element_written_into_the_row_of_the_other_dims() -> Pair:
    """Row (i, j) has the id of (j, i)."""
    return one_hot((3, 3), lambda g, ids: written(g, ids, 0.0, [1, 0], 2), 2)


@trial
def an_element_written_along_the_first_dim() -> Pair:
    """So has this one, whose dims go along in order, behind the dim that is written along."""

    def make(g: Graph, ids: Tensor) -> Tensor:
        return written(g, g.emit("transpose", [ids], dimensions=[1, 0]), 0.0, [0, 1], along=0)

    return one_hot((3, 3), make, along=0)


@trial
def a_read_that_wraps_round_as_one_that_is_clamped() -> Pair:
    """The last place of a row for an id of -1; its first place, where ids are clamped before rows are made of them."""
    pair = Pair({"tp": 2})
    (x, dx), (ids, dist_ids) = pair.input((6, PLACES)), pair.input((6,), dtype="s32", range=(-1, PLACES))
    read = pair.base.emit(
        "gather", [x, ids], offset_dims=[], collapsed_slice_dims=[1], start_index_map=[1], slice_sizes=[1, 1],
        operand_batching_dims=[0], start_indices_batching_dims=[0], index_vector_dim=1, mode="wrap",
    )  # fmt: skip
    g = pair.dist
    least, most = (g.splat(n, "s32", (6,)) for n in (0, PLACES - 1))
    near = g.emit("clamp", [least, dist_ids, most])
    kept = g.emit("multiply", [marked(g, near, 0.0, 1), dx])
    pair.outputs(read, g.emit("reduce", [kept], dimensions=[1], reducer="sum"))
    return pair
