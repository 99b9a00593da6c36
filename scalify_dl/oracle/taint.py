"""Which values rest on something invented: what differs only there is a witness, never a refutation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .dtypes import is_integer
from .meaning import is_opaque
from .program import Graph, Op, Program


def _unmatched_elided(program: Program) -> set[str]:
    """Elided constants of a type that the other side has no elided constant of: their values are a guess."""
    kinds: dict[str, set[tuple[object, ...]]] = {"base": set(), "dist": set()}
    found: list[tuple[str, tuple[object, ...], str]] = []
    for graph in program.graphs.values():
        for op in graph.ops:
            if op.kind != "constant" or "value" in op.by_rank or "value" in op.numbers:
                continue
            tensor = program.tensors[op.results[0]]
            if tensor.items is None and (tensor.literal is None or tensor.literal == "{...}"):
                key = (tensor.sha256 or tensor.dtype, tensor.shape)
                kinds[graph.role].add(key)
                found.append((graph.role, key, op.id))
    return {op for role, key, op in found if key not in kinds["base" if role == "dist" else "dist"]}


def _source(op: Op, unmatched: set[str]) -> str | None:
    if is_opaque(op.kind) and op.declared is None:
        return f"the meaning of `{op.kind}` is invented"
    if op.kind == "bitcast-convert" and not all(map(is_integer, op.symbols.get("from", []))):
        return f"op {op.id} looks at bits of a real number, which rounding decides"
    if op.id in unmatched:
        return f"the value of constant {op.results[0]} is not in the dump, and the other side has none like it"
    return None


def invented_values(program: Program, unplaced: Iterable[str], unpaired: Iterable[str]) -> dict[str, str]:
    """Tensor → why its value is invented, directly or through its operands.

    `unplaced` are distributed inputs that no shard row relates, `unpaired` random ops without a baseline partner.
    """
    reasons: dict[str, str] = {t: f"input {program.name(t)} is related to no baseline input" for t in unplaced}
    unmatched = _unmatched_elided(program)
    loose = set(unpaired)
    memo: dict[str, str | None] = {}

    def inside(graph: Graph) -> str | None:
        if graph.id not in memo:
            memo[graph.id] = None
            for op in graph.ops:
                reason = _source(op, unmatched) or next(
                    (r for g in op.regions if (r := inside(program.graphs[g]))), None
                )
                if reason:
                    memo[graph.id] = reason
                    break
        return memo[graph.id]

    for role in ("base", "dist"):
        graphs = program.top(role)
        partners = _partners(graphs)
        before = -1
        while before < len(reasons):  # what one program brings to a collective, another one has of it
            before = len(reasons)
            for graph in graphs:
                _flow(program, graph, reasons, loose, unmatched, inside, partners)
            if not partners:
                break
    return reasons


def _partners(graphs: Sequence[Graph]) -> dict[str, list[Op]]:
    """Of every collective that several programs issue together: the ops that they issue, by op."""
    if len(graphs) < 2:
        return {}
    meetings: dict[tuple[tuple[int, ...], int], list[Op]] = {}
    for graph in graphs:
        turns: Counter[tuple[int, ...]] = Counter()
        for op in graph.ops:
            for group in (tuple(members) for members in op.groups or ()):
                if set(group) & set(graph.ranks):
                    meetings.setdefault((group, turns[group]), []).append(op)
                    turns[group] += 1
    found: dict[str, list[Op]] = {}
    for ops in meetings.values():
        for op in ops:
            found.setdefault(op.id, []).extend(ops)
    return found


def _flow(
    program: Program, graph: Graph, reasons: dict[str, str], loose: set[str], unmatched: set[str], inside: object,
    partners: Mapping[str, Sequence[Op]],
) -> None:  # fmt: skip
    for op in graph.ops:
        given = [t for partner in partners.get(op.id, (op,)) for t in partner.operands]
        reason = _source(op, unmatched) or next((reasons[t] for t in given if t in reasons), None)
        if reason is None and op.id in loose:
            reason = f"random op {op.id} corresponds to no baseline draw"
        if reason is None and op.regions:
            reason = next((r for g in op.regions if (r := inside(program.graphs[g]))), None)  # type: ignore[operator]
        if reason:
            reasons.update(dict.fromkeys(op.results, reason))
