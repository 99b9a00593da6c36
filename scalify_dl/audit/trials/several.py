"""Wrong programs by hand about ops with several results."""

from __future__ import annotations

from functools import partial

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .registry import TRIALS


def places(g: Graph, x: Tensor, dtype: str) -> Tensor:
    """Where the largest elements of each row are, counted in a type that may be too small for it."""
    shape = (x.shape[0], 3)
    op = g.add("top-k", [x], [(x.dtype, shape), (dtype, shape)])
    op.numbers.update(k=[3], largest=[1])
    return g.emit("convert", [op.results[1]], dtype="f32")


def counted_in(split: dict[int, str]) -> Pair:
    """The second results are of two types."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 300), split)
    pair.outputs(places(pair.base, x, "s32"), places(pair.dist, dx, "u8"))
    return pair


def counted_twice() -> Pair:
    """The same op twice in one graph, with second results of two types."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 300))
    wide, narrow = places(pair.dist, dx, "s32"), places(pair.dist, dx, "u8")
    pair.outputs(pair.base.emit("negate", [places(pair.base, x, "s32")]), pair.dist.emit("negate", [narrow]))
    pair.outputs(pair.base.emit("abs", [pair.base.ops[1].results[0]]), pair.dist.emit("abs", [wide]))
    return pair


TRIALS["second results that wrap round"] = partial(counted_in, {})
TRIALS["second results that wrap round on shards"] = partial(counted_in, {0: "tp"})
TRIALS["two ops with equal first results"] = counted_twice
