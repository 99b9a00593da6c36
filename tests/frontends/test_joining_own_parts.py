"""Programs of ranks that differ by which part is a rank's own, or by a number: they are joined as one program."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.pairing.correspond import Shard
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude

from .test_joining import compared


def put_back(g: Graph, x: Tensor, group: Sequence[int], rank: int, place: int, dim: int) -> Tensor:
    """All parts beside each other along a dim; that at `place` is the rank's own, in the place of the gathered one."""
    gathered = g.emit("all-gather", [x], dimension=0, groups=[list(group)])
    (rows, columns), ranks = x.shape, len(group)
    starts = [n * rows for n in range(ranks)]
    parts = [g.emit("slice", [gathered], start=[at, 0], limit=[at + rows, columns], stride=[1, 1]) for at in starts]
    parts[place] = x
    if dim == 0:
        return g.emit("concatenate", parts, dimension=0)
    rows_of = [g.emit("reshape", [part], shape=(rows, 1, columns)) for part in parts]
    return g.emit("reshape", [g.emit("concatenate", rows_of, dimension=1)], shape=(rows, ranks * columns))


def programs(group: Sequence[int], dim: int, *, shift: int = 0) -> list[Graph]:
    found = []
    for rank in sorted(group):
        g = Graph(f"r{rank}", ranks=[rank])
        x = g.input("x", "f32", (2, 3), path="x")
        place = (list(group).index(rank) + shift) % len(group)
        g.output(g.emit("negate", [put_back(g, g.emit("abs", [x]), group, rank, place, dim)]), path="y")
        found.append(g)
    return found


@pytest.mark.parametrize("group", [[0, 1], [0, 1, 2, 3], [2, 0, 3, 1]])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shift", [0, 1])
def test_an_own_part_among_gathered_ones_is_a_gathered_one(group: list[int], dim: int, shift: int) -> None:
    mesh, dists = Mesh.parse(f"cp={len(group)}"), programs(group, dim, shift=shift)
    whole = Tensor("f32", (2 * len(group), 3))
    layout = Placement({0: [AxisPart("cp")]}).layout(whole.shape, mesh)
    rows = [{g.inputs[0].tensor: (Shard(g.inputs[0].tensor, whole, layout, "name"),)} for g in dists]
    joined = compared(dists, mesh, rows, seed=dim)
    kinds = [op.kind for op in joined.graph.ops]
    if not shift:
        assert (kinds.count("all-gather"), kinds.count("concatenate"), kinds.count("select")) == (1, dim, 0)


def facts(base: Graph, dists: list[Graph]) -> Facts:
    return tables(base, dists, Mesh.parse(f"cp={len(dists)}"), joined=True)


def counting(first: Sequence[int]) -> Facts:
    """Positions of tokens, which each rank counts from its own first one."""
    base, dists = Graph("base"), []
    whole = base.input("x", "f32", (10,), path="x")
    count = base.emit("iota", [], dtype="s32", shape=(10,), dimension=0)
    base.output(base.emit("multiply", [whole, base.emit("convert", [count], dtype="f32")]), path="y")
    for rank, start in enumerate(first):
        g = Graph(f"r{rank}", ranks=[rank])
        x = g.input("x", "f32", (5,), path="x")
        count = g.emit("iota", [], dtype="s32", shape=(5,), dimension=0)
        count = g.emit("add", [count, g.splat(start, "s32", (5,))])
        g.output(g.emit("multiply", [x, g.emit("convert", [count], dtype="f32")]), path="y")
        dists.append(g)
    return facts(base, dists)


@pytest.mark.parametrize(("first", "verdict"), [((0, 5), "PROVED"), ((0, 4), "REFUTED"), ((0, 0), "REFUTED")])
def test_a_number_of_each_rank_is_one_that_depends_on_the_rank(first: tuple[int, int], verdict: str) -> None:
    found = counting(first)
    assert str(conclude(analyse(found, Options())).verdict) == verdict
    assert "select" not in {kind for _, _, kind in found["op"]}
