"""Parameters that are written anew, part by part, into other memory for every micro-batch."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor


def written(g: Graph, parts: list[tuple[int, Tensor]], size: int) -> Tensor:
    """Memory into which each part is written at its place, one after the other."""
    row = g.emit("empty", [], dtype="f32", shape=(size,))
    for lo, x in parts:
        hi = lo + x.shape[0]
        cuts = [((0, lo), None), ((lo, hi), x), ((hi, size), None)]
        pieces = [
            g.emit("slice", [row], start=[a], limit=[b], stride=[1]) if new is None else new
            for (a, b), new in cuts if a < b
        ]  # fmt: skip
        row = g.emit("concatenate", pieces, dimension=0) if len(pieces) > 1 else pieces[0]
    return row


def step(*, odd: str = "") -> Pair:
    """The sum over rows of tanh(x (u + v)); the distributed side takes two micro-batches, and for each writes u and v
    into memory first. `odd` says what is other in the second."""
    p = Pair({"dp": 2})
    (x, dx), (u, du), (v, dv) = p.input((8, 3), {0: "dp"}), p.input((3,)), p.input((3,))
    dims = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [0]}

    def value(g: Graph, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        y = g.emit("tanh", [g.emit("dot", [rows, g.emit("add", [first, second])], **dims)])
        return g.emit("reduce", [y], dimensions=[0], reducer="sum")

    d, totals = p.dist, []
    for turn in range(2):
        how = odd if turn else ""
        parts = {
            "half": [(0, du)], "twice": [(3, dv), (0, du), (1, dv)],
            "again": [(0, dv), (3, dv), (0, du)],
        }.get(how, [(0, du), (3, dv)])  # fmt: skip
        row = written(d, parts, 6)
        at = (0, 3) if how != "place" else (1, 3)
        first, second = (d.emit("slice", [row], start=[lo], limit=[lo + 3], stride=[1]) for lo in at)
        rows = d.emit("slice", [dx], start=[2 * turn, 0], limit=[2 * turn + 2, 3], stride=[1, 1])
        totals.append(value(d, rows, first, second))
    total = d.emit("all-reduce", [d.emit("add", totals)], reducer="sum", groups=p.groups("dp"))
    p.outputs(value(p.base, x, u, v), total)
    return p


@pytest.mark.parametrize("odd", ["", "again"])
def test_memory_that_is_written_everywhere_is_what_was_written(odd: str) -> None:
    """Also what was written over."""
    tables = step(odd=odd).tables()
    derived = derive(tables)
    assert derived.unproved == []
    assert audit(tables, derived.corr).false == []


@pytest.mark.parametrize("odd", ["half", "twice", "place"])
def test_what_is_not_written_or_written_over_is_not(odd: str) -> None:
    tables = step(odd=odd).tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
