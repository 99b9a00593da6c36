"""Random steps around tables that are sharded along the indexed dim: reads and writes by local ids under a mask, and
scatters of which every rank makes a block. Bounds, offsets, spelling and order of ops vary, right and wrong."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import spread
from .world import Retry, Twin, World, step

ByRank = dict[int, int]


def per_rank(w: World, values: ByRank, like: Tensor) -> Tensor:
    """An integer of the rank in every element."""
    if len(set(values.values())) == 1:
        return w.dist.splat(values[0], like.dtype, like.shape)
    op = w.dist.add("constant", [], [(like.dtype, ())])
    op.rank_numbers["value", 0] = values
    return spread(w.dist, op.result, like.shape, [])


def blocks(w: World, dim: int, shape: Sequence[int]) -> tuple[Twin, ByRank, int, list[str]]:
    """A fresh value whose dim `dim` is cut over some axes: it, the first local index on every rank, the local size,
    the axes. Another dim may be cut over the others."""
    axes = w.axes()
    w.rng.shuffle(axes)
    sizes, names = dict(w.pair.mesh.axes), [name for name, _ in w.pair.mesh.axes]
    count = 1
    for axis in axes:
        count *= sizes[axis]
    rest = [a for a in names if a not in axes and sizes[a] > 1]
    split: dict[int, str | list[str]] = {dim: axes}
    other = 1 - dim
    if rest and len(shape) > 1 and w.chance(0.4) and shape[other] % sizes[rest[0]] == 0:
        split[other] = rest[0]
    if shape[dim] % count or count == 1:
        raise Retry
    local = shape[dim] // count
    first = {}
    for rank, at in enumerate(w.pair.mesh.coordinates):
        number = 0
        for axis in axes:
            number = number * sizes[axis] + at[names.index(axis)]
        first[rank] = number * local
    return w.input("f32", shape=shape, layout=w.pair.layout(shape, split)), first, local, axes


def doubled(w: World, x: Tensor) -> Tensor:
    """The value, now and then twice as large."""
    return w.emit(w.dist, "multiply", [x, w.dist.splat(2, x.dtype, x.shape)]) if w.slip() else x


def shaken(w: World, values: ByRank) -> ByRank:
    """The same numbers, now and then one off somewhere."""
    if not w.slip():
        return dict(values)
    delta = w.rng.choice([-2, -1, 1, 2])
    kind = w.rng.choice(["all", "one", "reversed", "none"])
    if kind == "all":
        return {r: v + delta for r, v in values.items()}
    if kind == "one":
        rank = w.rng.choice(list(values))
        return {r: v + delta * (r == rank) for r, v in values.items()}
    if kind == "reversed":
        return dict(zip(values, list(values.values())[::-1], strict=True))
    return dict.fromkeys(values, 0)


def local_ids(w: World, ids: Tensor, first: ByRank, size: int) -> tuple[Tensor, Tensor]:
    """(mask, local ids), in one of several spellings."""
    g = w.dist

    def compare(x: Tensor, direction: str, bound: ByRank) -> Tensor:
        strict = {"GE": "GT", "LT": "LE", "LE": "LT", "GT": "GE"}
        direction = strict[direction] if w.slip() else direction
        return w.emit(g, "compare", [x, per_rank(w, bound, x)], direction=direction)

    near = w.emit(g, "subtract", [ids, per_rank(w, shaken(w, first), ids)])
    last = {r: f + size for r, f in first.items()}
    style = w.rng.choice(["ids", "near", "outside"])
    join = "or" if w.slip() else "and"
    if style == "ids":
        mask = w.emit(
            g, join, [compare(ids, "GE", shaken(w, first)), compare(ids, "LT", shaken(w, last))]
        )  # fmt: skip
    elif style == "near":
        none, all_ = dict.fromkeys(first, 0), dict.fromkeys(first, size)
        mask = w.emit(g, join, [compare(near, "GE", none), compare(near, "LT", shaken(w, all_))])
    else:
        out = w.emit(
            g,
            {"and": "or", "or": "and"}[join],
            [compare(ids, "LT", shaken(w, first)), compare(ids, "GE", shaken(w, last))],
        )
        mask = w.emit(g, "not", [out])
    kept = w.rng.choice(["select", "multiply", "clamp", "as it is"])
    if kept == "select":
        near = w.emit(g, "select", [mask, near, g.splat(w.rng.choice([0, 0, 1]), ids.dtype, ids.shape)])
    elif kept == "multiply":
        near = w.emit(g, "multiply", [near, w.emit(g, "convert", [mask], dtype=ids.dtype)])
    elif kept == "clamp":
        low, high = (g.splat(v, ids.dtype, ids.shape) for v in (0, size - 1))
        near = w.emit(g, "clamp", [low, near, high])
    return mask, near


def keep(w: World, g: Graph, mask: Tensor, x: Tensor) -> Tensor:
    """x where the mask is set, zero elsewhere."""
    wide = spread(g, mask, x.shape, range(len(mask.shape))) if mask.shape != x.shape else mask
    style = w.rng.choice(["select", "select not", "multiply"])
    if style == "multiply":
        return w.emit(g, "multiply", [x, w.emit(g, "convert", [wide], dtype=x.dtype)])
    fill = g.splat(1.0 if g is w.dist and w.slip() else 0.0, x.dtype, x.shape)
    if style == "select":
        return w.emit(g, "select", [wide, x, fill])
    return w.emit(g, "select", [w.emit(g, "not", [wide]), fill, x])


def some_ids(w: World, rows: int) -> Twin:
    """Ids of rows, placed at random, now and then out of range or without one."""
    shape = w.rng.choice([(4,), (6,), (4, 2), (2, 6), (4, 4)])
    layout = w.layout(shape, pending=False)
    if len(layout.local_shape) != len(shape):
        raise Retry
    bounds = w.rng.choice([(0, rows), (0, rows), (0, rows), (0, rows + 2), (-2, rows)])
    base, dist = w.pair.input(shape, dtype="s32", range=bounds, layout=layout)
    w.dist.inputs[-1].range = bounds
    w.placed[dist] = layout
    return Twin(base, dist)


def read(w: World, g: Graph, table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table by ids."""
    rank = len(ids.shape)
    return w.emit(
        g, "gather", [table, ids], offset_dims=[rank], collapsed_slice_dims=[0], start_index_map=[0],
        slice_sizes=[1, table.shape[1]], index_vector_dim=rank, mode="clamp",
    )  # fmt: skip


def filled(w: World, g: Graph, ids: Tensor, rows: int, x: Tensor) -> Tensor:
    """x where the ids are in range, or nearly, else a filler that is not zero."""
    low, high = (v + w.rng.choice([-1, 1]) * (g is w.dist and w.slip()) for v in (0, rows - 1))
    known = w.emit(
        g, "and",
        [
            w.emit(g, "compare", [ids, g.splat(low, ids.dtype, ids.shape)], direction="GE"),
            w.emit(g, "compare", [ids, g.splat(high, ids.dtype, ids.shape)], direction="LE"),
        ],
    )  # fmt: skip
    if w.chance(0.3):
        known = w.emit(g, "reduce", [spread(g, known, (*known.shape, 1), range(len(known.shape)))],
                       dimensions=[len(known.shape)], reducer="and")  # fmt: skip
    filler = g.splat(7.0, x.dtype, x.shape)
    if w.chance(0.3):
        return w.emit(g, "select", [spread(g, w.emit(g, "not", [known]), x.shape, range(len(ids.shape))), filler, x])
    return w.emit(g, "select", [spread(g, known, x.shape, range(len(ids.shape))), x, filler])


def add_rows(w: World, g: Graph, rows: int, ids: Tensor, updates: Tensor, reducer: str = "sum") -> Tensor:
    """Zeros with updates added at the rows `ids`."""
    rank, width = len(ids.shape), updates.shape[-1]
    return w.emit(
        g, "scatter", [g.splat(0.0, "f32", (rows, width)), ids, updates], update_window_dims=[rank],
        inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=rank, reducer=reducer,
    )  # fmt: skip


@step("masked-read", 0.7)
def masked_read(w: World) -> None:
    """A row of a sharded table, where the rank has it; else zero; summed over the ranks or not."""
    table, first, size, axes = blocks(w, 0, [w.rng.choice([8, 12, 16]), w.rng.choice([2, 4])])
    ids = some_ids(w, table.base.shape[0])
    base_ids, dist_ids = ids.base, ids.dist
    expected = read(w, w.base, table.base, base_ids)
    if w.chance(0.2):  # the baseline masks, too
        known = w.emit(
            w.base, "compare", [base_ids, w.base.splat(table.base.shape[0], "s32", base_ids.shape)], direction="LT"
        )  # fmt: skip
        expected = keep(w, w.base, known, expected)
    elif w.chance(0.2):
        expected = filled(w, w.base, base_ids, table.base.shape[0], expected)
    if w.chance(0.2):
        dist_ids = w.emit(w.dist, "all-gather", [dist_ids], dimension=0, groups=w.pair.groups(*w.axes()))
    mask, near = local_ids(w, dist_ids, first, size)
    if w.chance(0.15):
        over = w.pair.groups(*w.axes())
        near, mask = (w.emit(w.dist, "all-gather", [x], dimension=0, groups=over) for x in (near, mask))
    rows = read(w, w.dist, doubled(w, table.dist), near)
    if w.chance(0.2):
        rows = filled(w, w.dist, near, size, rows)
    groups = w.pair.groups(*w.axes()) if w.chance(0.25) else None
    if groups:
        rows = w.emit(w.dist, "all-gather", [rows], dimension=0, groups=groups)
        mask = w.emit(w.dist, "all-gather", [mask], dimension=0, groups=groups)
    if not w.slip():
        rows = keep(w, w.dist, mask, rows)
    w.add(expected, rows)
    if w.chance(0.2):
        rows = w.emit(w.dist, "all-gather", [rows], dimension=0, groups=w.pair.groups(*w.axes()))
    if w.chance(0.7):
        w.add(expected, w.emit(w.dist, "all-reduce", [rows], reducer="sum", groups=w.pair.groups(*axes)))


@step("late-gather", 0.2)
def late_gather(w: World) -> None:
    """Ids that are cut over the axes of the table: masks and local ids are made of them before, or after, they are
    gathered."""
    table, first, size, axes = blocks(w, 0, [w.rng.choice([8, 12]), 2])
    count = len(set(first.values()))
    shape = (2 * count,)
    base_ids, dist_ids = w.pair.input(shape, {0: axes}, dtype="s32", range=(0, table.base.shape[0]))
    groups = w.pair.groups(*axes)

    def whole(x: Tensor) -> Tensor:
        return w.emit(w.dist, "all-gather", [x], dimension=0, groups=groups)

    before, after = w.chance(0.3), w.chance(0.5)
    mask, near = local_ids(w, whole(dist_ids) if before else dist_ids, first, size)
    if after and not before:
        mask, near = whole(mask), whole(near)
    rows = read(w, w.dist, table.dist, near)
    if not before and not after:
        rows = whole(rows)
        mask = mask if rows.shape[0] == mask.shape[0] else whole(mask)
    w.add(read(w, w.base, table.base, base_ids), keep(w, w.dist, mask, rows))


@step("filled-read", 0.5)
def filled_read(w: World) -> None:
    """A read that gives a number where the id is out of range, on one side or both; ids that never are, or may be."""
    rows, columns = w.rng.choice([8, 12]), w.rng.choice([4, 8])
    axis, size = w.rng.choice(w.pair.mesh.axes)
    split = {1: axis} if columns % size == 0 and w.chance(0.7) else {}
    table = w.input("f32", shape=[rows, columns], layout=w.pair.layout([rows, columns], split))
    bounds = (0, rows) if not w.slip() else w.rng.choice([(0, rows + 2), (-2, rows)])
    parts = {axis: "sum"} if w.chance(0.2) else {}
    base_ids, part = w.pair.input((4,), {}, dtype="s32", range=bounds, pending=parts)
    ids = part if not parts else w.emit(w.dist, "all-reduce", [part], reducer="sum", groups=w.pair.groups(axis))
    compared = part if w.slip() else ids  # (parts of a sum may be out of range)
    filler, results = w.rng.choice([float("nan"), 1.0]), []
    sides = w.rng.choice([(True, False), (False, True), (True, True)])
    for g, t, i, c, fills in (
        (w.base, table.base, base_ids, base_ids, sides[0]), (w.dist, table.dist, ids, compared, sides[1])
    ):  # fmt: skip
        found = read(w, g, t, i)
        if fills:
            last = rows - 1 if not w.slip() else rows - 2
            off = w.rng.choice([0, 1, 3])  # a comparison with a number is decided before anything corresponds
            c = w.emit(g, "add", [c, g.splat(off, "s32", i.shape)]) if off else c
            if w.chance(0.5):  # bounds of its operands do not decide it either: it is a claim about ids
                c = w.emit(g, "subtract", [w.emit(g, "add", [c, c]), c])
            known = w.emit(g, "and", [
                w.emit(g, "compare", [c, g.splat(off, "s32", i.shape)], direction="GE"),
                w.emit(g, "compare", [c, g.splat(last + off, "s32", i.shape)], direction="LE"),
            ])  # fmt: skip
            wide, other = spread(g, known, found.shape, [0]), g.splat(filler, "f32", found.shape)
            turned = w.chance(0.3)
            wide = w.emit(g, "not", [wide]) if turned else wide
            found = w.emit(g, "select", [wide, other, found] if turned else [wide, found, other])
        results.append(found)
    w.add(*results)


@step("row-of-a-rank", 0.3)
def row_of_a_rank(w: World) -> None:
    """A table of which every rank has one row: read where the id is the rank's number, or one beside it."""
    axis, count = w.rng.choice(w.pair.mesh.axes)
    if count == 1:
        raise Retry
    at = [name for name, _ in w.pair.mesh.axes].index(axis)
    shape = [count, 2]
    table = w.input("f32", shape=shape, layout=w.pair.layout(shape, {0: axis}))
    ids = w.pair.input((4,), dtype="s32", range=w.rng.choice([(0, count), (0, count + 1), (-1, count)]))
    own = shaken(w, {r: c[at] for r, c in enumerate(w.pair.mesh.coordinates)})
    if w.chance(0.5):
        mask, near = local_ids(w, ids[1], own, 1)
    else:
        mask = w.emit(w.dist, "compare", [ids[1], per_rank(w, own, ids[1])], direction="NE" if w.slip() else "EQ")
        near = w.dist.splat(0, "s32", (4,)) if w.chance(0.5) else ids[1]
    rows = keep(w, w.dist, mask, read(w, w.dist, table.dist, near))
    expected = read(w, w.base, table.base, ids[0])
    w.add(expected, rows)
    w.add(expected, w.emit(w.dist, "all-reduce", [rows], reducer="sum", groups=w.pair.groups(axis)))


@step("masked-write", 0.7)
def masked_write(w: World) -> None:
    """Updates added to the rows of a sharded table that the rank has."""
    table, first, size, _ = blocks(w, 0, [w.rng.choice([8, 12, 16]), 2])
    ids = some_ids(w, table.base.shape[0])
    shape = (*ids.base.shape, w.rng.choice([2, 4]))
    for _ in range(12):
        layout = w.layout(shape, pending=False)
        if layout.local_shape[:-1] == ids.dist.shape and len(layout.local_shape) == len(shape):
            break
    else:
        raise Retry
    updates = w.input("f32", shape=shape, layout=layout)
    base_ids, added = ids.base, updates.base
    masked, least = w.rng.choice(["not", "base", "both"]), w.rng.choice([0, 1])
    if masked != "not":  # ids that the baseline ignores, and adds at a row that is there
        seen = w.emit(w.base, "compare", [base_ids, w.base.splat(least, "s32", base_ids.shape)], direction="GE")
        added = keep(w, w.base, seen, added)
        if w.rng.random() < 0.5:
            base_ids = w.emit(w.base, "maximum", [base_ids, w.base.splat(w.rng.choice([0, 1]), "s32", base_ids.shape)])
    expected = add_rows(w, w.base, table.base.shape[0], base_ids, added)
    mask, near = local_ids(w, ids.dist, first, size)
    given = doubled(w, updates.dist)
    if masked == "both" and not w.slip():
        seen = w.emit(w.dist, "compare", [ids.dist, w.dist.splat(least, "s32", ids.dist.shape)], direction="GE")
        given = keep(w, w.dist, seen, given)
    kept = given if w.chance(0.15) else keep(w, w.dist, mask, given)
    w.add(expected, add_rows(w, w.dist, size, near, kept, "max" if w.slip() else "sum"))


@step("owner-write", 0.5)
def owner_write(w: World) -> None:
    """One place of a dim that ranks have blocks of (a cache), written by the rank that has it."""
    dim = w.rng.choice([0, 1])
    shape = [w.rng.choice([8, 12]), w.rng.choice([8, 12])]
    table, first, size, axes = blocks(w, dim, shape)
    bounds = w.rng.choice([(0, shape[dim]), (0, shape[dim]), (0, shape[dim] + 1), (-1, shape[dim])])
    at, local = w.pair.input((), {}, dtype="s32", range=bounds)
    free = [n for n, extent in w.pair.mesh.axes if n not in axes and extent > 1]
    cut = {1 - dim: free[0]} if table.dist.shape[1 - dim] != shape[1 - dim] else {}
    shape[dim] = 1
    update = w.input("f32", shape=shape, layout=w.pair.layout(shape, {} if w.slip() else cut))
    if update.dist.shape[1 - dim] != table.dist.shape[1 - dim]:
        raise Retry
    mask, near = local_ids(w, local, first, size)
    new = doubled(w, update.dist)

    def written(g: Graph, into: Tensor, part: Tensor, place: Tensor) -> Tensor:
        starts = [place if d == dim else g.constant(0, "s32") for d in (0, 1)]
        return w.emit(g, "dynamic-update-slice", [into, part, *starts])

    into = table.dist
    there = written(w.dist, into, new, near)
    old = doubled(w, into)
    if w.slip():
        found = there
    elif w.chance(0.3):
        found = w.emit(w.dist, "select", [spread(w.dist, w.emit(w.dist, "not", [mask]), into.shape, []), old, there])
    else:
        found = w.emit(w.dist, "select", [spread(w.dist, mask, into.shape, []), there, old])
    w.add(written(w.base, table.base, update.base, at), found)


@step("block-write", 0.7)
def block_write(w: World) -> None:
    """A scatter into one or two dims that are cut over axes: every rank drops what is not in its block."""
    count, dims = w.rng.choice([4, 6]), w.rng.choice([1, 2, 2])
    names, sizes = [n for n, _ in w.pair.mesh.axes], dict(w.pair.mesh.axes)
    shape = [w.rng.choice([4, 6, 8]) for _ in range(dims)]
    free = [n for n in names if sizes[n] > 1]
    w.rng.shuffle(free)
    starts, local = [], []
    for n in shape:
        axis = free.pop() if free and w.chance(0.8) else None
        if axis and n % sizes[axis]:
            raise Retry
        local.append(n // sizes[axis] if axis else n)
        first = {r: (at[names.index(axis)] * local[-1] if axis else 0) for r, at in enumerate(w.pair.mesh.coordinates)}
        op = w.dist.add("constant", [], [("s32", ())])
        op.rank_numbers["value", 0] = shaken(w, first)
        starts.append(w.emit(w.dist, "reshape", [op.result], shape=[1]))
    if len(starts) > 1 and w.slip():
        starts.reverse()
    start = w.emit(w.dist, "concatenate", starts, dimension=0)
    indices = w.pair.input((count, dims), dtype="s32", range=w.rng.choice([(0, min(shape)), (-1, max(shape) + 1)]))
    window = [w.rng.choice([2, 4])] if w.chance(0.4) else []
    split: dict[int, str] = {}
    if window and free and window[0] % sizes[free[-1]] == 0:
        split = {1: free[-1]}
    every = [n for n in names if sizes[n] > 1 and window and window[0] % sizes[n] == 0]
    if w.slip() and every:  # perhaps over an axis that numbers blocks
        split = {1: w.rng.choice(every)}
    if w.slip() and free and count % sizes[free[-1]] == 0:
        split = {0: free[-1]}
        indices = w.pair.input((count, dims), {0: free[-1]}, dtype="s32", range=(0, min(shape)))
    updates = w.pair.input((count, *window), split)
    reducer = w.rng.choice(["sum", "max", "replace"])
    results = []
    for g, i, u, extents in ((w.base, indices[0], updates[0], shape), (w.dist, indices[1], updates[1], local)):
        if g is w.dist:
            i, u = w.emit(g, "subtract", [i, spread(g, start, i.shape, [1])]), doubled(w, u)
        zeros = g.splat(0.0 if g is w.base or not w.slip() else 1.0, "f32", (*extents, *u.shape[1:]))
        results.append(
            w.emit(
                g,
                "scatter",
                [zeros, i, u],
                update_window_dims=[1] if window else [],
                inserted_window_dims=list(range(dims)),
                scatter_dims_to_operand_dims=list(range(dims)),
                input_batching_dims=[],
                scatter_indices_batching_dims=[],
                index_vector_dim=1,
                reducer=reducer,
            )
        )
    w.add(results[0], results[1])


@step("add-to-pending", 0.3)
def add_to_pending(w: World) -> None:
    """Updates that are cut over an axis, added to rows of a value that is pending there, or not."""
    axis, size = w.rng.choice(w.pair.mesh.axes)
    rows, width = 4, w.rng.choice([2, 4])
    reducer = w.rng.choice(["sum", "sum", "max", None])
    pending = {axis: reducer} if reducer else {}
    x = w.input("f32", shape=[rows, width], layout=w.pair.layout([rows, width], {}, pending=pending))
    count = 2 * size
    ids = w.pair.input((count,), {0: axis}, dtype="s32", range=(0, rows))
    updates = w.pair.input((count, width), {0: axis} if not w.slip() else {})
    results = []
    for g, into, i, u in ((w.base, x.base, ids[0], updates[0]), (w.dist, x.dist, ids[1], updates[1])):
        if i.shape[0] != u.shape[0]:
            raise Retry
        results.append(
            w.emit(
                g, "scatter", [into, i, u], update_window_dims=[1], inserted_window_dims=[0],
                scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer="sum",
            )
        )  # fmt: skip
    w.add(*results)
