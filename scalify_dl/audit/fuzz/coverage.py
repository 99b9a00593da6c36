"""Which lemmas the fuzzer has exercised, and how well.

A lemma is a rule for `holds`. It is *exercised* where it was the one to derive a tuple of a pair that was audited.
That counts as *well* exercised only where the tuple's layout has something to get wrong: two digits for one baseline
dim (a block and its number, interleaved blocks, …) or a pending reduction. A lemma that only ever grants values that
every rank holds whole says so in its header with the marker `@whole`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from scalify_dl.ir.layout import Digit, Pending
from scalify_dl.lemmas import JUDGEMENT, rule_name, says_whole
from scalify_dl.oracle.addressing import layout_of
from scalify_dl.pysouffle import rules_dir

from ..check import Finding
from ..derive import Derived


@dataclass(frozen=True, slots=True)
class Lemma:
    """A rule for `holds`: file, line in it, text; `whole`: it is marked as granting whole values only, and does."""

    file: str
    line: int
    text: str
    whole: bool

    @property
    def name(self) -> str:
        """The id that its header gives, or `file:line`."""
        return rule_name(self.file, self.line)


@dataclass(slots=True)
class Coverage:
    """Derivations by lemma that were audited; `rich` are those with two digits for one dim or something pending."""

    lemmas: list[Lemma] = field(default_factory=list)
    derived: Counter[Lemma] = field(default_factory=Counter)
    rich: Counter[Lemma] = field(default_factory=Counter)
    others: Counter[Lemma] = field(default_factory=Counter)
    """Rows of the other rules that are not shipped: what lemmas rest on, and what is said of op kinds."""

    def missing(self) -> list[Lemma]:
        """Lemmas without a derivation that counts."""
        return [x for x in self.lemmas if not (self.derived if x.whole else self.rich)[x]]

    def count(self, derived: Derived) -> None:
        """Adds what the rules derived in one audited pair."""
        rules = derived.program.stats().rules
        found = {i: _lemma(r.file, r.line, r.text) for i, r in enumerate(rules) if r.relation == JUDGEMENT}
        if not self.lemmas:
            self.lemmas = list(dict.fromkeys(found.values()))
        fresh = {lemma for i, lemma in found.items() if rules[i].derived and not lemma.whole and not self.rich[lemma]}
        for i, lemma in found.items():
            self.derived[lemma] += rules[i].derived
        for rule in rules:
            if rule.relation != JUDGEMENT and rule.text.find(":-") > 0 and not _is_shipped(rule.file):
                self.others[_lemma(rule.file, rule.line, rule.text)] += rule.derived
        if fresh:  # who derived which tuple is asked only while it can tell something new
            rows = [row for row in derived.program.relation(JUDGEMENT) if is_rich(row[2])]
            steps = derived.program.derivation({JUDGEMENT: rows}, leaves=derived.program.relations).steps
            self.rich.update(found[rule] for _, rule, _, _ in steps if rule in found)


@dataclass(slots=True)
class KindUse:
    """How an op kind that a rules file speaks about was exercised.

    `drawable`: calls of it can be made up; `cut`: it has indices that can be cut between ranks. `calls` were drawn; of
    their results, `derived` correspondences were audited and true, `rich` of them with two digits for one dim or
    something pending.
    """

    drawable: bool
    cut: bool
    calls: int = 0
    derived: int = 0
    rich: int = 0

    @property
    def missing(self) -> str:
        """What was not exercised, for people; empty where everything was."""
        if not self.calls:
            return "no call could be made up" if not self.drawable else "never drawn"
        if not self.derived:
            return "nothing was derived of it"
        return "only whole values were derived of it" if self.cut and not self.rich else ""


def count_kinds(kinds: Mapping[str, KindUse], tables: Mapping[str, Iterable[Any]], findings: Iterable[Finding]) -> None:
    """Adds what was found about the results of these kinds in one pair."""
    graphs = {graph for graph, role in tables["graph"] if role == "dist"}
    calls = {op: kinds[kind] for op, graph, kind in tables["op"] if kind in kinds and graph in graphs}
    made = {tensor: calls[op] for op, _, tensor in tables["result"] if op in calls}
    for use in calls.values():
        use.calls += 1
    for finding in findings:
        if finding.verdict == "true" and finding.row[0] in made:
            made[finding.row[0]].derived += 1
            made[finding.row[0]].rich += rich_text(finding.row[4])


def rich_text(layout: str) -> bool:
    """As `is_rich`, of a layout's text."""
    parsed = layout_of(layout)
    seen = Counter(d.dim for digits in parsed.dims for d in digits)
    entries = [e for _, listed in parsed.axes for e in listed]
    seen.update(e.dim for e in entries if isinstance(e, Digit))
    return any(n > 1 for n in seen.values()) or any(isinstance(e, Pending) for e in entries)


def fired(derived: Derived) -> tuple[str, ...]:
    """Names of the lemmas that derived something."""
    rules = derived.program.stats().rules
    return tuple(dict.fromkeys(rule_name(r.file, r.line) for r in rules if r.relation == JUDGEMENT and r.derived))


@cache
def _is_shipped(file: str) -> bool:
    return Path(file).resolve().is_relative_to(rules_dir().resolve())


@cache
def _lemma(file: str, line: int, text: str) -> Lemma:
    return Lemma(file, line, text, says_whole(file, line) and grants_whole(text))


def grants_whole(text: str) -> bool:
    """Whether a lemma can be seen to grant values that every rank holds whole, and no others."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    head = re.match(r"holds\(\s*\w+\s*,\s*\w+\s*,\s*\[\s*(\w+)\s*,\s*(\w+)\s*,\s*1\s*,\s*1\s*\]\s*\)\s*:-", text)
    if head is None or ";" in text:
        return False
    layout, mesh = head[1], head[2]
    atoms = re.findall(r"(?<![\w!])(\w+)\(([^()]*)\)", text[head.end() :])
    given = {(name, args.split(",")[-1].strip()) for name, args in atoms}
    return {("identity_layout", layout), ("full_replicated", mesh)} <= given


def is_rich(layout: Any) -> bool:
    """Whether a layout (local dims, mesh entries, scale) has two digits for one baseline dim, or something pending."""
    seen: Counter[int] = Counter()
    local, mesh = layout[0], layout[1]
    lists = [mesh]
    while local is not None:
        lists.append(local[0])
        local = local[1]
    for digits in lists:
        while digits is not None:
            (dim, _, _), digits = digits
            seen[dim] += 1
    return any(dim < -1 or (dim >= 0 and count > 1) for dim, count in seen.items())
