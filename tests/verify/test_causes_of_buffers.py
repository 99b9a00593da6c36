"""What ranks gather in one buffer corresponds by its pieces: the buffer itself stops no proof."""

from __future__ import annotations

from math import prod

from scalify_dl.audit.pair import Pair, matmul
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

from .test_mending_steps import facts_of


def flat(g: Graph, x: Tensor) -> Tensor:
    return g.emit("reshape", [x], shape=(prod(x.shape),))


def two_layers(function: str = "sine") -> Pair:
    """Columns and rows of weights over tp, their parts over dp, gathered there in one buffer and taken apart; x is cut
    over dp, and the function between the layers is the sine in the baseline."""
    pair = Pair({"dp": 2, "tp": 2})
    (a, da), (b, db) = pair.input((8, 4), {0: ("tp", "dp")}), pair.input((4, 12), {0: "dp", 1: "tp"})
    (s, ds), (x, dx) = pair.input((4,), {0: "dp"}), pair.input((8, 4), {0: "dp"})
    base, g = pair.base, pair.dist
    row = g.emit("concatenate", [flat(g, da), ds, flat(g, db)], dimension=0)
    rows = g.emit("reshape", [g.emit("all-gather", [row], dimension=0, groups=pair.groups("dp"))], shape=(2, 22))
    wholes = []
    for shape, lo, hi in (((4, 4), 0, 8), ((4,), 8, 10), ((4, 6), 10, 22)):
        part = g.emit("slice", [rows], start=[0, lo], limit=[2, hi], stride=[1, 1])
        wholes.append(g.emit("reshape", [part], shape=shape))
    ga, gs, gb = wholes
    found = []
    for side, first, scale, second, y, kind in (
        (base, a, s, b, x, "sine"), (g, ga, gs, gb, dx, function)
    ):  # fmt: skip
        scaled = side.emit("multiply", [y, side.emit("broadcast", [scale], shape=y.shape, dimensions=[1])])
        hidden = side.emit(kind, [matmul(side, scaled, side.emit("transpose", [first], dimensions=[1, 0]))])
        back = matmul(side, hidden, first)
        if side is g:
            back = g.emit("all-reduce", [back], reducer="sum", groups=pair.groups("tp"))
        found.append(matmul(side, back, second))
    pair.outputs(*found, layout=str(pair.layout((8, 12), {0: "dp", 1: "tp"})))
    return pair


def test_a_gathered_buffer_of_which_all_pieces_correspond_is_no_cause() -> None:
    assert conclude(analyse(facts_of(two_layers()), Options())).verdict is Verdict.PROVED
    found = analyse(facts_of(two_layers("cosine")), Options())
    assert [op for (op,) in found.view.results("frontier")] == ["cosine"]
    assert conclude(found).verdict is Verdict.REFUTED
