"""SPMD programs on large meshes: facts and derived tuples hardly grow with the ranks, and verdicts do not change."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.facts.model import Facts
from scalify_dl.facts.tables import LISTED
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.builder import Pair

TP, IDS, ROWS, WIDTH = 4, 4, 64, 8


def embedding(dp: int, wrong_from: int | None = None) -> Facts:
    """A table cut over tp, read by ids that dp shares out: other ranks' rows are zero, and added up. From the copy
    `wrong_from` of the data on, ranks take their rows to begin one row later than they do."""
    pair = Pair(Mesh((("dp", dp), ("tp", TP))))
    b, d = pair.base, pair.dist
    table = b.input("table", (ROWS, WIDTH))
    b.output(b.embedding(table, b.input("ids", (IDS * dp,), "s32", range=(0, ROWS))))
    rows = ROWS // TP
    starts = {r: r % TP * rows + (wrong_from is not None and r // TP >= wrong_from) for r in range(dp * TP)}
    ids = d.subtract(d.shard("ids", {0: "dp"}), d.broadcast(d.rank_constant(starts), (IDS,), ()))
    known = d.op("and", d.compare(ids, 0, direction="GE"), d.compare(ids, rows, direction="LT")).result
    read = d.embedding(d.shard("table", {0: "tp"}), d.select(known, ids, d.full(0, (IDS,), "s32")))
    kept = d.select(d.broadcast(known, (IDS, WIDTH), [0]), read, d.full(0.0, (IDS, WIDTH)))
    d.output(d.all_reduce(kept, "tp"))
    pair.expect(0, {0: "dp"})
    return pair.facts()


def test_what_depends_on_one_axis_is_looked_at_once_along_the_other() -> None:
    few, many = derive(embedding(2).tables), derive(embedding(64).tables)
    assert not few.unproved
    assert not many.unproved
    tuples = [found.program.total_tuples for found in (few, many)]
    assert tuples[1] < 4 * tuples[0]  # 32 times the ranks
    assert len(list(many.program.relation("looked_at"))) == len(list(few.program.relation("looked_at")))


@pytest.mark.parametrize("dp", [2, 32])
def test_a_number_that_is_wrong_on_some_copies_alone_is_seen(dp: int) -> None:
    assert derive(embedding(dp, wrong_from=dp - 1).tables).unproved


def test_groups_on_a_large_mesh_are_said_along_axes() -> None:
    small, large = embedding(LISTED // TP), embedding(2 * LISTED // TP)
    assert len(small["group"]) == LISTED
    assert not large["group"]
    assert [axis for facts in (small, large) for _, _, axis in facts["group_along"]] == ["tp"]


def test_groups_that_run_along_no_whole_axis_are_listed() -> None:
    mesh = Mesh((("dp", LISTED), ("tp", TP)))
    pair = Pair(mesh)
    pair.base.output(pair.base.multiply(pair.base.input("x", (8,)), 2.0))
    pairs = [[rank, rank + 1] for rank in range(0, mesh.size, 2)]
    pair.dist.output(pair.dist.op("all-reduce", pair.dist.shard("x", {}), groups=pairs, reducer="sum").result)
    facts = pair.facts()
    assert len(facts["group"]) == mesh.size
    assert not facts["group_along"]
    assert not derive(facts.tables).unproved
