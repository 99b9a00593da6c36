"""Complete relations: what a certificate does not show step by step.

A relation is computed from the facts when it is first asked for, with everything that it depends on, by semi-naive
evaluation. A clause with an empty relation in its body is skipped without looking at the rest of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from .plans import Derive, Row, derive, plain_atoms
from .terms import Aggregate, Apply, Atom, Clause, Compare, Literal, Record, RuleError, RuleSet, Term, atoms

RECURSION = "holds"
"""The relation whose recursion a certificate shows."""
GOALS = ("output_verdict", "assumption", "inconsistent")
"""What the checker looks at in the end."""
DECIDED = "proved"
"""Claims of arithmetic: no fact and no step, the checker decides them (decide.py)."""


_MANY = 1000
"""Rows that a relation is taken to have while it is computed."""


class Structure:
    """Which relations of a rule set a certificate shows, and which the checker computes.

    The correspondences are one big recursion without negation, the component of `holds`. Below it, relations that some
    rule denies or counts are computed, with all that they need, and so are mere lists of facts (`computed`). The rest
    below it, the recursion itself (`recursion`) and what rules conclude from it (`late`) is shown.
    """

    def __init__(self, rules: RuleSet) -> None:
        self.reads: dict[str, set[str]] = {r: set() for r in rules.relations}
        denied: dict[str, set[str]] = {r: set() for r in rules.relations}
        bodies = set()
        for clause in rules.clauses:
            self.reads[clause.head.relation].update(atom.relation for atom in atoms(clause.body))
            denied[clause.head.relation].update(denials(clause))
            if clause.body:
                bodies.add(clause.head.relation)
        self.components = _components(self.reads)
        self.recursion = self.components[RECURSION][1] if RECURSION in self.components else frozenset()
        above: set[str] = set(self.recursion)
        for relation in sorted(self.reads, key=lambda r: self.components[r][0]):
            if not above.isdisjoint(self.reads[relation]):
                above.update(self.components[relation][1])
        self.late = frozenset(above - self.recursion)
        given = {r for r in self.reads if r not in bodies}
        goals = self._below(set(GOALS) & self.reads.keys())
        needed = set().union(*(denied[r] for r in goals)) - above
        self.computed = frozenset((self._below(needed) | given) - above - {DECIDED})
        self.supports = frozenset(set().union(*(denied[r] for r in goals & self.late)) & above)
        """Relations of the recursion or above it whose absence is concluded from: all their rows are shown."""

    def _below(self, relations: set[str]) -> set[str]:
        """These relations and all that they depend on."""
        seen, todo = set(relations), list(relations)
        while todo:
            fresh = self.reads[todo.pop()] - seen
            seen |= fresh
            todo += fresh
        return seen


def denials(clause: Clause) -> set[str]:
    """Relations that a clause denies or counts."""
    out: set[str] = set()
    todo: list[Term | Literal] = list(clause.body)
    while todo:
        part = todo.pop()
        if isinstance(part, Aggregate):
            out.update(atom.relation for atom in atoms(part.body))
        elif isinstance(part, Atom):
            if part.negated:
                out.add(part.relation)
            todo += part.args
        elif isinstance(part, Record):
            todo += part.items
        elif isinstance(part, Apply):
            todo += part.args
        elif isinstance(part, Compare):
            todo += (part.left, part.right)
    return out


class _Table:
    """The rows of one relation, with an index for every set of columns that was asked by."""

    def __init__(self) -> None:
        self.rows: set[Row] = set()
        self.indexes: dict[tuple[int, ...], defaultdict[Any, list[Row]]] = {}
        self.distinct: dict[int, int] = {}
        """How many values a column has, once it is complete."""

    def add(self, rows: Iterable[Row]) -> set[Row]:
        """Add rows; those that are new."""
        fresh = set(rows)
        fresh -= self.rows
        self.rows |= fresh
        for positions, index in self.indexes.items():
            enter(index, positions, fresh)
        return fresh

    def index(self, positions: tuple[int, ...]) -> dict[Any, list[Row]]:
        index = self.indexes.get(positions)
        if index is None:
            index = self.indexes[positions] = defaultdict(list)
            enter(index, positions, self.rows)
        return index


def enter(index: defaultdict[Any, list[Row]], positions: tuple[int, ...], rows: set[Row]) -> None:
    """Add rows to an index by their values at `positions`."""
    for key, row in zip(map(itemgetter(*positions), rows), rows, strict=True):
        index[key].append(row)


class Closed:
    """The relations of a rule set over facts, each complete once it is asked for."""

    def __init__(
        self,
        rules: RuleSet,
        structure: Structure,
        facts: dict[str, set[Row]],
        numbers: dict[str, int],
        chosen: dict[str, set[Row]],
    ) -> None:
        """`numbers` are what `ord` gives to texts, `chosen` the rows of relations with a choice domain."""
        self.numbers = numbers
        self.structure = structure
        self.tables: dict[str, _Table] = defaultdict(_Table)
        self.clauses: dict[str, list[Clause]] = defaultdict(list)
        for clause in rules.clauses:
            if clause.head.relation not in rules.choices:
                self.clauses[clause.head.relation].append(clause)
        for relation, rows in (facts | chosen).items():
            self.tables[relation].add(rows)
        self.given = set(facts)
        self.done = {r for r in rules.relations if r not in self.clauses}
        self.growing: set[str] = set()
        """Relations that are being computed."""

    def rows(self, relation: str) -> set[Row]:
        """All rows of a relation."""
        self.complete(relation)
        return self.tables[relation].rows

    def index(self, relation: str, positions: tuple[int, ...]) -> dict[Any, list[Row]]:
        """All rows by their values at `positions`: one value, or the tuple of several."""
        self.complete(relation)
        return self.tables[relation].index(positions)

    def fitting(self, relation: str, known: list[int]) -> float:
        """About how many rows there are for one choice of values in these columns."""
        self.complete(relation)
        if relation in self.growing:
            return float(_MANY / 10 ** len(known))
        table = self.tables[relation]
        out = float(len(table.rows))
        for i in known:
            if i not in table.distinct:
                table.distinct[i] = max(len({row[i] for row in table.rows}), 1)
            out /= table.distinct[i]
        return out

    def order(self, text: str) -> int:
        """The number that `ord` gives a text: any will do that no other text has."""
        if text not in self.numbers:
            raise RuleError(f"the order of {text!r} is not stated")
        return self.numbers[text]

    def conclude(self, shown: dict[str, set[Row]]) -> None:
        """From here on the recursion is what was shown of it; conclusions are drawn from that, and from what was
        shown of them."""
        for relation in self.structure.recursion | self.structure.late:
            self.tables[relation].add(shown.get(relation, ()))
        self.done |= self.structure.recursion
        self.given |= self.structure.late

    def complete(self, relation: str) -> None:
        """Compute a relation, and those that depend on each other with it."""
        if relation in self.done:
            return
        members = self.structure.components[relation][1]
        if RECURSION in members:
            raise RuleError(f"{relation} is asked for before it is all shown")
        self.done.update(members)  # from here on lookups inside see the rows so far
        self.growing.update(members)
        base: list[tuple[str, Derive]] = []
        recursive: dict[str, list[tuple[str, Derive]]] = defaultdict(list)
        for member in sorted(members):
            for clause in self.clauses[member]:
                if self._dead(clause, members):
                    continue
                positive = [a for a in plain_atoms(clause.body) if isinstance(a, Atom) and not a.negated]
                inside = [i for i, atom in enumerate(positive) if atom.relation in members]
                if not inside:
                    base.append((member, derive(clause, None, self)))
                for i in inside:
                    recursive[positive[i].relation].append((member, derive(clause, i, self)))
        delta: dict[str, set[Row]] = {m: set(self.tables[m].rows) for m in members if m in self.given}
        for member, plan in base:
            found: list[Row] = []
            plan((None,), found.append)
            delta.setdefault(member, set()).update(self.tables[member].add(found))
        while any(delta.values()):
            fresh: dict[str, set[Row]] = {}
            for source, rows in delta.items():
                for member, plan in recursive[source] if rows else ():
                    found = []
                    plan(rows, found.append)
                    if found:
                        fresh.setdefault(member, set()).update(self.tables[member].add(found))
            delta = fresh
        self.growing -= members

    def _dead(self, clause: Clause, members: frozenset[str]) -> bool:
        """Whether some relation in the body is empty; the cheap ones are looked at first. Completes the others."""
        positive = {a.relation for a in clause.body if isinstance(a, Atom) and not a.negated} - members
        for relation in sorted(positive, key=lambda r: self.structure.components[r][0]):
            if not self.rows(relation):
                return True
        return False


def _components(reads: dict[str, set[str]]) -> dict[str, tuple[int, frozenset[str]]]:
    """Every relation's strongly connected component (Tarjan, without recursion), numbered so that reads come first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out: dict[str, tuple[int, frozenset[str]]] = {}
    count = 0
    for root in reads:
        if root in index:
            continue
        work = [(root, iter(sorted(reads[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, todo = work[-1]
            for other in todo:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(reads[other]))))
                    break
                if other not in out:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = set()
                    while node not in members:
                        members.add(stack.pop())
                    for member in members:
                        out[member] = (count, frozenset(members))
                    count += 1
    return out
