"""Wrong programs by hand: additions whose operands come in the other order, of what no addition passes."""

from __future__ import annotations

from scalify_dl.audit.pair import Pair

from .registry import trial


@trial
def maxima_added_in_the_other_order() -> Pair:
    """The greatest of sums is not the sum of what is greatest."""
    pair = Pair({"dp": 2})
    layout = pair.layout([4], {}, pending={"dp": "max"})
    (x, dx), (y, dy) = (pair.input((4,), layout=layout) for _ in range(2))
    total = pair.dist.emit("add", [dy, dx])
    whole = pair.dist.emit("all-reduce", [total], reducer="max", groups=pair.groups("dp"))
    pair.outputs(pair.base.emit("add", [x, y]), whole)
    return pair
