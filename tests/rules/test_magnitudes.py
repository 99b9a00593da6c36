"""The magnitude of what is never negative is that: jax.nn.logsumexp takes the logarithm of one."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, spread
from scalify_dl.ir.graph import Graph, Tensor


def logsumexp(g: Graph, x: Tensor, *, of: str = "exponential", magnitude: bool = True) -> Tensor:
    highest = g.emit("reduce", [x], dimensions=[1], reducer="max")
    powers = g.emit(of, [g.emit("subtract", [x, spread(g, highest, x.shape, [0])])])
    total = g.emit("reduce", [powers], dimensions=[1], reducer="sum")
    return g.emit("log", [g.emit("abs", [total]) if magnitude else total])


def over_a_vocabulary(of: str = "exponential") -> Pair:
    """The baseline takes a magnitude; every rank has some of the columns."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 6), {1: "tp"})
    g, groups = pair.dist, pair.groups("tp")
    highest = g.emit("reduce", [dx], dimensions=[1], reducer="max")
    highest = g.emit("all-reduce", [highest], reducer="max", groups=groups)
    powers = g.emit(of, [g.emit("subtract", [dx, spread(g, highest, dx.shape, [0])])])
    total = g.emit("reduce", [powers], dimensions=[1], reducer="sum")
    total = g.emit("all-reduce", [total], reducer="sum", groups=groups)
    pair.outputs(logsumexp(pair.base, x, of=of), g.emit("log", [total]))
    return pair


@pytest.mark.parametrize(("of", "proved"), [("exponential", True), ("sine", False)])
def test_a_magnitude_is_left_out_where_nothing_is_negative(of: str, proved: bool) -> None:
    assert (not derive(over_a_vocabulary(of).tables()).unproved) is proved
