"""Cuts a random pair down to what is needed for a false correspondence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..check import Finding

Tables = dict[str, list[tuple[Any, ...]]]
BY_OP = (
    "op", "operand", "result", "attr_number", "attr_symbol", "rank_number", "group", "permute_pair", "region", "source",
    "layer", "group_along", "number_along",
)  # fmt: skip
BY_TENSOR = (
    "tensor", "dim", "literal", "literal_rational", "literal_hash", "literal_item", "range", "assume", "tensor_name",
    "output_name",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unsound:
    """A false correspondence that the rules derived, and a graph cut down to what is needed for it."""

    finding: Finding
    name: str
    """The pair's: `seed 17`, or that of a trial."""
    tables: Tables
    rules: tuple[str, ...]
    """`file:line` of the rules that derive it in the small graph (those of `holds`)."""

    def listing(self) -> str:
        """The small graph, an op a line."""
        operands: dict[str, list[str]] = {}
        for op, _, tensor in sorted(self.tables["operand"]):
            operands.setdefault(op, []).append(tensor)
        made = {op: t for op, _, t in self.tables["result"]}
        shape: dict[str, list[int]] = {}
        for tensor, _, size in sorted(self.tables["dim"]):
            shape.setdefault(tensor, []).append(size)
        lines = [f"mesh {', '.join(f'{a}={n}' for a, _, n in self.tables['mesh_axis'])}"]
        lines += [
            f"input {d}{shape.get(d, [])} of {b}{shape.get(b, [])} as {layout}"
            for d, _, b, _, layout, _ in self.tables["shard"]
        ]
        for op, graph, kind in self.tables["op"]:
            facts = [f"{k}[{p}]={v}" for o, k, p, v in self.tables["attr_number"] if o == op]
            facts += [f"{k}={v}" for o, k, _, v in self.tables["attr_symbol"] if o == op]
            facts += [f"{k}[{p}]@{r}={v}" for o, k, p, r, v in self.tables["rank_number"] if o == op]
            facts += [f"literal {x}" for t, x in self.tables["literal"] if t == made.get(op)]
            groups = [(g, r) for o, g, _, r in self.tables["group"] if o == op]
            facts += [f"groups {groups}"] if groups else []
            facts += [f"{s}→{t}" for o, s, t in self.tables["permute_pair"] if o == op]
            result = made.get(op, "")
            arguments = ", ".join(operands.get(op, []))
            lines.append(f"{graph}: {result}{shape.get(result, [])} = {kind}({arguments}) {' '.join(facts)}")
        lines.append(f"derived, but false: {' | '.join(self.finding.row)}")
        lines.append(self.finding.text)
        return "\n".join(lines)


Attempt = Callable[[Tables], tuple[Finding, tuple[str, ...]] | None]
"""Tables → a false finding about them and the rules that fired, or None."""


def smallest(finding: Finding, name: str, tables: Tables, attempt: Attempt) -> Unsound:
    """A false finding with a graph from which no op can be taken away."""
    best = Unsound(finding, name, tables, ())
    rows = [{finding.row[0], finding.row[2]}]
    while rows:
        small = cut(best.tables, rows.pop(0))
        if best.rules and len(small["op"]) >= len(best.tables["op"]):
            continue
        found = attempt(small)
        if found is not None:
            best = Unsound(found[0], name, small, found[1] or ("?",))
            rows = _smaller(best)
        elif not best.rules:
            rows = _smaller(best)
            best = Unsound(finding, name, tables, ("?",))
    return best


def _smaller(best: Unsound) -> list[set[str]]:
    """The tensors to keep, for each way of leaving something out."""
    row, sinks = best.finding.row, _sinks(best.tables)
    kept: list[set[str]] = [{row[0], row[2]}]
    for sink in sinks:
        rest = set(sinks) - {sink}
        kept.append({sink} if sink == row[0] else _behind(best.tables, sink) | rest)
    return kept


def _sinks(tables: Tables) -> list[str]:
    """Results that no op uses."""
    used = {t for _, _, t in tables["operand"]}
    return [t for _, _, t in tables["result"] if t not in used]


def _behind(tables: Tables, tensor: str) -> set[str]:
    """What the op that makes a tensor uses: the new sinks when that op goes."""
    ops = {op for op, _, t in tables["result"] if t == tensor}
    return {t for op, _, t in tables["operand"] if op in ops}


def _inside(tables: Tables, ops: set[str]) -> set[str]:
    """The sub-graphs of some ops, and theirs."""
    graphs: set[str] = set()
    found = {graph for op, _, graph in tables["region"] if op in ops}
    while found - graphs:
        graphs |= found
        members = {op for op, graph, _ in tables["op"] if graph in graphs}
        found = {graph for op, _, graph in tables["region"] if op in members}
    return graphs


def _needed(tables: Tables, wanted: Sequence[str]) -> tuple[set[str], set[str]]:
    """Tensors and ops that some tensors depend on."""
    maker = {t: op for op, _, t in tables["result"]}
    operands: dict[str, list[str]] = {}
    for op, _, tensor in tables["operand"]:
        operands.setdefault(op, []).append(tensor)
    keep: set[str] = set()
    ops: set[str] = set()
    stack = list(wanted)
    while stack:
        tensor = stack.pop()
        if tensor in keep:
            continue
        keep.add(tensor)
        op = maker.get(tensor)
        if op is not None:
            ops.add(op)
            stack += operands.get(op, [])
    return keep, ops


def cut(tables: Tables, wanted: set[str]) -> Tables:
    """The tables reduced to what some tensors depend on; those become the outputs."""
    keep, ops = _needed(tables, sorted(wanted))
    inner = _inside(tables, ops)
    ops |= {op for op, graph, _ in tables["op"] if graph in inner}
    keep |= {t for t, graph, *_ in tables["tensor"] if graph in inner}
    keep |= {t for op, _, t in tables["result"] if op in ops}
    small: Tables = {}
    for name, rows in tables.items():
        if name in BY_OP:
            rows = [r for r in rows if r[0] in ops]
        elif name in BY_TENSOR:
            rows = [r for r in rows if r[0] in keep]
        elif name == "shard":
            rows = [r for r in rows if r[0] in keep and r[2] in keep]
        elif name in ("input", "output"):
            rows = [r for r in rows if r[0] in inner or r[2] in (keep if name == "input" else wanted)]
            seen: Counter[str] = Counter()
            packed = []
            for graph, _, tensor in rows:
                packed.append((graph, seen[graph], tensor))
                seen[graph] += 1
            rows = packed
        elif name == "expect":
            rows = [r for r in rows if r[0] in wanted and r[1] in wanted]
        small[name] = rows
    return small
