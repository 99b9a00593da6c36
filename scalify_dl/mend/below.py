"""Proving an edited program by the part of it that the edits can change: what is above them, or beside them, is as it
was, and so is what was proved of it.
"""

from __future__ import annotations

from itertools import compress, count
from operator import is_not

from scalify_dl.facts import Facts
from scalify_dl.facts.model import Row
from scalify_dl.facts.schema import FREE_TEXT, TABLES
from scalify_dl.prove.pipeline import Analysis

from .state import proved
from .window import Wiring, cut_out, held

WORTH = 0.8
"""A part of more than so much of the ops is no gain."""
WORDS = FREE_TEXT - {"assume"}
"""Tables that no proof reads."""


def proved_below(analysis: Analysis, edited: Facts) -> int | None:
    """How many outputs the rules prove of a program that was analysed, with edits; None where that is not seen on a
    part of it (it may be seen on all of it)."""
    facts = analysis.facts
    differing = changed(facts, edited)
    roles: dict[str, str] = dict(edited["graph"])
    touched = {graph for op, graph, _ in [*facts["op"], *edited["op"]] if op in differing}
    if len(roles) != 2 or {roles[graph] for graph in touched} != {"dist"}:
        return None
    wiring = Wiring.of(edited)
    below = wiring.below(tensor for op in differing for tensor in wiring.makes[op])
    before = {row[:2] for row in analysis.rows("output_verdict") if row[2] == "PROVED"}
    left = [row for row in edited["expect"] if row[0] in below or row[:2] not in before]
    if not {row[0] for row in left} <= below or not {row[1] for row in left} <= wiring.maker.keys():
        return None
    corr, _ = held(analysis, wiring)
    above = {dist: rows for dist, rows in corr.items() if dist not in below}
    ops = {wiring.maker[tensor] for tensor in below}
    most = int(WORTH * len(edited["op"]))
    part = cut_out(edited, wiring, ops, left, above, below, 0, most, every=True)
    if part is None or len(part["op"]) > most:
        return None
    found = proved(part, analysis.options, formulas=False)
    return len(edited["expect"]) - len(left) + found if found == len(left) else None


def changed(facts: Facts, edited: Facts) -> set[str]:
    """Ops that differ, or whose results do; none where something else does."""
    names = [name for name in edited if edited[name] is not facts[name] and name not in WORDS]
    differing = {name: _apart(facts[name], edited[name]) for name in names}
    makers = {tensor: op for op, _, tensor in [*facts["result"], *edited["result"]]}
    found = set()
    for name, rows in differing.items():
        about = "op" if name == "op" else "tensor" if name == "tensor" else TABLES[name].columns[0].refers
        if about == "op":
            found |= {row[0] for row in rows}
        elif about == "tensor" and name not in ("shard", "expect") and {row[0] for row in rows} <= makers.keys():
            found |= {makers[row[0]] for row in rows}
        elif rows:
            return set()
    return found


def _apart(rows: list[Row], others: list[Row]) -> set[Row]:
    """Rows of one table alone: most are the same objects in both, in one order."""
    first = next(compress(count(), map(is_not, rows, others)), min(len(rows), len(others)))
    most = min(len(rows), len(others)) - first
    last = next(compress(count(), map(is_not, reversed(rows), reversed(others))), most)
    rows, others = rows[first : len(rows) - min(last, most)], others[first : len(others) - min(last, most)]
    here, there = {*map(id, rows)}, {*map(id, others)}
    return {row for row in rows if id(row) not in there} ^ {row for row in others if id(row) not in here}
