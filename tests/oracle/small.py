"""Small pairs of graphs for the oracle's tests."""

from __future__ import annotations

from scalify_dl.audit.pair import Pair, matmul
from scalify_dl.oracle import Program, load_program


def program(pair: Pair) -> Program:
    """The pair as the oracle runs it."""
    return load_program(pair.tables())


def row_parallel(
    ranks: int = 2, reducer: str | None = "sum", groups: list[list[int]] | None = None, inner: int = 24
) -> Pair:
    """y = x w, contracted over tp, then all-reduced (`reducer` None: not)."""
    pair = Pair({"tp": ranks})
    (x, dx), (w, dw) = pair.input((8, inner), {1: "tp"}), pair.input((inner, 6), {0: "tp"})
    z = matmul(pair.dist, dx, dw)
    if reducer:
        z = pair.dist.emit("all-reduce", [z], reducer=reducer, groups=groups or pair.groups("tp"))
    pair.outputs(matmul(pair.base, x, w), z)
    return pair
