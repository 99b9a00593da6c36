"""Fuzzes the rules: random pairs, everything derived audited, unsound lemmas shown with a minimal graph, coverage
counted."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

from ..check import Finding, audit
from ..derive import Derived, derive
from .generate import random_pair

Tables = dict[str, list[tuple[Any, ...]]]
LEMMAS = "holds"
"""The relation whose rules are the lemmas."""


@dataclass(frozen=True, slots=True)
class Unsound:
    """A false correspondence that the rules derived, and a graph cut down to what is needed for it."""

    finding: Finding
    seed: int
    tables: Tables
    rules: tuple[str, ...]
    """`file:line` of the rules that derive it in the small graph (those of `holds`)."""

    def listing(self) -> str:
        """The small graph, an op a line."""
        lines = []
        operands: dict[str, list[str]] = {}
        for op, _, tensor in sorted(self.tables["operand"]):
            operands.setdefault(op, []).append(tensor)
        made = {op: t for op, _, t in self.tables["result"]}
        shape: dict[str, list[int]] = {}
        for tensor, _, size in sorted(self.tables["dim"]):
            shape.setdefault(tensor, []).append(size)
        lines += [f"mesh {', '.join(f'{a}={n}' for a, _, n in self.tables['mesh_axis'])}"]
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


@dataclass(slots=True)
class Report:
    """What a fuzzing run found. `exercised` counts audited derivations by lemma (`file:line`), `never` lists those
    without."""

    pairs: int = 0
    tuples: int = 0
    unsound: list[Unsound] = field(default_factory=list)
    exercised: Counter[str] = field(default_factory=Counter)
    texts: dict[str, str] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False

    @property
    def never(self) -> list[str]:
        """Lemmas that derived nothing in any audited pair."""
        return [place for place in self.texts if not self.exercised[place]]


def check_rules(
    rules: Iterable[Path] = (),
    *,
    main: Path | None = None,
    seconds: float = 60.0,
    pairs: int | None = None,
    seed: int = 0,
    stop: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Fuzzes for `seconds` of CPU time or a number of `pairs`; stops early after `stop` unsound findings.

    `rules` are files beside the shipped ones, `main` replaces `verify.dl`.
    """
    report, files = Report(), list(rules)
    end = time.process_time() + seconds
    try:
        while time.process_time() < end and (pairs is None or report.pairs < pairs) and len(report.unsound) < stop:
            number = seed + report.pairs
            report.pairs += 1
            one(number, files, main, report)
            if progress:
                progress(report.pairs, report.tuples)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def one(number: int, rules: list[Path], main: Path | None, report: Report) -> None:
    """Fuzzes one pair."""
    tables = random_pair(random.Random(number)).tables()
    try:
        derived = derive(tables, rules, main=main, timeout=20)
        findings = audit(tables, derived.corr, trials=2, seed=number)
    except InputError as error:
        report.problems[str(error)[:160]] += 1
        return
    report.tuples += len(findings.findings)
    for problem in findings.problems:
        report.problems[problem[:160]] += 1
    if not findings.problems:
        for place, text, count in lemmas(derived):
            report.texts[place] = text
            report.exercised[place] += count
    if findings.false:
        report.unsound.append(_smallest(findings.false[0], number, tables, rules, main))


def lemmas(derived: Derived) -> list[tuple[str, str, int]]:
    """Place, text and number of derivations of every rule for `holds`."""
    return [
        (f"{Path(rule.file).name}:{rule.line}", rule.text, rule.derived)
        for rule in derived.program.stats().rules
        if rule.relation == LEMMAS
    ]


def _smallest(finding: Finding, number: int, tables: Tables, rules: list[Path], main: Path | None) -> Unsound:
    """A false finding with a graph from which no op can be taken away."""

    def attempt(small: Tables) -> Unsound | None:
        derived = derive(small, rules, main=main)
        false = audit(small, derived.corr, trials=2, seed=number).false
        if not false:
            return None
        places = tuple(place for place, _, count in lemmas(derived) if count)
        return Unsound(false[0], number, small, places)

    best = attempt(cut(tables, {finding.row[0], finding.row[2]})) or Unsound(finding, number, tables, ())
    shrinking = True
    while shrinking:
        shrinking = False
        row = best.finding.row
        for wanted in [{row[0], row[2]}, *({t} for t in _sinks(best.tables))]:
            rest = set(_sinks(best.tables)) - wanted
            small = cut(best.tables, wanted if row[0] in wanted else _without(best.tables, wanted) | rest)
            if len(small["op"]) < len(best.tables["op"]):
                found = attempt(small)
                if found is not None:
                    best, shrinking = found, True
                    break
    return best


def _sinks(tables: Tables) -> list[str]:
    """Results that no op uses."""
    used = {t for _, _, t in tables["operand"]}
    return [t for _, _, t in tables["result"] if t not in used]


def _without(tables: Tables, gone: set[str]) -> set[str]:
    """What the ops that make some tensors use: the new sinks when those ops go."""
    ops = {op for op, _, t in tables["result"] if t in gone}
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


def cut(tables: Tables, wanted: set[str]) -> Tables:
    """The tables reduced to what some tensors depend on; those become the outputs."""
    maker = {t: op for op, _, t in tables["result"]}
    operands: dict[str, list[str]] = {}
    for op, _, tensor in tables["operand"]:
        operands.setdefault(op, []).append(tensor)
    keep, ops, stack = set(), set(), list(wanted)
    while stack:
        tensor = stack.pop()
        if tensor in keep:
            continue
        keep.add(tensor)
        op = maker.get(tensor)
        if op is not None:
            ops.add(op)
            stack += operands.get(op, [])
    inner = _inside(tables, ops)
    ops |= {op for op, graph, _ in tables["op"] if graph in inner}
    keep |= {t for t, graph, *_ in tables["tensor"] if graph in inner}
    keep |= {t for op, _, t in tables["result"] if op in ops}
    by_op = {
        "op",
        "operand",
        "result",
        "attr_number",
        "attr_symbol",
        "rank_number",
        "group",
        "permute_pair",
        "region",
        "source",
        "layer",
    }
    by_tensor = {
        "tensor",
        "dim",
        "literal",
        "literal_rational",
        "literal_hash",
        "literal_item",
        "range",
        "assume",
        "tensor_name",
    }
    small: Tables = {}
    for name, rows in tables.items():
        if name in by_op:
            rows = [r for r in rows if r[0] in ops]
        elif name in by_tensor:
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
