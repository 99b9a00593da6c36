"""Random steps with one-hot values: the gradient of a loss at its labels, places of which a rank has a block; reads and
writes by index on one side, and as products with one-hot rows on the other; truths that are reduced as numbers."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Entry, Layout, Repl

from ..pair import spread
from .indexed_steps import add_rows, blocks, doubled, keep, local_ids, per_rank, shaken, some_ids
from .world import Retry, Twin, World, step


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


@step("one-hot-product", 0.7)
def one_hot_product(w: World) -> None:
    """Read of each row, and written into rows of zeros, by index; a rank multiplies by one-hot rows. The rows' sums."""
    table, first, size, axes = blocks(w, 0, [w.rng.choice([8, 12, 16]), 2])
    places, ids = table.base.shape[0], some_ids(w, table.base.shape[0])
    shape, dims = (*ids.base.shape, places), list(range(len(ids.base.shape)))
    numbers = w.placed[ids.dist]
    if len(numbers.dims) != len(dims):
        raise Retry
    mask, near = local_ids(w, ids.dist, first, size)
    near = w.emit(w.dist, "subtract", [ids.dist, per_rank(w, shaken(w, first), ids.dist)]) if w.chance(0.5) else near
    if w.chance(0.5):
        hot = _selected(w, w.dist, near, size, None if w.chance(0.5) else mask, 1.0)
    else:
        kind = w.rng.choice(["s32", "f32"])
        hot = _one_written(w, near, size, kind)
        hot = w.emit(w.dist, "convert", [hot], dtype="f32") if kind != "f32" else hot
        if not w.slip():
            hot = keep(w, w.dist, spread(w.dist, mask, hot.shape, dims), hot)
    there = Twin(*w.pair.input(ids.base.shape, layout=numbers))
    if w.chance(0.3):
        there = Twin(w.emit(w.base, "log", [there.base]), w.emit(w.dist, "log", [there.dist]))
    base = _element_written(w, ids.base, there.base, places)
    wide = spread(w.dist, doubled(w, there.dist), hot.shape, dims)
    w.add(base, w.emit(w.dist, "multiply", [wide, hot] if w.chance(0.3) else [hot, wide]))
    sums = w.emit(w.base, "negate", [base]) if w.chance(0.5) else base
    w.add(w.emit(w.base, "reduce", [sums], dimensions=[len(dims)], reducer="sum"),
          there.dist if sums is base else w.emit(w.dist, "negate", [there.dist]))  # fmt: skip
    x = Twin(*w.pair.input(shape, layout=_with_places(w, numbers, table, len(dims))))
    if len(x.dist.shape) != len(shape) or x.dist.shape != hot.shape:
        raise Retry
    if w.chance(0.2):
        x = Twin(w.emit(w.base, "log", [x.base]), w.emit(w.dist, "log", [x.dist]))
    read = w.emit(
        w.base, "gather", [x.base, ids.base], offset_dims=[], collapsed_slice_dims=[len(dims)],
        start_index_map=[len(dims)], slice_sizes=[1] * len(shape), operand_batching_dims=dims,
        start_indices_batching_dims=dims, index_vector_dim=len(dims), mode=w.rng.choice(["clamp", "clamp", "wrap"]),
    )  # fmt: skip
    part = w.emit(w.dist, "multiply", [x.dist, hot] if w.chance(0.3) else [hot, x.dist])
    part = w.emit(w.dist, "reduce", [part], dimensions=[len(dims)], reducer="sum")
    if not w.slip():
        part = w.emit(w.dist, "all-reduce", [part], reducer="sum", groups=w.pair.groups(*axes))
    w.add(read, part)


def _with_places(w: World, rows: Layout, table: Twin, dim: int) -> Layout:
    """Rows as the ids are placed, and places as the rows of the table: both may not be on one axis."""
    axes = []
    for (axis, of_rows), (_, of_table) in zip(rows.axes, w.placed[table.dist].axes, strict=True):
        if len(of_rows) != len(of_table):
            raise Retry
        entries: list[Entry] = []
        for one, other in zip(of_rows, of_table, strict=True):
            if one.size != other.size:
                raise Retry
            if not isinstance(other, Digit) or other.dim:
                entries.append(one)
            elif isinstance(one, Repl):
                entries.append(Digit(dim, other.stride, other.size))
            else:
                raise Retry
        axes.append((axis, entries))
    places = [Digit(dim, digit.stride, digit.size) for digit in w.placed[table.dist].dims[0]]
    return Layout.of([*rows.dims, places], axes)


def _one_written(w: World, ids: Tensor, places: int, dtype: str) -> Tensor:
    """1 at each row's id."""
    return _element_written(w, ids, w.dist.splat(1, dtype, ids.shape), places, w.dist, "replace")


def _element_written(
    w: World, ids: Tensor, updates: Tensor, places: int, side: Graph | None = None, reducer: str = "sum"
) -> Tensor:
    g, dims = side or w.base, list(range(len(ids.shape)))
    return w.emit(
        g, "scatter", [g.splat(0, updates.dtype, (*ids.shape, places)), ids, updates], update_window_dims=[],
        inserted_window_dims=[len(dims)], scatter_dims_to_operand_dims=[len(dims)], input_batching_dims=dims,
        scatter_indices_batching_dims=dims, index_vector_dim=len(dims), reducer=reducer,
    )  # fmt: skip


@step("hot-difference", 0.4)
def hot_difference(w: World) -> None:
    """An element of each row less the row's number; a rank adds up one-hot rows times the difference, or the number."""
    places = w.rng.choice([3, 4, 6])
    ids = some_ids(w, places)
    rows, dims = w.placed[ids.dist], list(range(len(ids.base.shape)))
    shape = (*ids.base.shape, places)
    x = Twin(*w.pair.input(shape, layout=Layout.of([*rows.dims, [Digit(len(dims), 1, places)]], rows.axes)))
    number = Twin(*w.pair.input(ids.base.shape, layout=rows))
    if w.chance(0.2):
        x = Twin(w.emit(w.base, "log", [x.base]), w.emit(w.dist, "log", [x.dist]))
    read = w.emit(
        w.base, "gather", [x.base, ids.base], offset_dims=[], collapsed_slice_dims=[len(dims)],
        start_index_map=[len(dims)], slice_sizes=[1] * len(shape), operand_batching_dims=dims,
        start_indices_batching_dims=dims, index_vector_dim=len(dims), mode="clamp",
    )  # fmt: skip
    if w.chance(0.5):
        hot = _selected(w, w.dist, ids.dist, places, None, 1.0)
    else:
        hot = w.emit(w.dist, "convert", [_one_written(w, ids.dist, places, "s32")], dtype="f32")
    wide = spread(w.dist, number.dist, x.dist.shape, dims)
    less = w.emit(w.dist, "add" if w.slip() else "subtract", [x.dist, wide])
    for base, other in ((w.emit(w.base, "subtract", [read, number.base]), less), (number.base, wide)):
        product = w.emit(w.dist, "multiply", [other, hot] if w.chance(0.3) else [hot, other])
        w.add(base, w.emit(w.dist, "reduce", [product], dimensions=[len(dims)], reducer="sum"))


@step("truth-number", 0.4)
def truth_number(w: World) -> None:
    """Whether all of a value, or any of it, is above a number; ranks take the least, or greatest, as numbers."""
    value = w.twin()
    every = w.rng.choice(["and", "or"])
    least = w.rng.randrange(len(value.base.shape)) if len(value.base.shape) == len(value.dist.shape) > 0 else 0
    found = []
    for g, x in ((w.base, value.base), (w.dist, value.dist)):
        mask = w.emit(g, "compare", [x, g.splat(0.5, "f32", x.shape)], direction="GT")
        found.append(w.emit(g, "reduce", [mask], dimensions=list(range(least, len(x.shape))), reducer=every))
    base, dist = found
    number = w.emit(w.dist, "convert", [dist], dtype=w.rng.choice(["s32", "s32", "f32"]))
    reducer = {"and": "min", "or": "max"}[every]
    reducer = w.rng.choice(["min", "max", "sum"]) if w.slip() else reducer
    if w.chance(0.7):
        number = w.emit(w.dist, "all-reduce", [number], reducer=reducer, groups=w.groups())
    w.add(w.emit(w.base, "convert", [base], dtype=number.dtype), number)
    direction, bound = w.rng.choice([("EQ", 1), ("GE", 1), ("NE", 0), ("GT", 0)])
    if w.slip():
        direction, bound = w.rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"]), w.rng.choice([0, 1, 2])
    bounds = w.dist.splat(bound, number.dtype, number.shape)
    w.add(base, w.emit(w.dist, "compare", [number, bounds], direction=direction))
