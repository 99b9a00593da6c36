"""Complete relations, for negation and aggregates: what a certificate cannot show by naming premises.

A relation is computed from the facts when it is first asked for, with everything that it depends on, by plain
semi-naive evaluation. A clause with an empty relation in its body is skipped without looking at the rest of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .instance import (
    Row,
    Slots,
    Slotting,
    Step,
    conditions,
    evaluator,
    matcher,
    plain_atoms,
    solutions,
    variables,
)
from .terms import Atom, Clause, RuleError, RuleSet, Var, atoms


class _Table:
    """The rows of one relation, with an index for every set of columns that was asked by."""

    def __init__(self) -> None:
        self.rows: set[Row] = set()
        self.indexes: dict[tuple[int, ...], dict[Row, list[Row]]] = {}

    def add(self, row: Row) -> bool:
        if row in self.rows:
            return False
        self.rows.add(row)
        for positions, index in self.indexes.items():
            index[tuple([row[i] for i in positions])].append(row)
        return True

    def lookup(self, positions: tuple[int, ...], key: Row) -> Iterable[Row]:
        index = self.indexes.get(positions)
        if index is None:
            index = self.indexes[positions] = defaultdict(list)
            for row in self.rows:
                index[tuple([row[i] for i in positions])].append(row)
        return index.get(key, ())


class _Plan:
    """A clause, evaluated from the rows of one of its atoms (or from nothing)."""

    def __init__(self, clause: Clause, first: int | None, store: Closed) -> None:
        self.frame = Slotting()
        body = plain_atoms(clause.body)
        positive = [a for a in body if isinstance(a, Atom) and not a.negated]
        bound: set[str] = set()
        self.first = (
            []
            if first is None
            else [(i, matcher(t, self.frame)) for i, t in enumerate(positive[first].args) if t != Var("_")]
        )
        if first is not None:
            bound.update(variables(positive[first]))
        rest = [literal for literal in body if first is None or literal is not positive[first]]
        self.steps: list[Step] = conditions(rest, self.frame, store, bound, atoms_too=True)
        self.head = [evaluator(t, self.frame, store) for t in clause.head.args]

    def rows(self, delta: Iterable[Row] | None) -> Iterable[Row]:
        starts: list[Slots] = []
        if delta is None:
            starts.append(self.frame.fresh())
        else:
            for row in delta:
                slots = self.frame.fresh()
                if all(match(slots, row[i]) for i, match in self.first):
                    starts.append(slots)
        for slots in starts:
            for found in solutions(self.steps, slots):
                yield tuple([part(found) for part in self.head])


class Closed:
    """The relations of a rule set over facts, each complete once it is asked for."""

    def __init__(
        self, rules: RuleSet, facts: dict[str, set[Row]], numbers: dict[str, int], chosen: dict[str, set[Row]]
    ) -> None:
        """`numbers` are what `ord` gives to texts, `chosen` the rows of relations with a choice domain."""
        self.numbers = numbers
        self.chosen = chosen
        self.tables: dict[str, _Table] = defaultdict(_Table)
        self.clauses: dict[str, list[Clause]] = defaultdict(list)
        for clause in rules.clauses:
            if clause.head.relation not in rules.choices:
                self.clauses[clause.head.relation].append(clause)
        for relation, rows in (facts | chosen).items():
            self.tables[relation].rows = set(rows)
        self.given = set(facts)
        self.done = {r for r in rules.relations if r not in self.clauses}
        reads: dict[str, set[str]] = {r: set() for r in rules.relations}
        for clause in rules.clauses:
            reads[clause.head.relation].update(atom.relation for atom in atoms(clause.body))
        self.components = _components(reads)
        self.weight = self._weights(reads)

    def _weights(self, reads: dict[str, set[str]]) -> dict[str, int]:
        """How many relations a relation depends on."""
        below: dict[str, set[str]] = {}
        for relation in sorted(reads, key=lambda r: self.components[r][0]):
            if relation not in below:
                members = set(self.components[relation][1])
                outside = set().union(*(reads[m] for m in members)) - members
                below.update(dict.fromkeys(members, members.union(outside, *(below[r] for r in outside))))
        return {relation: len(reach) for relation, reach in below.items()}

    def lookup(self, relation: str, positions: tuple[int, ...], key: Row) -> Iterable[Row]:
        """Rows whose columns at `positions` are `key`."""
        if relation not in self.done:
            self.complete(relation)
        return self.tables[relation].lookup(positions, key)

    def order(self, text: str) -> int:
        """The number that `ord` gives a text: any will do that no other text has."""
        if text not in self.numbers:
            raise RuleError(f"the order of {text!r} is not stated")
        return self.numbers[text]

    def complete(self, relation: str) -> None:
        """Compute a relation, and those that depend on each other with it."""
        members = self.components[relation][1]
        if relation not in self.given and all(self._dead(clause, members) for clause in self.clauses[relation]):
            self.done.add(relation)  # empty, whatever the others are
            return
        self.done.update(members)  # from here on lookups inside see the rows so far
        base: list[tuple[str, _Plan]] = []
        recursive: dict[str, list[tuple[str, _Plan]]] = defaultdict(list)
        for member in members:
            for clause in self.clauses[member]:
                if self._dead(clause, members):
                    continue
                positive = [a for a in plain_atoms(clause.body) if isinstance(a, Atom) and not a.negated]
                inside = [i for i, atom in enumerate(positive) if atom.relation in members]
                if not inside:
                    base.append((member, _Plan(clause, None, self)))
                for i in inside:
                    recursive[positive[i].relation].append((member, _Plan(clause, i, self)))
        delta: dict[str, list[Row]] = {m: list(self.tables[m].rows) for m in members if m in self.given}
        for member, plan in base:
            for row in list(plan.rows(None)):
                if self.tables[member].add(row):
                    delta.setdefault(member, []).append(row)
        while delta:
            fresh: dict[str, list[Row]] = {}
            for source, rows in delta.items():
                for member, plan in recursive[source]:
                    for row in list(plan.rows(rows)):
                        if self.tables[member].add(row):
                            fresh.setdefault(member, []).append(row)
            delta = fresh

    def _dead(self, clause: Clause, members: frozenset[str]) -> bool:
        """Whether some relation in the body is empty; the cheap ones are looked at first. Completes the others."""
        positive = {a.relation for a in clause.body if isinstance(a, Atom) and not a.negated} - members
        for relation in sorted(positive, key=lambda r: self.weight[r]):
            if relation not in self.done:
                self.complete(relation)
            if not self.tables[relation].rows:
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
                    work.append((other, iter(sorted(reads.get(other, ())))))
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
