"""Wrong programs by hand about values that are padded with something."""

from __future__ import annotations

from functools import partial

from scalify_dl.audit.fuzz.partitioner_steps import part
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .registry import TRIALS, trial


def padded(g: Graph, x: Tensor, dim: int, extent: int, number: float) -> Tensor:
    """Padded with a number at the end of a dim, to that extent."""
    low = [0] * len(x.shape)
    high = [extent - n if d == dim else 0 for d, n in enumerate(x.shape)]
    return g.emit("pad", [x, g.constant(number, x.dtype)], low=low, high=high, interior=low)


def one_for_another(shape: tuple[int, ...], dim: int, other: tuple[int, ...], other_dim: int, extent: int) -> Pair:
    """A number everywhere, padded to an extent, taken for another shape of it padded to the same one."""
    pair = Pair({"tp": 2})
    x, dx = pair.input(())
    first, second = (pair.base.emit("broadcast", [x], shape=s, dimensions=[]) for s in (shape, other))
    long = padded(pair.dist, pair.dist.emit("broadcast", [dx], shape=shape, dimensions=[]), dim, extent, 9.0)
    for base, cut_dim, extent_cut in ((first, dim, shape[dim]), (second, other_dim, other[other_dim])):
        cut = part(pair.dist, long, cut_dim, 0, extent_cut)
        pair.outputs(pair.base.emit("negate", [base]), pair.dist.emit("negate", [cut]))
    y, dy = pair.input(other)  # says that its extent is padded, too
    whole = part(pair.dist, padded(pair.dist, dy, other_dim, extent, 0.0), other_dim, 0, other[other_dim])
    pair.outputs(pair.base.emit("negate", [y]), pair.dist.emit("negate", [whole]))
    return pair


TRIALS["a padded row for a padded column"] = partial(one_for_another, (5, 8), 0, (8, 5), 1, 8)
TRIALS["padded from five to eight for padded from seven"] = partial(one_for_another, (5,), 0, (7,), 0, 8)


@trial
def a_block_of_no_elements_among_zeros() -> Pair:
    """Nothing, padded on one side with zeros and on the other with ones."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((0,))
    pair.outputs(padded(pair.base, x, 0, 4, 0.0), padded(pair.dist, dx, 0, 4, 1.0))
    return pair
