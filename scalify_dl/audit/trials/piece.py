"""Wrong programs by hand about pieces, reshapes and broadcasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalify_dl.audit.fuzz.halo_steps import Window
from scalify_dl.audit.fuzz.padding_steps import LATE, gathered, masked, uneven_shard
from scalify_dl.audit.fuzz.partitioner_steps import part
from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Graph, Tensor

from .registry import summed, trial


@trial
def a_part_cut_along_two_dims() -> Pair:
    """Half of the columns of half of the rows, in place of half of the rows."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 4))
    corner = pair.dist.emit("slice", [dx], start=[0, 0], limit=[2, 2], stride=[1, 1])
    pair.outputs(part(pair.base, x, 0, 0, 2), corner)
    pair.outputs(part(pair.base, x, 1, 0, 2), corner)
    return pair


def side_by_side(pair: Pair, sizes: tuple[int, ...], columns: tuple[int, ...]) -> tuple[Tensor, list[Tensor]]:
    """Values one after the other on the baseline's side; the distributed side's, apart."""
    values = [pair.input((n, *columns)) for n in sizes]
    return pair.base.emit("concatenate", [b for b, _ in values], dimension=0), [d for _, d in values]


@trial
def parts_of_what_is_reversed() -> Pair:
    """The first half of a reversal or a scan from the end is not that of the first half."""
    pair = Pair({"tp": 2})
    whole, halves = side_by_side(pair, (4, 4), (2,))
    rest: list[dict[str, Any]] = [
        {"dimension": 0, "reducer": "sum", "reverse": 1},
        {"dimension": 0, "reducer": "sum"},
        {"dimensions": [0]},
    ]
    for kind, attributes in zip(("cumulative", "cumulative", "reverse"), rest, strict=True):
        other = pair.base.emit(kind, [whole], **attributes)
        for lo, half in ((0, halves[0]), (4, halves[1])):
            pair.outputs(part(pair.base, other, 0, lo, lo + 4), pair.dist.emit(kind, [half], **attributes))
    return pair


@trial
def parts_that_begin_within_a_row() -> Pair:
    """Four elements from the second on, in rows of two, are not the first two rows; and the other way round."""
    pair = Pair({"tp": 2})
    b, d = pair.base, pair.dist
    flat, apart = side_by_side(pair, (1, 4, 3), ())
    rows = b.emit("reshape", [flat], shape=(4, 2))
    pair.outputs(part(b, rows, 0, 0, 2), d.emit("reshape", [apart[1]], shape=(2, 2)))
    tall, halves = side_by_side(pair, (2, 2), (2,))
    total = b.emit("add", [b.emit("reshape", [tall], shape=(8,)), flat])
    pair.outputs(part(b, total, 0, 1, 5), d.emit("add", [d.emit("reshape", [halves[0]], shape=(4,)), apart[1]]))
    late, odd = side_by_side(pair, (2, 3, 3), ())
    rows = b.emit("reshape", [late], shape=(4, 2))
    pair.outputs(part(b, rows, 0, 1, 2), d.emit("reshape", [part(d, odd[1], 0, 0, 2)], shape=(1, 2)))
    pair.outputs(part(b, rows, 0, 1, 2), d.emit("reshape", [odd[1]], shape=(1, 3)))
    return pair


@trial
def nothing_in_another_shape() -> Pair:
    """Reshapes of values without elements, and something that is wrong."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 0, 2))
    results = []
    for g, v in ((pair.base, x), (pair.dist, dx)):
        y = g.emit("reshape", [v], shape=(2, 2, 0))
        z = g.emit("reshape", [part(g, v, 0, 0, 2)], shape=(0, 2, 2))
        results.append([part(g, y, 0, 0, 1), g.emit("reshape", [z], shape=(2, 0, 2)), part(g, z, 1, 0, 1)])
    for base, dist in zip(*results, strict=True):
        pair.outputs(base, dist)
    y, dy = pair.input((4,), {0: "tp"})
    pair.outputs(y, pair.dist.emit("concatenate", [dy, dy], dimension=0))
    return pair


@trial
def a_pending_value_and_constants() -> Pair:
    """A constant, or the index, is added on every rank to what is still to be summed up."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 2), pending={"tp": "sum"})
    makes: tuple[Callable[[Graph], Tensor], ...] = (
        lambda g: g.splat(1.0, "f32", (4, 2)),
        lambda g: g.emit("iota", [], shape=(4, 2), dtype="f32", dimension=0),
    )
    for make in makes:
        one = pair.dist.emit("add", [dx, make(pair.dist)])
        pair.outputs(
            pair.base.emit("add", [x, make(pair.base)]),
            pair.dist.emit("all-reduce", [one], reducer="sum", groups=pair.groups("tp")),
        )
    return pair


@trial
def a_pending_term_for_a_repeated_one() -> Pair:
    """A value that is repeated along a dim over the ranks, and still to be summed up there."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((4,), pending={"tp": "sum"}), pair.input((2, 4), {0: "tp"})
    base = pair.base.emit("add", [spread(pair.base, x, (2, 4), [1]), y])
    pair.outputs(base, pair.dist.emit("add", [pair.dist.emit("reshape", [dx], shape=(1, 4)), dy]))
    return pair


@trial
def repeated_less_often() -> Pair:
    """Five times, and on each of two ranks two times; three times in all, and once on every rank."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4,))
    wide = pair.base.emit("reduce", [spread(pair.base, x, (5, 4), [1])], dimensions=[0], reducer="sum")
    pair.outputs(wide, summed(pair, spread(pair.dist, dx, (2, 4), [1]), [0]))
    w, dw = pair.input((4, 5))

    def once(g: Graph, v: Tensor) -> Tensor:
        return g.emit("reduce", [v], dimensions=[len(v.shape) - 2], reducer="sum")

    product = matmul(pair.base, spread(pair.base, x, (2, 3, 4), [2]), w)
    one = pair.dist.emit("reshape", [matmul(pair.dist, dx, dw)], shape=(1, 5))
    pair.outputs(once(pair.base, product), once(pair.dist, one))
    return pair


@trial
def products_that_wrap_round() -> Pair:
    """Three times a narrow number, or what is left of 256 by one, as a number that does not wrap round."""
    pair = Pair({"tp": 2})
    for dtype, kind in (("s8", "multiply"), ("u8", "negate")):
        x, dx = pair.input((8,), dtype=dtype, range=(100, 120))
        operands = [dx] if kind == "negate" else [dx, pair.dist.splat(3, dtype, (8,))]
        wide = pair.base.emit("convert", [x], dtype="f32")
        others = [wide] if kind == "negate" else [wide, pair.base.splat(3.0, "f32", (8,))]
        narrow = pair.dist.emit("convert", [pair.dist.emit(kind, operands)], dtype="f32")
        pair.outputs(pair.base.emit(kind, others), narrow)
    return pair


@trial
def the_opposite_of_a_pending_maximum() -> Pair:
    """The maximum of the opposites is that of the minimum."""
    pair = Pair({"dp": 2, "tp": 2})
    for axis in ("dp", "tp"):
        x, dx = pair.input((4, 2), pending={axis: "max"})
        one = pair.dist.emit("negate", [dx])
        base = pair.base.emit("negate", [x])
        pair.outputs(base, pair.dist.emit("all-reduce", [one], reducer="max", groups=pair.groups(axis)))
    return pair


@trial
def sums_over_what_is_not_reduced() -> Pair:
    """Halves of rows that are kept, and of a dim that windows run along, added up."""
    pair = Pair({"tp": 2})
    b, d = pair.base, pair.dist
    x, y = b.input("x", "f32", (4, 4)), b.input("y", "f32", (2, 8, 2))
    w, dw = pair.input((3, 2, 2))
    halves = [pair.part(x, 0, lo, lo + 2, pair.layout((2, 4), {})) for lo in (0, 2)]
    sums = [d.emit("reduce", [v], dimensions=[1], reducer="sum") for v in halves]
    pair.outputs(b.emit("reduce", [x], dimensions=[1], reducer="sum"), d.emit("add", sums))
    window = Window(3, stride=8, kind="convolution")  # there is one, in all and in each half
    parts = [window.apply(d, pair.part(y, 1, lo, lo + 4, pair.layout((2, 4, 2), {})), dw, 0, 0) for lo in (0, 4)]
    pair.outputs(window.apply(b, y, w, 0, 0), d.emit("add", parts))
    return pair


@trial
def products_that_wrap_round_in_uneven_shards() -> Pair:
    """Three times a narrow number, and three times it once it is wide."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((5,), dtype="s8", range=(100, 120))
    narrow = pair.base.emit("multiply", [x, pair.base.splat(3, "s8", (5,))])
    wide = pair.dist.emit("convert", [uneven_shard(pair, dx, 0, "tp", filler=0)], dtype="f32")
    product = pair.dist.emit("multiply", [wide, pair.dist.splat(3.0, "f32", wide.shape)])
    pair.outputs(pair.base.emit("convert", [narrow], dtype="f32"), gathered(pair, product, 0, "tp", 5))
    return pair


@trial
def a_mask_that_leaves_out_the_first_element() -> Pair:
    """0 < index < n over a dim in uneven shards, before it is summed up."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((5, 2))
    kept = masked(pair, uneven_shard(pair, dx, 0, "tp", filler=1.0), 0, "tp", 5, 0.0, spelling=LATE)
    pair.outputs(pair.base.emit("reduce", [x], dimensions=[0], reducer="sum"), summed(pair, kept, [0]))
    return pair


@trial
def the_first_part_of_what_is_gathered_is_not_all_first_parts() -> Pair:
    """Two values side by side on each rank, gathered: the first elements are the first value of the first rank."""
    pair = Pair({"tp": 2})
    (x, dx), (_, dy) = pair.input((4,), {0: "tp"}), pair.input((4,), {0: "tp"})
    side = pair.dist.emit("concatenate", [dx, dy], dimension=0)
    whole = pair.dist.emit("all-gather", [side], dimension=0, groups=pair.groups("tp"))
    pair.outputs(x, part(pair.dist, whole, 0, 0, 2))
    return pair


UNIT = 6


def scattered_in_parts(by: float = 2.0, *, rows: int = 2, late: int = 0) -> Pair:
    """Parts of sums of values of one, one and two units for each rank, reduced and scattered in one buffer of units,
    and averaged there; or summed, and one of them cut once more, so many elements late."""
    pair = Pair({"dp": 2})
    d, values = pair.dist, [pair.input((2 * units, UNIT), pending={"dp": "sum"}) for units in (1, 1, 2)]
    apart = [d.emit("reshape", [x], shape=(rows, x.shape[0] // rows, UNIT)) for _, x in values]
    whole = d.emit("reshape", [d.emit("concatenate", apart, dimension=1)], shape=(8 * UNIT,))
    share = d.emit("reduce-scatter", [whole], dimension=0, reducer="sum", groups=pair.groups("dp"))
    if not late:
        share = d.emit("divide", [share, d.splat(by, "f32", share.shape)])
    for n, first in [(0, 0), (1, UNIT), (2, 2 * UNIT)] + ([(0, late)] if late else []):
        x = values[n][0]
        mean = x if late else pair.base.emit("divide", [x, pair.base.splat(2.0, "f32", x.shape)])
        found = part(d, share, 0, first, first + x.shape[0] // 2 * UNIT)
        found = d.emit("reshape", [found], shape=(x.shape[0] // 2, UNIT))
        pair.outputs(mean, found, layout=str(pair.layout(x.shape, {0: "dp"})))
    return pair


@trial
def cut_within_a_unit_of_a_buffer() -> Pair:
    """Half of one value's share and half of the next one's, beside right ones."""
    return scattered_in_parts(late=UNIT // 2)
