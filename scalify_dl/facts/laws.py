"""What every op kind asks of its operands, results and attributes: facts that break it describe no program.

Result types are those of `frontends.shapes`; here are the attributes that a kind must have, and regions. Ops that look
alike (kind, types, attributes) are checked once, so that layers after the first cost a look-up each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.frontends.graph import Graph, Op, Tensor
from scalify_dl.frontends.shapes import RULES, Type

from .model import Facts, Row
from .problems import error, first
from .vocabulary import ARITY, KINDS, NUMBERS, RANKED, SYMBOLS, words

Types = dict[str, Type]
"""Tensor → (dtype, shape)."""

_REGIONS = words("while conditional")


def check_ops(facts: Facts, types: Types) -> None:
    """InputError for the first op whose operands, results, attributes, groups or regions do not fit its kind."""
    numbered: dict[Type, int] = {}
    number = {tensor: numbered.setdefault(kind, len(numbered)) for tensor, kind in types.items()}
    operands, results = _ordered(facts["operand"]), _ordered(facts["result"])
    regions = _ordered(facts["region"])
    attributes = {table: _rows_of(facts[table]) for table in ("attr_number", "attr_symbol", "rank_number")}
    groups = _groups(facts)
    seen: set[tuple[object, ...]] = set()
    for n, (op, _, kind) in enumerate(facts["op"]):
        has, made = operands.get(op, ()), results.get(op, ())
        given = [tuple(rows.get(op, ())) for rows in attributes.values()]
        key = (kind, *map(number.__getitem__, has), None, *map(number.__getitem__, made), *given, groups.get(op))
        if op not in regions and key in seen:
            continue
        try:
            for checked in _by_rank(op, kind, *given):
                checked.operands = [Tensor(*types[t]) for t in has]
                checked.results = [Tensor(*types[t]) for t in made]
                checked.groups = [[0] * groups[op]] if op in groups else None
                checked.regions = [Graph()] * len(regions.get(op, ()))
                _check(checked)
        except InputError as problem:
            raise error(facts, "op", n, problem.message, expected=problem.expected, hint=problem.hint) from None
        seen.add(key)
    _check_regions(facts, types, operands, results, regions)


def _ordered(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Numbered lists by owner; positions are known to be 0, 1, …"""
    out: dict[str, list[str]] = {}
    for owner, position, item in rows:
        items = out.setdefault(owner, [])
        if position != len(items):
            return _ordered(sorted(rows, key=lambda row: row[1]))
        items.append(item)
    return out


def _rows_of(rows: Iterable[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row[0], []).append(row[1:])
    return out


def _groups(facts: Facts) -> dict[str, int]:
    """Collective → size of its groups; their members are numbered from 0, and all groups have as many."""
    members: dict[str, dict[int, list[int]]] = {}
    for op, group, position, _ in facts["group"]:
        members.setdefault(op, {}).setdefault(group, []).append(position)
    out = {}
    for op, found in members.items():
        sizes = {len(positions) for positions in found.values()}
        dense = all(sorted(positions) == list(range(len(positions))) for positions in found.values())
        if not dense or sorted(found) != list(range(len(found))) or len(sizes) > 1:
            raise error(
                facts,
                "group",
                first(facts["group"], 0, {op}),
                f"the groups of `{op}` are not numbered from 0, or not of one size",
                column=2,
                expected="groups 0, 1, …, the members of each at positions 0, 1, …",
            )
        out[op] = sizes.pop()
    return out


def _by_rank(op: str, kind: str, numbers: Sequence[Row], symbols: Sequence[Row], ranked: Sequence[Row]) -> Iterable[Op]:
    """The op with its attributes, once for every rank on which its numbers may be others."""
    texts = _listed(op, kind, symbols)
    allowed = RANKED.get(kind, frozenset()) if kind in KINDS else None
    for key, *_ in ranked:
        if allowed is not None and key not in allowed:
            raise InputError(
                f"`{op}` ({kind}): `{key}` depends on the rank",
                expected="ranks differ in values of constants and bounds of slices; other ops are several programs",
            )
    for rank in sorted({row[2] for row in ranked}) or [None]:
        mine = [(key, position, value) for key, position, at, value in ranked if at == rank]
        own = _listed(op, kind, [*numbers, *mine])
        if kind in KINDS and own.keys() & texts.keys():
            raise InputError(f"`{op}` ({kind}): `{min(own.keys() & texts.keys())}` is both a number and a text")
        yield Op(kind, [], [], op, own, texts)


def _listed(op: str, kind: str, rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Attributes as lists, in order of positions. InputError for gaps, in kinds whose attributes are known."""
    out: dict[str, list[Any]] = {}
    for key, position, value in sorted(rows, key=lambda row: row[1]):
        values = out.setdefault(key, [])
        if position < 0 or (position != len(values) and kind in KINDS):
            raise InputError(
                f"`{op}` ({kind}): `{key}` has position {position} after {len(values)} values",
                expected="positions 0, 1, … of an attribute",
            )
        values.append(value)
    return out


def _check(op: Op) -> None:
    """InputError where one op breaks a law of its kind."""
    if op.kind not in KINDS:
        return
    if op.kind in ARITY and len(op.operands) != ARITY[op.kind]:
        raise InputError(f"`{op.name}` ({op.kind}) has {len(op.operands)} operands, expected {ARITY[op.kind]}")
    for key, values in SYMBOLS.get(op.kind, {}).items():
        found = op.symbols.get(key, [])
        if op.regions and not found:
            continue
        if len(found) != 1 or (values and found[0] not in values):
            raise InputError(
                f"`{op.name}` ({op.kind}) has the {key} {found}",
                expected=f"one of {' '.join(sorted(values))}" if values else "one text",
            )
    for key in NUMBERS.get(op.kind, ()):
        if len(op.numbers.get(key, ())) != 1:
            raise InputError(
                f"`{op.name}` ({op.kind}) has {len(op.numbers.get(key, ()))} values of `{key}`, expected 1"
            )
    rule = RULES.get(op.kind)
    if rule is None:
        return
    declared = [(t.dtype, t.shape) for t in op.results]
    types = rule(op, declared[0] if declared else None)
    if types != declared:
        raise InputError(
            f"`{op.name}` ({op.kind}) has results {' '.join(t.type for t in op.results)}, but its operands and"
            f" attributes make them {' '.join(Tensor(*t).type for t in types)}",
            hint=f"operands: {', '.join(t.type for t in op.operands)}",
        )


def _check_regions(
    facts: Facts,
    types: Types,
    operands: dict[str, list[str]],
    results: dict[str, list[str]],
    regions: dict[str, list[str]],
) -> None:
    """Loops and branches hand on what they are given."""
    inputs, outputs = _ordered(facts["input"]), _ordered(facts["output"])

    def typed(tensors: Iterable[str]) -> list[Type]:
        return [types[t] for t in tensors]

    for n, (op, _, kind) in enumerate(facts["op"]):
        if kind not in _REGIONS:
            continue
        graphs = regions[op]
        carried, made = typed(operands.get(op, ())), typed(results.get(op, ()))
        problem = ""
        if kind == "while":
            if len(graphs) != 2:
                problem = f"{len(graphs)} regions, expected a condition and a body"
            elif made != carried or any(typed(inputs.get(g, ())) != carried for g in graphs):
                problem = "operands, results and inputs of its regions of different types"
            elif typed(outputs.get(graphs[1], ())) != carried:
                problem = "a body that gives back other types than it takes"
            elif typed(outputs.get(graphs[0], ())) != [("pred", ())]:
                problem = "a condition that gives no single truth value"
        elif any(typed(outputs.get(g, ())) != made for g in graphs):
            problem = "branches that give other types than its results"
        elif carried[1:] != [t for g in graphs for t in typed(inputs.get(g, ()))]:
            problem = "operands of other types than the inputs of its branches, one after the other"
        if problem:
            raise error(facts, "op", n, f"`{op}` ({kind}) has {problem}")


def runs_of(facts: Facts) -> dict[str, frozenset[int]]:
    """Graph → the ranks that run it; regions run where their op does, the baseline on rank 0."""
    every = frozenset(row[0] for row in facts["rank_coord"])
    roles: dict[str, str] = dict(facts["graph"])
    named: dict[str, set[int]] = {}
    for graph, rank in facts["runs"]:
        named.setdefault(graph, set()).add(rank)
    graph_of = {op: graph for op, graph, _ in facts["op"]}
    inside = {graph: graph_of[op] for op, _, graph in facts["region"]}
    out = {}
    for graph, role in roles.items():
        top, passed = graph, {graph}
        while top in inside and inside[top] not in passed:
            top = inside[top]
            passed.add(top)
        out[graph] = frozenset({0}) if role == "base" else frozenset(named.get(top, every))
    return out
