"""Cuts a random pair down to what is needed for a false correspondence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..check import Finding

FALSE = ("false", "malformed")
Tables = dict[str, list[tuple[Any, ...]]]
BY_OP = (
    "op", "operand", "result", "attr_number", "attr_symbol", "rank_number", "group", "permute_pair", "region", "source",
    "layer", "rounding", "group_along", "number_along",
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
        if self.finding.draw == "infinite":
            lines.append(
                "on inputs of which some elements are infinite: a lemma about numbers asks for them,"
                " a_number(d) and leaned_on(d) (docs/rules.md, One of your own)"
            )
        return "\n".join(lines)


Seen = tuple[list[Finding], Callable[[], tuple[str, ...]]]
"""What the audit said of each tuple that was derived, and what says the rules that fired."""
Attempt = Callable[[Tables], Seen]


def smallest(name: str, tables: Tables, seen: Seen, attempt: Attempt) -> Unsound:
    """A false finding with a graph from which no op can be taken away, and in which no value that is held as is derived
    truly can be made an input that is held so, and none that nothing is derived of a mere input."""
    best = Unsound(_earliest(tables, seen[0]), name, tables, seen[1]() or ("?",))
    ways, results = _smaller(best, seen[0]), Counter(op for op, *_ in tables["result"])
    while (small := next(ways, None)) is not None:
        kept = Counter(op for op, *_ in small["result"])
        if len(small["op"]) >= len(best.tables["op"]) or any(results[op] != n for op, n in kept.items()):
            continue  # (an op without one of its results is none)
        again = attempt(small)
        if any(f.verdict in FALSE for f in again[0]):
            best = Unsound(_earliest(small, again[0]), name, small, again[1]() or ("?",))
            ways = _smaller(best, again[0])
    return best


def _earliest(tables: Tables, findings: Iterable[Finding]) -> Finding:
    """The false one whose value is computed first."""
    at = {t: n for n, (_, _, t) in enumerate(tables["result"])}
    return min((f for f in findings if f.verdict in FALSE), key=lambda f: at.get(f.row[0], -1))


def _smaller(best: Unsound, findings: Sequence[Finding]) -> Iterator[Tables]:
    """The tables without something, in every way: without all that the false tuple does not need; with values as inputs
    that are held truly, or related to nothing, those nearest to the end first; without an op that nothing uses."""
    tables, (dist, _, base, _, _) = best.tables, best.finding.row
    yield cut(tables, {dist, base})
    sinks = _sinks(tables)
    of_others = {op for op, *_ in tables["operand"]}
    fixed = _within(tables) | {t for op, _, t in tables["result"] if op not in of_others}  # constants are what they are
    true = {
        f.row[0]: f.row for f in findings
        if f.verdict == "true" and not f.row[1] and not f.row[3] and fixed.isdisjoint((f.row[0], f.row[2]))
    }  # fmt: skip
    true.pop(dist, None)
    operands = _behind(tables, dist)
    yield cut(opened(tables, [row for d, row in true.items() if d in operands]), {dist, base})
    for made in reversed([t for _, _, t in tables["result"] if t in true]):
        yield cut(opened(tables, [true[made]]), {dist, base, *sinks})
    related = {f.row[0] for f in findings}
    strange = [t for _, _, t in tables["result"] if t not in related and t not in (dist, base) and t not in fixed]
    yield cut(unrelated(tables, {t for t in strange if t in operands}), {dist, base})
    yield cut(unrelated(tables, set(strange)), {dist, base})
    for made in reversed(strange):
        yield cut(unrelated(tables, {made}), {dist, base, *sinks})
    for sink in sinks:
        rest = set(sinks) - {sink}
        yield cut(tables, {sink} if sink == dist else _behind(tables, sink) | rest)


def opened(tables: Tables, rows: Iterable[Sequence[str]]) -> Tables:
    """The tables in which distributed values (`corr` rows) are inputs that are held as the rows say; so are the
    baseline's values of which they speak."""
    graphs = {t: graph for t, graph, *_ in tables["tensor"]}
    given = {t for _, _, t in tables["input"]}
    made = {t for d, _, b, *_ in rows for t in (d, b)} - given
    small = dict(tables)
    small["result"] = [row for row in tables["result"] if row[2] not in made]
    small["input"] = [*tables["input"], *((graphs[t], -1, t) for t in sorted(made))]
    small["shard"] = [*tables["shard"], *((*row, "given") for row in rows if row[0] in made)]
    return small


def unrelated(tables: Tables, values: set[str]) -> Tables:
    """The tables in which values are inputs of which nothing is known."""
    graphs = {t: graph for t, graph, *_ in tables["tensor"]}
    small = dict(tables)
    small["result"] = [row for row in tables["result"] if row[2] not in values]
    small["input"] = [*tables["input"], *((graphs[t], -1, t) for t in sorted(values))]
    return small


def _within(tables: Tables) -> set[str]:
    """The values of sub-graphs, whose inputs are what their op says."""
    inner = {graph for _, _, graph in tables["region"]}
    return {t for t, graph, *_ in tables["tensor"] if graph in inner}


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
        elif name == "input":
            rows = _numbered((graph, tensor) for graph, _, tensor in rows if graph in inner or tensor in keep)
        elif name == "output":
            inside = [(graph, tensor) for graph, _, tensor in rows if graph in inner]
            top = [(graph, tensor) for tensor, graph, *_ in tables["tensor"] if tensor in wanted and graph not in inner]
            rows = _numbered(inside + top)
        elif name == "expect":
            rows = [r for r in rows if r[0] in wanted and r[1] in wanted]
        small[name] = rows
    return small


def _numbered(rows: Iterable[tuple[str, str]]) -> list[tuple[Any, ...]]:
    """(graph, tensor) → (graph, how many came before in that graph, tensor)."""
    seen: Counter[str] = Counter()
    packed = []
    for graph, tensor in rows:
        packed.append((graph, seen[graph], tensor))
        seen[graph] += 1
    return packed
