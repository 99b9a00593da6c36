"""Programs broken by one edit of a collective or a slice: none is accepted where it means nothing on one device."""

from __future__ import annotations

from scalify_dl.audit.misplaced.campaign import campaign
from scalify_dl.audit.misplaced.edits import ways
from scalify_dl.lint.program import Alone
from scalify_dl.readers.relations import Relations

from .test_lint import mlp


def rows(p: Alone) -> list[dict[str, object]]:
    return list(campaign(p.graph, p.mesh, Relations(), 100, 0, False))


def test_every_edit_of_a_reduction_is_refuted() -> None:
    found = rows(mlp())
    assert {row["sort"] for row in found} == {"dropped", "doubled", "reducer", "group"}
    assert {row["said"] for row in found} == {"REFUTED"}


def test_a_gather_in_reverse_is_refuted() -> None:
    p = Alone("tp=2")
    x = p.place("x", (8, 16), {0: "tp"})
    p.result(p.tanh(p.all_gather(x, "tp", 0)))
    (row,) = [r for r in rows(p) if "reverse" in str(r["mutant"])]
    assert (row["said"], row["kinds"]) == ("REFUTED", "group")


def test_an_edit_leaves_the_program_itself_alone() -> None:
    p = mlp()
    before = [(op.kind, op.groups, dict(op.symbols)) for op in p.graph.ops]
    assert len(list(ways(p.graph, p.mesh))) == 5
    rows(p)
    assert [(op.kind, op.groups, dict(op.symbols)) for op in p.graph.ops] == before
