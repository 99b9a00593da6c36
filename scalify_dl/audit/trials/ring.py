"""Wrong programs by hand about rings and renamings."""

from __future__ import annotations

from functools import partial

from scalify_dl.audit.fuzz.halo_steps import rolled
from scalify_dl.audit.fuzz.partitioner_steps import rank_scalar
from scalify_dl.audit.pair import Pair, matmul, spread
from scalify_dl.ir.graph import Tensor

from .registry import TRIALS, trial


def passed(pair: Pair, x: Tensor, axis: str, by: int = 1) -> Tensor:
    """What the rank `by` steps before has."""
    at = [name for name, _ in pair.mesh.axes].index(axis)
    ranks, size = {c: r for r, c in enumerate(pair.mesh.coordinates)}, pair.mesh.axes[at][1]
    pairs = [(r, ranks[(*c[:at], (c[at] + by) % size, *c[at + 1 :])]) for c, r in ranks.items()]
    return pair.dist.emit("collective-permute", [x], pairs=pairs)


def weighed(weight: str) -> Pair:
    """Shards that come by, times something of the rank's own that does not come by with them, added up."""
    pair = Pair({"tp": 2})
    g, b = pair.dist, pair.base
    x, dx = pair.input((8,), {0: "tp"})
    if weight == "place":
        whole = b.emit("iota", [], shape=(8,), dtype="f32", dimension=0)
        offset = g.emit("convert", [rank_scalar(pair, [0, 4])], dtype="f32")
        mine = g.emit("iota", [], shape=(4,), dtype="f32", dimension=0)
        mine = g.emit("add", [mine, g.emit("broadcast", [offset], shape=(4,), dimensions=[])])
    else:
        whole, mine = pair.input((8,), {0: "tp"})
        if weight == "computed":
            whole, mine = b.emit("sine", [whole]), g.emit("sine", [mine])
    total = g.emit("add", [g.emit("multiply", [v, mine]) for v in (dx, passed(pair, dx, "tp"))])
    blocks = b.emit("reshape", [b.emit("multiply", [x, whole])], shape=(2, 4))
    pair.outputs(b.emit("reduce", [blocks], dimensions=[0], reducer="sum"), total)
    return pair


for what in ("place", "given", "computed"):
    TRIALS[f"a weight that stays, {what}, times what comes by"] = partial(weighed, what)


@trial
def truth_values_that_come_by() -> Pair:
    """Truth values that all ranks have are added to those that come by, as numbers and halved."""
    pair = Pair({"tp": 2})
    (x, dx), g = pair.input((4,), dtype="pred"), pair.dist
    both = g.emit("convert", [g.emit("add", [dx, passed(pair, dx, "tp")])], dtype="f32")
    pair.outputs(
        pair.base.emit("convert", [x], dtype="f32"), g.emit("multiply", [both, g.splat(0.5, "f32", both.shape)])
    )
    return pair


@trial
def blocks_of_the_wrong_row() -> Pair:
    """Each rank adds to its block the one of the next column, of another row."""
    pair = Pair({"dp": 2, "tp": 2})
    g, b = pair.dist, pair.base
    x, dx = pair.input((16,))
    parts = [
        g.emit("dynamic-slice", [dx, rank_scalar(pair, start)], sizes=[4])
        for start in ([0, 4, 8, 12], [12, 8, 4, 0])
    ]  # fmt: skip
    passed(pair, parts[0], "tp")
    ring = g.emit("add", [dx, passed(pair, dx, "tp")])
    rows = b.emit("reshape", [x], shape=(2, 2, 4))
    columns = b.emit("reshape", [b.emit("reduce", [rows], dimensions=[1], reducer="sum")], shape=(8,))
    pair.outputs(columns, g.emit("add", parts))
    pair.outputs(b.emit("add", [x, x]), ring)
    return pair


@trial
def one_part_of_a_ring_of_65() -> Pair:
    """The last of 65 shards that come by, in place of the sum of all, and the own one in place of all side by side."""
    pair = Pair({"tp": 65})
    g = pair.dist
    x, dx = pair.input((65, 2), {0: "tp"})
    last = passed(pair, dx, "tp", 64)
    base = pair.base.emit("reduce", [x], dimensions=[0], reducer="sum")
    one, other = (g.emit("reshape", [v], shape=(2,)) for v in (dx, last))
    pair.outputs(base, other)
    pair.outputs(base, g.emit("add", [one, other]))
    for start, block in ((list(range(65)), dx), ([(r + 1) % 65 for r in range(65)], last)):
        corner = [rank_scalar(pair, start), g.constant(0, "s32")]
        pair.outputs(x, g.emit("dynamic-update-slice", [g.splat(0.0, "f32", (65, 2)), block, *corner]))
    return pair


@trial
def a_roll_within_halves() -> Pair:
    """Quarters are passed on within each half; the baseline rolls the whole by a quarter."""
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((8, 2), {0: ["dp", "tp"]})
    pair.outputs(rolled(pair, x, 0, 6), passed(pair, dx, "tp"))
    return pair


@trial
def the_maximum_of_sums() -> Pair:
    """A sum over rows, one to a rank, of what is the maximum over other ranks."""
    pair = Pair({"dp": 2, "tp": 2})
    x, dx = pair.input((2, 3, 4), {0: "tp"}, pending={"dp": "max"})
    base = pair.base.emit("reduce", [x], dimensions=[0], reducer="sum")
    one = pair.dist.emit("reshape", [dx], shape=(3, 4))
    total = pair.dist.emit("all-reduce", [one], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(base, pair.dist.emit("all-reduce", [total], reducer="max", groups=pair.groups("dp")))
    pair.outputs(base, one)
    return pair


@trial
def what_has_the_shape_of_its_operand() -> Pair:
    """A pad that moves, and a broadcast that turns."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 4))
    number = pair.dist.constant(0.0, "f32")
    pair.outputs(x, pair.dist.emit("pad", [dx, number], low=[1, 0], high=[-1, 0], interior=[0, 0]))
    pair.outputs(x, pair.dist.emit("transpose", [dx], dimensions=[1, 0]))
    pair.outputs(x, pair.dist.emit("broadcast", [dx], shape=(4, 4), dimensions=[1, 0]))
    return pair


@trial
def a_roll_by_other_blocks() -> Pair:
    """The baseline rolls by two blocks, the ranks pass theirs one on."""
    pair = Pair({"tp": 4})
    x, dx = pair.input((8, 2), {0: "tp"})
    pair.outputs(rolled(pair, x, 0, 4), passed(pair, dx, "tp"))
    return pair


@trial
def one_of_three_turns_is_passed_on() -> Pair:
    """Round a ring, a product of K's rows and R's columns is computed anew in the last turn, not in the second."""
    pair = Pair({"tp": 3})
    g, b = pair.dist, pair.base
    (k, dk), (r, dr) = pair.input((6, 3), {0: "tp"}), pair.input((3, 6), {1: "tp"})
    p, dp = pair.input((6,), {0: "tp"})
    rows, weights = [dk], [dp]
    for values in (rows, weights):
        values.extend(passed(pair, values[0], "tp", n) for n in (1, 2))
    products = [matmul(g, v, dr) for v in rows]
    wide = [spread(g, v, (2, 2), [0]) for v in weights]
    weighed = [g.emit("multiply", pair_of) for pair_of in zip(products, wide, strict=True)]
    mixed = [weighed[0], passed(pair, weighed[0], "tp"), weighed[2]]
    whole, spread_out = matmul(b, k, r), spread(b, p, (6, 6), [0])
    product = b.emit("multiply", [whole, spread_out])
    for base, turns in ((whole, products), (spread_out, wide), (product, mixed)):
        blocks = b.emit("reshape", [base], shape=(3, 2, 6))
        total = g.emit("add", [g.emit("add", turns[:2]), turns[2]])
        pair.outputs(b.emit("reduce", [blocks], dimensions=[0], reducer="sum"), total)
    return pair


@trial
def blocks_that_are_written_into_half_of_the_columns() -> Pair:
    """What every turn makes is written at its rows, and there is as much again beside it."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 3), {0: "tp"})
    g = pair.dist
    column = g.constant(0, "s32")
    blocks = [g.emit("exponential", [v]) for v in (dx, passed(pair, dx, "tp"))]
    stored = g.splat(0.0, "f32", (4, 6))
    for block, rows in zip(blocks, ([0, 2], [2, 0]), strict=True):
        stored = g.emit("dynamic-update-slice", [stored, block, rank_scalar(pair, rows), column])
    base = pair.base.emit("exponential", [x])
    pair.outputs(pair.base.emit("concatenate", [base, base], dimension=1), stored)
    return pair
