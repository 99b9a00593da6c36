"""Random steps with one-hot values: the gradient of a loss at its labels, places of which a rank has a block."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import spread
from .indexed_steps import add_rows, blocks, doubled, keep, local_ids, some_ids
from .world import World, step


@step("one-hot-loss", 0.7)
def one_hot_loss(w: World) -> None:
    """A number at each row's id, and the sums of rows; a rank writes it, or selects it, where the id is its own."""
    table, first, size, _ = blocks(w, 0, [w.rng.choice([8, 12, 16]), 2])
    places = table.base.shape[0]
    ids = some_ids(w, places)
    if w.chance(0.5):  # what indexes is an id, and what is compared with places
        add_rows(w, w.base, places, ids.base, w.base.splat(1.0, "f32", (*ids.base.shape, 2)))
    number = w.rng.choice([-0.125, 0.25, 1.0, -1.0])
    base = _selected(w, w.base, ids.base, places, None, number)
    mask, near = local_ids(w, ids.dist, first, size)
    kept = None if w.slip() else mask
    if w.chance(0.4):
        dist, factor = _selected(w, w.dist, near, size, kept, 1.0), number
    else:
        dist, factor = _written(w, near, size, kept, number)
    w.add(base, dist)
    if w.chance(0.5):
        dist = doubled(w, w.emit(w.dist, "multiply", [dist, w.dist.splat(factor, "f32", dist.shape)]))
        w.add(base, dist)
    rows = w.emit(w.base, "reduce", [base], dimensions=[len(ids.base.shape)], reducer="sum")
    w.add(rows, w.dist.splat(number, "f32", ids.dist.shape))


def _selected(w: World, g: Graph, ids: Tensor, places: int, kept: Tensor | None, number: float) -> Tensor:
    """The number where the index along the last dim is the id."""
    shape, dims = (*ids.shape, places), range(len(ids.shape))
    line = w.emit(g, "iota", [], dtype=ids.dtype, shape=shape, dimension=len(ids.shape))
    there = w.emit(g, "compare", [spread(g, ids, shape, dims), line], direction="EQ")
    if kept is not None:
        there = w.emit(g, "and", [there, spread(g, kept, shape, dims)])
    if number == 1 and w.chance(0.5):
        return w.emit(g, "convert", [there], dtype="f32")
    return keep(w, g, there, g.splat(number, "f32", shape)) if w.slip() else w.emit(
        g, "select", [there, g.splat(number, "f32", shape), g.splat(0.0, "f32", shape)]
    )  # fmt: skip


def _written(w: World, ids: Tensor, places: int, kept: Tensor | None, number: float) -> tuple[Tensor, float]:
    """1, or -1, written at each row's id where that is kept, and the factor that makes it the number."""
    g, shape = w.dist, (*ids.shape, places)
    ones = g.splat(1.0, "f32", ids.shape)
    updates, sign = ones, 1
    if kept is not None:
        updates = w.emit(g, "convert", [kept], dtype="f32")
        if w.chance(0.5):
            out = w.emit(g, "convert", [w.emit(g, "not", [kept])], dtype="f32")
            updates, sign = w.emit(g, "subtract", [out, ones]), -1
    dims = list(range(len(ids.shape)))
    written = w.emit(
        g, "scatter", [g.splat(0.0, "f32", shape), ids, updates], update_window_dims=[],
        inserted_window_dims=[len(dims)], scatter_dims_to_operand_dims=[len(dims)], input_batching_dims=dims,
        scatter_indices_batching_dims=dims[::-1] if w.slip() and len({*ids.shape}) == 1 else dims,
        index_vector_dim=len(dims), reducer=w.rng.choice(["replace", "sum"]),
    )  # fmt: skip
    return written, number * sign
