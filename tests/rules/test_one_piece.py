"""No rule speaks of one thing because of another: what its body says is of one piece with its head."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.terms import Atom, Clause, Term, Var, parts
from scalify_dl.facts import Facts
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import MAIN, analyse
from scalify_dl.pysouffle import rules_dir


def variables(node: Term | Atom) -> set[str]:
    return {part.name for part in parts(node) if isinstance(part, Var) and part.name != "_"}


def apart(clauses: Iterable[Clause]) -> list[str]:
    """Rules of which a part of the body with variables has none of them in common with the rest of the rule. Heads
    without variables are flags: that there is something."""
    found = []
    for clause in clauses:
        head = variables(clause.head)
        pieces: list[set[str]] = []
        for literal in clause.body:
            names = variables(literal)
            linked = [piece for piece in pieces if piece & names]
            pieces = [piece for piece in pieces if not piece & names] + ([names.union(*linked)] if names else [])
        if head and any(piece.isdisjoint(head) for piece in pieces):
            found.append(f"{Path(clause.file).name}:{clause.line}")
    return found


def test_what_a_rule_says_is_of_one_piece_with_its_head() -> None:
    """`same(x, y) :- reduces(op), alike(x, y)` says of all x and y what is so of the operand of a reduction."""
    assert apart(read_rules([rules_dir() / MAIN]).clauses) == []


@pytest.mark.parametrize(("body", "wrong"), [("reduces(op), alike(x, y)", True), ("takes(op, x), alike(x, y)", False)])
def test_a_rule_that_falls_apart_is_found(body: str, wrong: bool, tmp_path: Path) -> None:
    rules = tmp_path / "rules.dl"
    rules.write_text(
        ".decl reduces(op:symbol)\n.decl takes(op:symbol, x:symbol)\n.decl alike(x:symbol, y:symbol)\n"
        f".decl same(x:symbol, y:symbol)\nsame(x, y) :- {body}.\n"
    )
    assert bool(apart(read_rules([rules]).clauses)) is wrong


@pytest.mark.parametrize(("low", "verdict"), [(0, "PROVED"), (1, "UNKNOWN")])
@pytest.mark.parametrize("reduces", [True, False])
def test_a_reduction_over_no_dims_says_nothing_of_other_values(low: int, verdict: str, reduces: bool) -> None:
    """Once it made every pad, slice and conversion of one shape and type its operand: PROVED, where rows are moved."""
    pair = Pair({"tp": 1})
    (x, dx), (y, dy) = pair.input((3, 2)), pair.input(())
    g = pair.dist
    moved = g.emit("pad", [dx, g.constant(7.0, "f32")], low=[low, 0], high=[-low, 0], interior=[0, 0])
    pair.outputs(pair.base.emit("negate", [x]), g.emit("negate", [moved]))
    if reduces:
        pair.outputs(pair.base.emit("negate", [y]), g.emit("negate", [g.emit("reduce", [dy], reducer="sum")]))
    tables = {name: list(rows) for name, rows in pair.tables().items()}
    found = [row[2] for row in analyse(Facts(tables), Options(timeout=20)).rows("output_verdict")]
    assert sorted(found) == ["PROVED"] * reduces + [verdict]
