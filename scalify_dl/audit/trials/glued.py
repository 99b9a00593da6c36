"""Wrong programs by hand about shards that are cut, passed on and glued again."""

from __future__ import annotations

from scalify_dl.audit.fuzz.partitioner_steps import part
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Tensor

from .registry import trial

SWAPPED = [(0, 1), (1, 0)]


def from_the_other(pair: Pair, x: Tensor) -> Tensor:
    """What the other of two ranks has."""
    return pair.dist.emit("collective-permute", [x], pairs=SWAPPED)


@trial
def four_rows_glued_for_one() -> Pair:
    """A value as four rows, whose columns are exchanged between replicas: each row is a run, of other elements."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((16,))
    rows = pair.dist.emit("reshape", [dx], shape=(4, 4))
    halves = [part(pair.dist, rows, 1, 0, 2), from_the_other(pair, part(pair.dist, rows, 1, 2, 4))]
    glued = pair.dist.emit("concatenate", halves, dimension=1)
    total = pair.base.emit("reduce", [part(pair.base, x, 0, 0, 4)], dimensions=[0], reducer="sum")
    pair.outputs(total, pair.dist.emit("reduce", [glued], dimensions=[0, 1], reducer="sum"))
    return pair


@trial
def every_other_element_of_what_was_glued() -> Pair:
    """Each rank begins at its own block, and leaves out every other element."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((16,))
    halves = [part(pair.dist, dx, 0, 0, 8), from_the_other(pair, part(pair.dist, dx, 0, 8, 16))]
    glued = pair.dist.emit("concatenate", halves, dimension=0)
    cut = pair.dist.emit("slice", [glued], start=[0], limit=[8], stride=[2])
    pair.dist.ops[-1].rank_numbers.update({("start", 0): {0: 0, 1: 4}, ("limit", 0): {0: 8, 1: 12}})
    negated = [g.emit("negate", [v]) for g, v in ((pair.base, part(pair.base, x, 0, 0, 8)), (pair.dist, cut))]
    pair.outputs(*negated, layout="[0:1x4]|tp=0:4x2")
    return pair
