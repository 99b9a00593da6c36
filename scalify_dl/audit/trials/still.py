"""Wrong programs on meshes with axes along which no rank is told apart (mesh/sub_axes.dl, mesh/rank_numbers.dl)."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor

from ..pair import Pair, spread
from .registry import trial

DP, TP = ("dp", 4), ("tp", 2)


def still() -> Pair:
    """Four copies of two ranks; only the two are written."""
    return Pair(dict([DP, TP]), still=["dp"])


def flag(pair: Pair, axis: str, shape: tuple[int, ...]) -> Tensor:
    """True at coordinate 0 of an axis."""
    g = pair.dist
    op = g.add("constant", [], [("s32", ())], numbers={"value": [0]})
    op.strides["value", 0] = {axis: 1}
    first = g.emit("compare", [op.result, g.constant(0, "s32")], direction="EQ")
    return spread(g, first, shape, [])


@trial
def a_value_on_one_of_the_copies() -> Pair:
    """x at coordinate 0 of dp, else zero: not x, which is what the only rank that is written has."""
    pair = still()
    x, dx = pair.input((4,))
    g = pair.dist
    zero = spread(g, g.constant(0, "f32"), (4,), [])
    pair.outputs(x, g.emit("select", [flag(pair, "dp", (4,)), dx, zero]))
    return pair


@trial
def a_value_on_one_rank_of_every_copy() -> Pair:
    """x at coordinate 0 of tp, added up over dp and tp: four times x."""
    pair = still()
    x, dx = pair.input((4,))
    g = pair.dist
    zero = spread(g, g.constant(0, "f32"), (4,), [])
    kept = g.emit("select", [flag(pair, "tp", (4,)), dx, zero])
    op = g.add("all-reduce", [kept], symbols={"reducer": ["sum"]}, along=(DP, TP))
    pair.outputs(x, op.result)
    return pair


@trial
def a_block_of_the_copy() -> Pair:
    """The block of x that begins at twice the coordinate, taken for the first one; and for blocks over tp."""
    pair = still()
    x, dx = pair.input((8,))
    g = pair.dist
    op = g.add("slice", [dx], [("f32", (2,))], numbers={"start": [0], "limit": [2], "stride": [1]})
    op.strides["start", 0] = op.strides["limit", 0] = {"dp": 2}
    pair.outputs(pair.base.emit("slice", [x], start=[0], limit=[2], stride=[1]), op.result)
    pair.outputs(x, op.result, layout="[0:1x2]|dp=r4|tp=0:2x2")
    return pair


@trial
def blocks_of_the_copies_in_another_order() -> Pair:
    """Blocks of one element dealt to dp and tp, tp first; gathered dp first."""
    pair = still()
    x, dx = pair.input((8,))
    g = pair.dist
    op = g.add("slice", [dx], [("f32", (1,))], numbers={"start": [0], "limit": [1], "stride": [1]})
    op.strides["start", 0] = op.strides["limit", 0] = {"dp": 1, "tp": 4}
    gathered = g.add("all-gather", [op.result], numbers={"dimension": [0]}, along=(DP, TP))
    pair.outputs(x, gathered.result)
    return pair


@trial
def a_sum_over_half_of_the_parts() -> Pair:
    """Parts of a sum over dp and tp, added up over tp alone."""
    pair = still()
    x, dx = pair.input((16, 4), {0: ("dp", "tp")})
    g = pair.dist
    part = g.emit("reduce", [dx], dimensions=[0], reducer="sum")
    whole = pair.base.emit("reduce", [x], dimensions=[0], reducer="sum")
    pair.outputs(whole, g.emit("all-reduce", [part], reducer="sum", groups=[[0, 1]]))
    return pair


@trial
def ranks_that_stand_for_many_as_numbers() -> Pair:
    """The number of a rank, where there are eight: not that of the two that are written."""
    pair = still()
    g = pair.dist
    x, dx = pair.input((8,))
    offset = g.emit("convert", [g.add("partition-id", [], [("u32", ())]).result], dtype="s32")
    pair.outputs(x, g.emit("dynamic-slice", [dx, offset], sizes=[4]), layout="[0:1x4]|dp=r4|tp=0:1x2")
    pair.outputs(x, dx, layout="[0:1x8]|dp=r4|tp=0:1x2")
    return pair
