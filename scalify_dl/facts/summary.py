"""What is in a facts directory, for people: `dlverify facts DIR`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scalify_dl.ir.vocabulary import COLLECTIVES

from .model import Facts

SHOWN = 12


def summarise(facts: Facts) -> str:
    """Programs, mesh, ops by kind, inputs with their placements, outputs that are checked, assumptions and notes."""
    lines = [f"schema {facts.meta.get('schema', '?')}"]
    lines += [f"{key}: {value}" for key, value in facts["meta"] if key != "schema"]
    axes = sorted(facts["mesh_axis"], key=lambda row: row[1])
    lines.append(f"mesh: {', '.join(f'{axis}={size}' for axis, _, size in axes)} ({len(facts.ranks)} ranks)")
    lines += _graphs(facts)
    lines += _inputs(facts)
    names: dict[str, str] = dict(facts["tensor_name"])
    lines.append("")
    lines.append(f"outputs to check: {len(facts['expect'])}")
    lines += _some(
        f"  {names.get(dist, dist)} against {names.get(base, base)}: {layout or 'default placement'}"
        for dist, base, layout in facts["expect"]
    )
    if facts["range"]:
        lines += ["", f"ranges of integers: {len(facts['range'])}"]
        lines += _some(f"  {names.get(row[0], row[0])}: {row[1]} ≤ x < {row[2]} ({row[3]})" for row in facts["range"])
    for table, title in (("assume", "assumptions"), ("placement_note", "placement notes")):
        if facts[table]:
            lines += ["", f"{title}: {len(facts[table])}"]
            lines += _some(f"  {names.get(row[0], row[0])}: {row[1]}" for row in facts[table])
    return "\n".join(lines) + "\n"


def _graphs(facts: Facts) -> list[str]:
    """One block per top-level program: ops by kind, collectives with their groups."""
    regions = {row[2]: row[0] for row in facts["region"]}
    op_graph = {op: graph for op, graph, _ in facts["op"]}
    runs = Counter(graph for graph, _ in facts["runs"])

    def top(graph: str) -> str:
        while graph in regions:
            graph = op_graph[regions[graph]]
        return graph

    kinds: dict[str, Counter[str]] = {graph: Counter() for graph, _ in facts["graph"] if graph not in regions}
    for _, graph, kind in facts["op"]:
        kinds[top(graph)][kind] += 1
    roles: dict[str, str] = dict(facts["graph"])
    lines = []
    for graph, counts in kinds.items():
        who = f", {runs[graph]} ranks" if graph in runs else ""
        lines += ["", f"{graph} ({roles[graph]}{who}): {sum(counts.values())} ops"]
        for title, chosen in (
            ("collectives", [kind for kind in counts if kind in COLLECTIVES]),
            ("opaque", [kind for kind in counts if kind.startswith(("custom:", "unknown:"))]),
            ("others", [k for k in counts if k not in COLLECTIVES and not k.startswith(("custom:", "unknown:"))]),
        ):
            if chosen:
                shown = sorted(chosen, key=lambda kind: (-counts[kind], kind))
                lines.append(f"  {title}: " + ", ".join(f"{kind} {counts[kind]}" for kind in shown))
    return lines


def _inputs(facts: Facts) -> list[str]:
    """Distributed inputs by where their placement comes from, and those without one."""
    why: dict[str, str] = {}
    for row in facts["shard"]:
        why[row[0]] = row[5]
    roles: dict[str, str] = dict(facts["graph"])
    inputs = [tensor for graph, _, tensor in facts["input"] if roles[graph] == "dist"]
    regions = {row[2] for row in facts["region"]}
    graph_of = {tensor: graph for graph, _, tensor in facts["input"]}
    inputs = [tensor for tensor in inputs if graph_of[tensor] not in regions]
    counts = Counter(why.get(tensor, "unrelated") for tensor in inputs)
    parts = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    lines = ["", f"distributed inputs: {len(inputs)}" + (f" ({parts})" if parts else "")]
    names: dict[str, str] = dict(facts["tensor_name"])

    def shown(tensor: str, piece: str) -> str:
        return names.get(tensor, tensor) + (f"[{piece}]" if piece else "")

    lines += _some(
        f"  {shown(dist, piece)} = {shown(base, base_piece)} {layout} ({w})"
        for dist, piece, base, base_piece, layout, w in facts["shard"]
    )
    return lines


def _some(lines: Iterable[str]) -> list[str]:
    """The first lines, and how many more there are."""
    found = list(lines)
    return found[:SHOWN] + ([f"  … and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])
