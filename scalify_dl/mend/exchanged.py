"""Inputs that were paired by their order though their names differ: whether another pairing of those of one type and
placement, put to the rules, proves all outputs."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice, permutations, product

from scalify_dl.facts import Facts
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.pipeline import Analysis

from .state import proved

TRIED = 12
"""So many other pairings are put to the rules."""


def exchanged(analysis: Analysis) -> dict[str, str]:
    """Distributed to baseline inputs, of those that pair otherwise; empty where no other pairing proves all outputs."""
    facts = analysis.facts
    guessed = {tensor for tensor, _, why in facts["assume"] if why == "position"}
    if len(guessed) < 2:
        return {}
    shapes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for tensor, dim, size in facts["dim"]:
        shapes[tensor].append((dim, size))
    types = {tensor: (dtype, *sorted(shapes[tensor])) for tensor, _, dtype, _ in facts["tensor"]}
    alike: dict[tuple[object, ...], list[tuple[str, str]]] = defaultdict(list)
    for dist, piece, base, base_piece, layout, _ in facts["shard"]:
        if dist in guessed and not piece + base_piece:
            alike[layout, types[dist], types[base]].append((dist, base))
    groups = [rows for rows in alike.values() if len(rows) > 1]
    was = {d: b for rows in groups for d, b in rows}
    ways = product(*(permutations([base for _, base in rows]) for rows in groups))
    for way in islice(ways, 1, TRIED + 1) if groups else ():
        names = {d: b for rows, bases in zip(groups, way, strict=True) for (d, _), b in zip(rows, bases, strict=True)}
        edited = Facts(dict(facts.tables), facts.directory)
        edited.tables["shard"] = [(d, p, names.get(d, b), *rest) for d, p, b, *rest in facts["shard"]]
        edited.tables["expect"] = [  # what they hold in the end
            (d, names[d] if was.get(d) == b else b, *rest) for d, b, *rest in facts["expect"]
        ]
        program = load_program(edited.tables)
        if find_counterexample(program, rounding=False, localise=False, once=True).counterexamples:
            continue  # a run takes a fraction of what a proof does
        if proved(edited, analysis.options) == len(edited["expect"]):
            return {d: b for d, b in names.items() if was[d] != b}
    return {}
