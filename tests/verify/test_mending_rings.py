"""Values that go from rank to rank in the turns of a loop: what sends them is named where a turn reads an old one."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import matmul
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.report.conclude import conclude

from .test_mending_lines import Lined
from .test_mending_steps import first_cause


def scores_round_a_ring(stale: int = 0) -> Facts:
    """Queries of a rank meet the keys of all, which go round at line 4; turn `stale` reads those of the turn before."""
    pair = Lined({"cp": 4})
    (q, dq), (k, part) = pair.input((8, 5), {0: "cp"}), pair.input((5, 8), {1: "cp"})
    base, dist = pair.base, pair.dist

    def scored(g: Graph, queries: Tensor, keys: Tensor) -> Tensor:
        return g.emit("reduce", [g.emit("sine", [matmul(g, queries, keys)])], dimensions=[1], reducer="sum")

    whole = scored(base, q, k)
    pair.at(2)
    parts = []
    for turn in range(4):
        parts.append(scored(dist, dq, part))
        pair.at(3)
        if turn < 3 and turn + 1 != stale:
            part = dist.emit("collective-permute", [part], pairs=[(i, (i - 1) % 4) for i in range(4)])
            pair.at(4)
    total = parts[0]
    for other in parts[1:]:
        total = dist.emit("add", [total, other])
    pair.at(5)
    base.output(base.emit("tanh", [whole]))
    dist.output(dist.emit("tanh", [total]))
    pair._expects.append((dist.outputs[0].tensor, base.outputs[0].tensor, "[0:1x2]|cp=0:2x4"))
    pair.at(9)
    return pair.facts()


def test_blocks_that_go_round_are_all_read() -> None:
    assert conclude(analyse(scores_round_a_ring(), Options())).verdict is Verdict.PROVED


@pytest.mark.parametrize("stale", [2, 3])
def test_a_turn_that_reads_what_the_turn_before_read_lacks_a_sending(stale: int) -> None:
    first = first_cause(scores_round_a_ring(stale))
    said = (first.kind, first.source[0].line, first.found, first.suggestion, first.tried)
    assert said[:2] == ("collective-permute", 4), said
    assert "as the turn before it does" in first.found[0], said
    assert "once more, before" in first.suggestion[0], said
    assert first.tried == ("with this edit the output is PROVED",), said
