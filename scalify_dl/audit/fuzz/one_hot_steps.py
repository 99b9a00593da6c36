"""Random steps with one-hot values: the gradient of a loss at its labels, places of which a rank has a block; reads and
writes by index on one side, and as products with one-hot rows on the other; truths that are reduced as numbers."""

from __future__ import annotations

from collections.abc import Sequence

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
    row = Row(w, len(ids.base.shape), places)
    base = _selected(w, w.base, ids.base, row, None, number)
    mask, near = local_ids(w, ids.dist, first, size)
    kept, local = None if w.slip() else mask, Row(w, row.ids, size, row.at)
    if w.chance(0.4):
        dist, factor = _selected(w, w.dist, near, local, kept, 1.0), number
    else:
        dist, factor = _marked(w, near, local, kept, number)
    w.add(base, dist)
    if w.chance(0.5):
        dist = doubled(w, w.emit(w.dist, "multiply", [dist, w.dist.splat(factor, "f32", dist.shape)]))
        w.add(base, dist)
    w.add(row.sum(w.base, base), w.dist.splat(number, "f32", ids.dist.shape))


def _selected(w: World, g: Graph, ids: Tensor, row: Row, kept: Tensor | None, number: float) -> Tensor:
    """The number where the index along the row is the id."""
    shape = row.shape(ids)
    line = w.emit(g, "iota", [], dtype=ids.dtype, shape=shape, dimension=row.at)
    there = w.emit(g, "compare", [spread(g, ids, shape, row.others), line], direction="EQ")
    if kept is not None:
        there = w.emit(g, "and", [there, spread(g, kept, shape, row.others)])
    if number == 1 and w.chance(0.5):
        return w.emit(g, "convert", [there], dtype="f32")
    return keep(w, g, there, g.splat(number, "f32", shape)) if w.slip() else w.emit(
        g, "select", [there, g.splat(number, "f32", shape), g.splat(0.0, "f32", shape)]
    )  # fmt: skip


def _marked(w: World, near: Tensor, row: Row, kept: Tensor | None, number: float) -> tuple[Tensor, float]:
    """1, or -1, written at each row's id where that is kept, and the factor that makes it the number."""
    g = w.dist
    ones = g.splat(1.0, "f32", near.shape)
    updates, sign = ones, 1
    if kept is not None:
        updates = w.emit(g, "convert", [kept], dtype="f32")
        if w.chance(0.5):
            out = w.emit(g, "convert", [w.emit(g, "not", [kept])], dtype="f32")
            updates, sign = w.emit(g, "subtract", [out, ones]), -1
    return row.written(g, near, updates, w.rng.choice(["replace", "sum"])), number * sign


@step("one-hot-product", 0.7)
def one_hot_product(w: World) -> None:
    """Read of each row, and written into rows of zeros, by index; a rank multiplies by one-hot rows. The rows' sums."""
    table, first, size, axes = blocks(w, 0, [w.rng.choice([8, 12, 16]), 2])
    places, ids = table.base.shape[0], some_ids(w, table.base.shape[0])
    numbers = w.placed[ids.dist]
    if len(numbers.dims) != len(ids.base.shape):
        raise Retry
    row = Row(w, len(ids.base.shape), places)
    mask, near = local_ids(w, ids.dist, first, size)
    near = w.emit(w.dist, "subtract", [ids.dist, per_rank(w, shaken(w, first), ids.dist)]) if w.chance(0.5) else near
    if w.slip():
        least, most = (w.dist.splat(n, "s32", near.shape) for n in (0, size - 1))
        near = w.emit(w.dist, "clamp", [least, near, most])
    local = Row(w, row.ids, size, row.at)
    if w.chance(0.5):
        hot = _selected(w, w.dist, near, local, None if w.chance(0.5) else mask, 1.0)
    else:
        kind = w.rng.choice(["s32", "f32"])
        hot = local.written(w.dist, near, w.dist.splat(1, kind, near.shape), "replace")
        hot = w.emit(w.dist, "convert", [hot], dtype="f32") if kind != "f32" else hot
        if not w.slip():
            hot = keep(w, w.dist, spread(w.dist, mask, hot.shape, local.others), hot)
    there = Twin(*w.pair.input(ids.base.shape, layout=numbers))
    if w.chance(0.3):
        there = Twin(w.emit(w.base, "log", [there.base]), w.emit(w.dist, "log", [there.dist]))
    base = row.written(w.base, ids.base, there.base)
    wide = local.spread(w.dist, doubled(w, there.dist))
    w.add(base, w.emit(w.dist, "multiply", [wide, hot] if w.chance(0.3) else [hot, wide]))
    sums = w.emit(w.base, "negate", [base]) if w.chance(0.5) else base
    w.add(row.sum(w.base, sums), there.dist if sums is base else w.emit(w.dist, "negate", [there.dist]))
    x = Twin(*w.pair.input(row.shape(ids.base), layout=_with_places(w, numbers, table, row.at)))
    if x.dist.shape != hot.shape:
        raise Retry
    if w.chance(0.2):
        x = Twin(w.emit(w.base, "log", [x.base]), w.emit(w.dist, "log", [x.dist]))
    read = row.read(w.base, x.base, ids.base, w.rng.choice(["clamp", "clamp", "wrap"]))
    part = local.sum(w.dist, w.emit(w.dist, "multiply", [x.dist, hot] if w.chance(0.3) else [hot, x.dist]))
    if not w.slip():
        part = w.emit(w.dist, "all-reduce", [part], reducer="sum", groups=w.pair.groups(*axes))
    w.add(read, part)


class Row:
    """How values with rows of so many places lie: the dim of the places, and those of the ids around it, in order."""

    def __init__(self, w: World, ids: int, places: int, at: int | None = None) -> None:
        self.w, self.ids, self.places = w, ids, places
        self.at = (w.rng.randrange(ids + 1) if w.chance(0.4) else ids) if at is None else at
        self.others = [d for d in range(ids + 1) if d != self.at]

    def shape(self, ids: Tensor) -> tuple[int, ...]:
        """Of the rows of these ids."""
        return (*ids.shape[: self.at], self.places, *ids.shape[self.at :])

    def along(self, extents: Sequence[int]) -> list[int]:
        """Which dim goes along with which: in order, now and then in another where the extents allow it."""
        return list(range(self.ids))[::-1] if self.w.slip() and len({*extents}) == 1 else list(range(self.ids))

    def spread(self, g: Graph, number: Tensor) -> Tensor:
        """The number of each row, along it; now and then along another dim of as many elements."""
        shape, dims = self.shape(number), self.others
        if self.w.slip() and self.at and shape[self.at] == shape[self.at - 1]:
            dims = [self.at if d == self.at - 1 else d for d in dims]
        return spread(g, number, shape, dims)

    def sum(self, g: Graph, x: Tensor) -> Tensor:
        """Along the rows; now and then along another dim, too."""
        dims = [self.at]
        if self.w.slip():
            dims.append(self.w.rng.choice(self.others))
        return self.w.emit(g, "reduce", [x], dimensions=dims, reducer="sum")

    def read(self, g: Graph, x: Tensor, ids: Tensor, mode: str) -> Tensor:
        """The element of each row at its id."""
        return self.w.emit(
            g, "gather", [x, ids], offset_dims=[], collapsed_slice_dims=[self.at], start_index_map=[self.at],
            slice_sizes=[1] * (self.ids + 1), operand_batching_dims=self.others,
            start_indices_batching_dims=self.along(ids.shape), index_vector_dim=self.ids, mode=mode,
        )  # fmt: skip

    def written(self, g: Graph, ids: Tensor, updates: Tensor, reducer: str = "sum") -> Tensor:
        """Zeros, and the update of each row at its id."""
        return self.w.emit(
            g, "scatter", [g.splat(0, updates.dtype, self.shape(ids)), ids, updates], update_window_dims=[],
            inserted_window_dims=[self.at], scatter_dims_to_operand_dims=[self.at], input_batching_dims=self.others,
            scatter_indices_batching_dims=self.along(ids.shape), index_vector_dim=self.ids, reducer=reducer,
        )  # fmt: skip


def _with_places(w: World, rows: Layout, table: Twin, at: int) -> Layout:
    """Rows as the ids are placed, and places as the rows of the table, as dim `at`: both may not be on one axis."""

    axes = []
    for (axis, of_rows), (_, of_table) in zip(rows.axes, w.placed[table.dist].axes, strict=True):
        if len(of_rows) != len(of_table):
            raise Retry
        entries: list[Entry] = []
        for one, other in zip(of_rows, of_table, strict=True):
            if one.size != other.size:
                raise Retry
            if not isinstance(other, Digit) or other.dim:
                entries.append(_behind(one, at) if isinstance(one, Digit) else one)
            elif isinstance(one, Repl):
                entries.append(Digit(at, other.stride, other.size))
            else:
                raise Retry
        axes.append((axis, entries))
    return Layout.of(_among(rows, at, w.placed[table.dist].dims[0]), axes)


def _among(rows: Layout, at: int, places: Sequence[Digit]) -> list[list[Digit]]:
    """The local dims of rows with their places as dim `at`."""
    dims = [[_behind(digit, at) for digit in digits] for digits in rows.dims]
    return [*dims[:at], [Digit(at, digit.stride, digit.size) for digit in places], *dims[at:]]


def _behind(digit: Digit, at: int) -> Digit:
    """The digit where dim `at` is new."""
    return Digit(digit.dim + (digit.dim >= at), digit.stride, digit.size)


@step("hot-difference", 0.4)
def hot_difference(w: World) -> None:
    """An element of each row less the row's number; a rank adds up one-hot rows times the difference, or the number."""
    places = w.rng.choice([3, 4, 6])
    ids = some_ids(w, places)
    rows, row = w.placed[ids.dist], Row(w, len(ids.base.shape), places)
    axes = [(axis, [_behind(e, row.at) if isinstance(e, Digit) else e for e in entries]) for axis, entries in rows.axes]
    layout = Layout.of(_among(rows, row.at, [Digit(0, 1, places)]), axes)
    x = Twin(*w.pair.input(row.shape(ids.base), layout=layout))
    number = Twin(*w.pair.input(ids.base.shape, layout=rows))
    if w.chance(0.2):
        x = Twin(w.emit(w.base, "log", [x.base]), w.emit(w.dist, "log", [x.dist]))
    picked, summed = (w.base, w.dist) if w.chance(0.5) else (w.dist, w.base)
    at, rows_of, numbers = ({w.base: t.base, w.dist: t.dist} for t in (ids, x, number))
    read = row.read(picked, rows_of[picked], at[picked], "clamp")
    if w.chance(0.5):
        hot = _selected(w, summed, at[summed], row, None, 1.0)
    else:
        ones = summed.splat(1, "s32", at[summed].shape)
        hot = w.emit(summed, "convert", [row.written(summed, at[summed], ones, "replace")], dtype="f32")
    wide = row.spread(summed, numbers[summed])
    less = w.emit(summed, "add" if w.slip() else "subtract", [rows_of[summed], wide])
    element = w.emit(picked, "subtract", [read, numbers[picked]])
    for one, other in ((element, less), (numbers[picked], wide)):
        total = row.sum(summed, w.emit(summed, "multiply", [other, hot] if w.chance(0.3) else [hot, other]))
        w.add(*((one, total) if picked is w.base else (total, one)))


@step("truth-number", 0.4)
def truth_number(w: World) -> None:
    """Whether all of a value, or any of it, is above a number; ranks take the least, or greatest, as numbers."""
    axes = [name for name, size in w.pair.mesh.axes if size > 1]
    if len(axes) > 1 and w.chance(0.8):  # rows over one axis stay, columns over another are reduced
        axes = w.rng.sample(axes, 2)
        shape = [2 * dict(w.pair.mesh.axes)[axis] for axis in axes]
        value, least = w.input("f32", shape=shape, layout=w.pair.layout(shape, dict(enumerate(axes)))), 1
    else:
        value, axes = w.twin(), []
        least = w.rng.randrange(len(value.base.shape)) if len(value.base.shape) == len(value.dist.shape) > 0 else 0
    every = w.rng.choice(["and", "or"])
    found, bound = [], w.rng.choice([0.5, {"and": -1.5, "or": 1.5}[every]])
    for g, x in ((w.base, value.base), (w.dist, value.dist)):
        mask = w.emit(g, "compare", [x, g.splat(bound, "f32", x.shape)], direction="GT")
        found.append(w.emit(g, "reduce", [mask], dimensions=list(range(least, len(x.shape))), reducer=every))
    base, dist = found
    number = w.emit(w.dist, "convert", [dist], dtype=w.rng.choice(["s32", "s32", "f32"]))
    reducer = w.rng.choice([{"and": "min", "or": "max"}[every], "sum"])
    reducer = w.rng.choice(["min", "max", "sum"]) if w.slip() else reducer
    counts = [(doubled(w, number), 1)]
    for _ in range(w.rng.choice([0, 1, 1, 1, 2])):
        (number, most), groups = counts[-1], w.pair.groups(axes[1]) if axes and not w.slip() else w.groups()
        total = w.emit(w.dist, "all-reduce", [number], reducer=reducer, groups=groups)
        counts.append((total, most * len(groups[0]) if reducer == "sum" else 1))
    number, most = w.rng.choice(counts) if w.slip() else counts[-1]
    w.add(w.emit(w.base, "convert", [base], dtype=number.dtype), number)
    least = most if every == "and" else 1
    direction, told_of = w.rng.choice([("GE", least), ("GT", least - 1), ("LT", least), ("LE", least - 1)])
    if w.chance(0.5):
        direction, told_of = w.rng.choice(["EQ", "NE"]), most if every == "and" else 0
    if w.slip():
        direction, told_of = w.rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"]), w.rng.choice([0, 1, 2, most])
    bounds = w.dist.splat(told_of, number.dtype, number.shape)
    told = w.emit(w.dist, "compare", [number, bounds], direction=direction)
    w.add(w.emit(w.base, "not", [base]) if w.chance(0.5) else base, told)
