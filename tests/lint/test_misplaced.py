"""Programs broken by one edit of a collective or a slice: none is accepted where it means nothing on one device."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scalify_dl.audit.misplaced.campaign import campaign
from scalify_dl.audit.misplaced.edits import ways
from scalify_dl.lint.judge import lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations

from .test_lint import mlp

COLLECTIVE = ("dropped", "doubled", "reducer", "group")


def rows(p: Alone, sorts: Sequence[str] = COLLECTIVE) -> list[dict[str, object]]:
    return list(campaign(p.graph, p.mesh, Relations(), 100, 0, False, sorts))


def test_every_edit_of_a_reduction_is_refuted() -> None:
    found = rows(mlp())
    assert {row["sort"] for row in found} == {"dropped", "doubled", "reducer", "group"}
    assert {row["said"] for row in found} == {"REFUTED"}


def test_a_gather_in_reverse_is_refuted() -> None:
    p = Alone("tp=2")
    x = p.place("x", (8, 16), {0: "tp"})
    p.result(p.tanh(p.all_gather(x, "tp", 0)))
    (row,) = [r for r in rows(p) if "reverse" in str(r["mutant"])]
    assert (row["said"], row["kinds"]) == ("REFUTED", "gather-order")


def test_an_edit_leaves_the_program_itself_alone() -> None:
    p = mlp()
    before = [(op.kind, op.groups, dict(op.symbols)) for op in p.graph.ops]
    assert len(list(ways(p.graph, p.mesh))) == 5
    rows(p)
    assert [(op.kind, op.groups, dict(op.symbols)) for op in p.graph.ops] == before


def halves(first: int, second: int) -> Alone:
    """The halves of heads, as rotary embeddings take them, of a projection."""
    p = Alone("tp=2")
    x = p.matmul(p.place("x", (8, 16)), p.place("w", (16, 32), {1: "tp"}))
    heads = p.reshape(x, (8, 2, 8))
    parts = [p.slice(heads, 2, at, at + 4) for at in (first, second)]
    p.result(p.concatenate([p.negate(parts[1]), parts[0]], 2), {1: "tp"})
    return p


@pytest.mark.parametrize(("first", "second", "odd"), [(0, 4, 0), (0, 3, 1), (1, 4, 1), (4, 4, 1), (0, 0, 1)])
def test_slices_that_take_some_of_a_value_twice_and_leave_some_are_odd(first: int, second: int, odd: int) -> None:
    p = halves(first, second)
    result = lint_graph(p.graph, p.mesh)
    assert result.verdict is Verdict.PROVED  # a program of one device all the same
    assert [f.kind for f in result.findings] == ["taken-twice"] * odd


def test_windows_and_buffers_that_are_cut_alike_are_not_odd() -> None:
    p = Alone("tp=2")
    x, table = p.matmul(p.place("x", (8, 16)), p.place("w", (16, 32), {1: "tp"})), p.place("table", (64, 16))
    p.result(p.subtract(p.slice(x, 0, 1, 8), p.slice(x, 0, 0, 7)), {1: "tp"})
    p.result(p.add(p.slice(table, 0, 0, 8), p.slice(table, 0, 0, 8)))
    assert lint_graph(p.graph, p.mesh).findings == []


def test_moved_slices_are_found() -> None:
    found = rows(halves(0, 4), ["slice"])
    assert len(found) == 4
    assert all(row["noted"] for row in found)


def looked_up(starts: dict[int, int], width: int = 16, whole: bool = False, summed: bool = True) -> Alone:
    """A table in blocks over two ranks (or a whole one), read under a mask of rows from `starts` on."""
    p = Alone("tp=2")
    table = p.place("table", (16 if whole else 32, 8), {} if whole else {0: "tp"})
    ids = p.place("ids", (6,), dtype="s32", range=(0, 32))
    zero = p.full(0, (6,), "s32")
    mine = p.subtract(ids, p.broadcast(p.rank_constant(starts), (6,), []))
    low, high = p.compare(mine, zero, direction="GE"), p.compare(mine, p.full(width, (6,), "s32"), direction="LT")
    kept = getattr(p, "and")(low, high)
    found = p.embedding(table, p.select(kept, mine, zero))
    found = p.select(p.broadcast(kept, (6, 8), [0]), found, p.full(0.0, (6, 8)))
    p.result(p.all_reduce(found, "tp") if summed else p.all_gather(found, "tp", 0))
    return p


@pytest.mark.parametrize(("starts", "verdict"), [
    ({0: 0, 1: 16}, Verdict.PROVED), ({0: 16, 1: 0}, Verdict.REFUTED), ({0: 0, 1: 12}, Verdict.REFUTED),
])  # fmt: skip
def test_a_masked_read_keeps_the_rank_s_own_rows(starts: dict[int, int], verdict: Verdict) -> None:
    p = looked_up(starts)
    result = lint_graph(p.graph, p.mesh)
    assert result.verdict is verdict, result.missing
    assert [f.kind for f in result.findings] == ["other-rows"] * (verdict is Verdict.REFUTED)


@pytest.mark.parametrize(("starts", "summed", "verdict"), [
    ({0: 0, 1: 16}, True, Verdict.REFUTED), ({0: 0, 1: 16}, False, Verdict.UNKNOWN), ({0: 0, 1: 0}, True, None),
])  # fmt: skip
def test_a_whole_table_has_no_rows_of_the_rank_s_own(
    starts: dict[int, int], summed: bool, verdict: Verdict | None
) -> None:
    """Ranks may shift what they look up there (places counted from theirs), but not to add up what they find."""
    p = looked_up(starts, whole=True, summed=summed)
    result = lint_graph(p.graph, p.mesh)
    assert (result.verdict is verdict) if verdict else (result.verdict is not Verdict.PROVED)


def test_a_mask_that_keeps_fewer_rows_is_another_program_of_one_device() -> None:
    """A table that is filled up with rows that nobody asks for."""
    p = looked_up({0: 0, 1: 16}, width=14)
    assert lint_graph(p.graph, p.mesh).verdict is Verdict.UNKNOWN
