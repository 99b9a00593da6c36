"""Ids have no default range where a program provides for others itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.pairing.builder import Program
from scalify_dl.pairing.embedding import IGNORED, id_ranges
from scalify_dl.pairing.export import tables
from scalify_dl.pairing.own_ranges import Provisions
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude

TP2 = Mesh.parse("tp=2")
Body = Callable[[Program, Tensor, Tensor], Tensor]


def look_up(p: Program, table: Tensor, ids: Tensor) -> Tensor:
    return p.embedding(table, ids)


def masked(p: Program, table: Tensor, ids: Tensor, keep: Tensor, other: float = 0.0) -> Tensor:
    rows = p.embedding(table, ids)
    return p.select(p.broadcast(keep, rows.shape, (0,)), rows, p.full(other, rows.shape))


def ignored(p: Program, table: Tensor, ids: Tensor) -> Tensor:
    return masked(p, table, ids, p.compare(ids, -1, direction="NE"))


def from_the_end(p: Program, table: Tensor, ids: Tensor) -> Tensor:
    return p.embedding(table, p.select(p.compare(ids, 0, direction="LT"), p.add(ids, 16), ids))


def in_bounds(p: Program, table: Tensor, ids: Tensor) -> Tensor:
    low, high = p.compare(ids, 0, direction="GE"), p.compare(ids, 15, direction="LE")
    return masked(p, table, ids, getattr(p, "and")(low, high), float("nan"))


OWN: dict[str, Body] = {
    "ignored": ignored,
    "guarded": lambda p, w, i: p.embedding(
        w, p.select(p.compare(i, -1, direction="NE"), i, p.full(0, (6,), "s32"))
    ),
    "not negative": lambda p, w, i: masked(p, w, i, p.compare(i, 0, direction="GE")),
    "above": lambda p, w, i: masked(p, w, i, p.compare(i, 16, direction="LT")),
    "one more is zero": lambda p, w, i: masked(p, w, i, p.compare(p.add(i, 1), 0, direction="NE")),
    "as a real": lambda p, w, i: masked(p, w, i, p.compare(p.convert(i, "f32"), -1.0, direction="NE")),
    "reshaped": lambda p, w, i: masked(
        p, w, i, p.reshape(p.compare(p.reshape(i, (2, 3)), -100, direction="NE"), (6,))
    ),
    "beside other padding": lambda p, w, i: masked(
        p, w, i, p.slice(p.compare(p.pad(i, 0, (0,), (2,)), -1, direction="NE"), 0, 2, 8)
    ),
    "magnitude": lambda p, w, i: p.multiply(
        p.embedding(w, i), p.broadcast(p.convert(p.subtract(p.abs(i), i), "f32"), (6, 4), (0,))
    ),
    "sum of a maximum": lambda p, w, i: p.add(
        p.embedding(w, i), p.broadcast(p.convert(p.maximum(i, 0), "f32"), (6, 4), (0,))
    ),
    "clamped at one end": lambda p, w, i: p.embedding(w, p.maximum(i, 0)),
    "filled with zero": lambda p, w, i: masked(
        p, w, i, getattr(p, "and")(p.compare(i, 0, direction="GE"), p.compare(i, 15, direction="LE"))
    ),
    "from another end": lambda p, w, i: p.embedding(
        w, p.select(p.compare(i, 0, direction="LT"), p.add(i, 3), i)
    ),
}  # fmt: skip
USUAL: dict[str, Body] = {
    "plain": look_up,
    "from the end": from_the_end,
    "NaN where out of bounds": in_bounds,
    "clamped": lambda p, w, i: p.embedding(w, p.clamp(p.full(0, (6,), "s32"), i, p.full(15, (6,), "s32"))),
    "padding inside of the range": lambda p, w, i: masked(p, w, i, p.compare(i, 3, direction="NE")),
    "padding of its own": lambda p, w, i: masked(
        p, w, i, p.slice(p.compare(p.concatenate([i, p.full(-1, (2,), "s32")], 0), -1, direction="NE"), 0, 2, 8)
    ),
    "half": lambda p, w, i: masked(p, w, i, p.compare(i, 8, direction="LT")),
}


def program(name: str, body: Body) -> Program:
    found = Program(name, TP2)
    found.output(body(found, found.input("table", (16, 4)), found.input("ids", (6,), "s32")))
    return found


@pytest.mark.parametrize("name", OWN)
def test_no_default_where_the_program_provides_for_more(name: str) -> None:
    assert id_ranges(program("base", OWN[name]).graph) == {}


@pytest.mark.parametrize("name", USUAL)
def test_what_frameworks_add_to_an_index_is_no_provision(name: str) -> None:
    assert list(id_ranges(program("base", USUAL[name]).graph).values()) == [(0, 16)]


@pytest.mark.parametrize(
    ("base", "dist"),
    [
        (ignored, look_up),
        (look_up, ignored),
        (look_up, OWN["not negative"]),
        (look_up, OWN["filled with zero"]),
        (from_the_end, OWN["clamped at one end"]),
    ],
)
def test_an_ignored_id_is_not_erased(base: Body, dist: Body) -> None:
    """Both sides agree on [0, 16): the id that one of them ignores is no matter of assumption."""
    facts = tables(program("base", base).graph, [program("dist", dist).graph], TP2)
    assert facts["range"] == []
    assert conclude(analyse(facts, Options())).verdict != "PROVED"
    facts = tables(program("base", base).graph, [program("dist", base).graph], TP2)
    assert conclude(analyse(facts, Options())).verdict == "PROVED"


@pytest.mark.parametrize("name", ["not negative", "clamped at one end"])
def test_ids_of_which_all_negative_ones_are_alike_have_a_least_one(name: str) -> None:
    facts = tables(program("base", OWN[name]).graph, [program("dist", OWN[name]).graph], TP2)
    assert {row[1:] for row in facts["range"]} == {(IGNORED, 16, "labels")}
    assert conclude(analyse(facts, Options())).verdict == "PROVED"


@pytest.mark.parametrize("name", ["ignored", "above", "filled with zero", "from another end"])
def test_ids_of_which_one_is_ignored_or_others_are_told_have_none(name: str) -> None:
    """-1 alone is no range: what is looked up at -5 is another thing, and no program means it."""
    facts = tables(program("base", OWN[name]).graph, [program("dist", OWN[name]).graph], TP2)
    assert facts["range"] == []
    facts = tables(program("base", OWN["not negative"]).graph, [program("dist", OWN[name]).graph], TP2)
    assert facts["range"] == [] or name == "from another end"


def test_an_ignored_label_that_is_looked_up_refutes() -> None:
    base, dist = program("base", OWN["not negative"]).graph, program("dist", OWN["clamped at one end"]).graph
    assert conclude(analyse(tables(base, [dist], TP2), Options())).verdict == "REFUTED"


def test_what_a_lookup_would_fail_on_is_no_input() -> None:
    """torch: an id that is looked up as it is, and compared with -100 elsewhere (labels that are the ids)."""
    for body, known in ((ignored, True), (OWN["guarded"], False)):
        p = program("base", body)
        p.graph.lookups_fail = True
        assert bool(id_ranges(p.graph)) is known
        facts = tables(p.graph, [program("dist", body).graph], TP2)
        assert bool(facts["range"]) is known


def test_bounds_of_the_parts_of_a_table_are_no_provision() -> None:
    """The first rank's part begins at 0, the last one's ends at 16."""
    for start, end in ((0, 8), (8, 16)):
        p = Program("dist", TP2)
        ids = p.input("ids", (6,), "s32")
        local = p.subtract(ids, start)
        inside = getattr(p, "and")(p.compare(local, 0, direction="GE"), p.compare(ids, end, direction="LT"))
        p.output(p.select(inside, local, p.full(0, (6,), "s32")))
        assert not Provisions(p.graph).beyond(ids, 16, strictly=True)
        p.output(p.compare(ids, -1, direction="EQ"))
        assert Provisions(p.graph).beyond(ids, 16, strictly=True)


def test_an_end_that_every_rank_provides_beyond_is_no_parts() -> None:
    """Ranks' parts of a table: the first provides below 0, the last above 16, none both."""
    found = []
    for start, end in ((0, 8), (8, 16)):
        p = Program("dist", TP2)
        ids = p.input("ids", (6,), "s32")
        local = p.subtract(ids, start)
        inside = getattr(p, "and")(p.compare(local, 0, direction="GE"), p.compare(ids, end, direction="LT"))
        p.output(p.select(inside, local, p.full(0, (6,), "s32")))
        found.append(Provisions(p.graph).ends(ids, 16))
    assert found == [{"below"}, {"above"}]


def test_a_loop_that_compares_is_a_provision() -> None:
    p = Program("base", TP2)
    table, ids = p.input("table", (16, 4)), p.input("ids", (6,), "s32")
    p.output(p.embedding(table, ids))
    count = p.constant(0, "s32")

    def body(q: Program, n: Tensor, i: Tensor) -> list[Tensor]:
        return [q.add(n, 1), q.select(q.compare(i, -1, direction="EQ"), q.full(3, (6,), "s32"), i)]

    p.output(*p.loop([count, ids], lambda q, n, i: q.compare(n, 2, direction="LT"), body))
    assert id_ranges(p.graph) == {}


def written_cache(name: str, rows: int) -> Graph:
    g = Graph(name)
    cache, new = g.input("cache", "f32", (rows, 2), path="cache"), g.input("new", "f32", (1, 2), path="new")
    at = g.input("at", "s32", (), path="at")
    g.output(g.emit("dynamic-update-slice", [cache, new, at, g.constant(0, "s32")]), path="cache")
    return g


@pytest.mark.parametrize(("rows", "expected"), [(4, {(0, 8, "positions")}), (8, set())])
def test_a_position_has_a_range_where_ranks_have_blocks_of_what_is_written(
    rows: int, expected: set[tuple[int, int, str]]
) -> None:
    dist = written_cache("dist", rows)
    if rows < 8:
        dist.inputs[0].placement = Placement({0: (AxisPart("sp"),)})
    facts = tables(written_cache("base", 8), [dist], Mesh.parse("sp=2"))
    assert {tuple(row[1:]) for row in facts["range"]} == expected
