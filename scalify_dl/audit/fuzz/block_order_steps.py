"""Random steps around the greatest of a row that is cut over ranks: found in blocks, and of what blocks have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import Pair, spread
from .order_steps import gathered_in
from .padding_steps import first
from .partitioner_steps import rank_scalar
from .ring_steps import ring_axis
from .world import Retry, World, step


@dataclass(frozen=True)
class Search:
    """How a row that is cut over an axis is searched; anything else than this is wrong, or may be."""

    kept: int = 2
    """Of the row, by a top-k."""
    of_block: int = 2
    """Of each block."""
    reducer: str = "argmax"
    compared: str = "max"
    """What blocks have, and is compared with what the row has."""
    second: str = "argmax"
    """Among what blocks have."""
    apart: int | None = None
    """Elements between the beginnings of blocks, where they are not as many as a block has."""
    late: int = 0
    """Blocks that are counted too many before the first."""
    order: Sequence[int] | None = None
    """Of the blocks that are gathered."""
    order_of_places: Sequence[int] | None = None
    far: int = 1 << 20
    """Of ranks that have not the greatest of the row."""
    direction: str = "EQ"
    swapped: bool = False
    """The row's greatest is compared with the rank's; else the rank's with it."""
    combined: str = "max"
    """How ranks find what is greatest in the row; "" where each takes its own for it."""
    least: str = "min"
    below: int = 0
    """Indices below this wrap round."""
    stable: bool = True
    dtype: str = "s32"


def without(shape: Sequence[int], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], *shape[dim + 1 :])


def place(g: Graph, x: Tensor, dim: int, reducer: str, dtype: str) -> Tensor:
    """Where the greatest along a dim is, or the least."""
    return g.emit("reduce", [x], dimensions=[dim], reducer=reducer, dtype=dtype, shape=without(x.shape, dim))


def top(g: Graph, x: Tensor, kept: int, how: Search) -> tuple[Tensor, Tensor]:
    """The greatest along the last dim, and where they are."""
    shape = (*x.shape[:-1], kept)
    numbers = {"k": [kept]} if how.stable else {"k": [kept], "stable": [0]}
    values, places = g.add("top-k", [x], [(x.dtype, shape), (how.dtype, shape)], numbers=numbers).results
    return values, places


def in_row(pair: Pair, places: Tensor, axis: str, block: int, how: Search) -> Tensor:
    """Places in the block of a rank, as places in the whole row."""
    starts = [at + how.late * block for at in first(pair, axis, block if how.apart is None else how.apart)]
    return pair.dist.emit("add", [places, spread(pair.dist, rank_scalar(pair, starts, places.dtype), places.shape, [])])


def gathered(pair: Pair, x: Tensor, dim: int, axis: str, order: Sequence[int] | None) -> Tensor:
    members = order or range(dict(pair.mesh.axes)[axis])
    return gathered_in(pair, x, dim, axis, [list(members)] * len(pair.groups(axis)))


def read(g: Graph, table: Tensor, dim: int, ids: Tensor, below: int = 0) -> Tensor:
    """`table` at these indices along a dim, the other dims in step with those of the indices; negative ones wrap."""
    many, rank = table.shape[dim], len(ids.shape)
    wrapped = g.emit("add", [ids, g.splat(many, ids.dtype, ids.shape)])
    negative = g.emit("compare", [ids, g.splat(below, ids.dtype, ids.shape)], direction="LT")
    picked = g.emit("select", [negative, wrapped, ids])
    rest = [d for d in range(len(table.shape)) if d != dim]
    return g.emit(
        "gather", [table, g.emit("reshape", [picked], shape=(*ids.shape, 1))], offset_dims=[],
        collapsed_slice_dims=[dim], start_index_map=[dim], operand_batching_dims=rest,
        start_indices_batching_dims=list(range(len(rest))), slice_sizes=[1] * len(table.shape), index_vector_dim=rank,
    )  # fmt: skip


def least_place(pair: Pair, x: Tensor, dim: int, axis: str, how: Search) -> Tensor:
    """The least of the places of the ranks that have the greatest of the row."""
    g, groups = pair.dist, pair.groups(axis)
    own = g.emit("reduce", [x], dimensions=[dim], reducer=how.compared)
    whole = g.emit("all-reduce", [own], reducer=how.combined, groups=groups) if how.combined else own
    mine = in_row(pair, place(g, x, dim, how.reducer, how.dtype), axis, x.shape[dim], how)
    truth = g.emit("compare", [whole, own] if how.swapped else [own, whole], direction=how.direction)
    far = g.splat(how.far, how.dtype, mine.shape)
    chosen = [far, mine] if how.direction in ("NE", "LT", "GT") else [mine, far]
    return g.emit("all-reduce", [g.emit("select", [truth, *chosen])], reducer=how.least, groups=groups)


def place_of_greatest(pair: Pair, x: Tensor, dim: int, axis: str, how: Search) -> Tensor:
    """The place that the first rank with the greatest has, of all that are gathered."""
    g = pair.dist
    own = g.emit("reduce", [x], dimensions=[dim], reducer=how.compared)
    mine = in_row(pair, place(g, x, dim, how.reducer, how.dtype), axis, x.shape[dim], how)
    stacked = [
        gathered(pair, g.emit("reshape", [v], shape=(1, *v.shape)), 0, axis, order)
        for v, order in ((own, how.order), (mine, how.order_of_places or how.order))
    ]
    return read(g, stacked[1], 0, place(g, stacked[0], 0, how.second, how.dtype), how.below)


def top_of_blocks(pair: Pair, x: Tensor, axis: str, how: Search) -> tuple[Tensor, Tensor]:
    """The greatest of those of all blocks, and their places in the whole row."""
    g, last = pair.dist, len(x.shape) - 1
    values, places = top(g, x, how.of_block, how)
    mine = in_row(pair, places, axis, x.shape[-1], how)
    all_values = gathered(pair, values, last, axis, how.order)
    all_places = gathered(pair, mine, last, axis, how.order_of_places or how.order)
    found, where = top(g, all_values, how.kept, how)
    return found, read(g, all_places, last, where, how.below)


def slipped(w: World, how: Search, ways: int, block: int) -> Search:
    """Something else than is right, or may be."""
    order = w.rng.sample(range(ways), ways)
    other = {"argmax": "argmin", "argmin": "argmax"}[how.reducer]
    turned = other.removeprefix("arg")
    return w.rng.choice([
        replace(how, apart=w.rng.choice([0, 1, block - 1, block + 1])), replace(how, late=1), replace(how, order=order),
        replace(how, order_of_places=order), replace(how, below=1), replace(how, second=other),
        replace(how, far=w.rng.choice([0, block, ways * block - 2, ways * block - 1])), replace(how, reducer=other),
        replace(how, combined=w.rng.choice(["", turned])), replace(how, compared=turned), replace(how, least="max"),
        replace(how, kept=how.kept + 1),
        replace(how, direction=w.rng.choice(["NE", "LT", "GT", "GE", "LE"])),
    ])  # fmt: skip


@step("blocks-in-order", 0.5)
def blocks_in_order(w: World) -> None:
    """An argmax, argmin or top-k along a dim that is cut over an axis, through those of the blocks."""
    axis, ways, _ = ring_axis(w)
    block, rows = w.rng.choice([2, 3, 4]), w.rng.choice([1, 2, 4])
    way = w.rng.choice([least_place, place_of_greatest, top_of_blocks])
    last = way is top_of_blocks or w.chance(0.5)
    shape, dim = ([rows, ways * block], 1) if last else ([ways * block, rows], 0)
    others = [a for a, n in w.pair.mesh.axes if a != axis and rows % n == 0]
    split = {dim: axis} | ({1 - dim: w.rng.choice(others)} if others and w.chance(0.4) else {})
    dtype = w.rng.choice(["s32", "s32", "f32"])  # integers are equal now and then
    x = w.input(dtype, shape=shape, layout=w.pair.layout(shape, split))
    kept = w.rng.choice([k for k in (1, 2, 3) if k <= ways * block])
    reducer = "argmax" if way is top_of_blocks else w.rng.choice(["argmax", "argmin"])
    greatest = reducer.removeprefix("arg")
    how = Search(
        kept=kept, of_block=min(block, kept + w.rng.choice([0, 0, 1])), reducer=reducer, compared=greatest,
        second=reducer, combined=greatest, swapped=w.chance(0.3),
    )  # fmt: skip
    if way is least_place and w.chance(0.5):
        how = replace(how, direction={False: "NE", True: "EQ"}[w.chance(0.5)])
    if w.slip():
        how = slipped(w, how, ways, block)
    if w.slip():
        how = replace(how, of_block=w.rng.choice(range(1, block + 1)))
    if how.kept > ways * how.of_block:
        raise Retry
    if way is top_of_blocks:
        base, dist = top(w.base, x.base, kept, how), top_of_blocks(w.pair, x.dist, axis, how)
        if base[0].shape == dist[0].shape:
            w.add(base[0], dist[0])
            w.add(base[1], dist[1])
        return
    w.add(place(w.base, x.base, dim, reducer, how.dtype), way(w.pair, x.dist, dim, axis, how))  # type: ignore[operator]
