"""Complete relations: what a certificate need not show, and what it must not hide.

A relation is computed from the facts when it is first asked for, with everything that it depends on, by semi-naive
evaluation. A clause with an empty relation in its body is skipped without looking at the rest of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from .plans import LONG, Derive, Functions, Row, Rows, derive, plain_atoms
from .structure import DECIDED, RECURSION, Structure
from .terms import Atom, Clause, RuleError, RuleSet

_MANY = 1000
"""Rows that a relation is taken to have while it is computed."""
_SAMPLE = 100


class _Table:
    """The rows of one relation, with an index for every set of columns that was asked by."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.indexes: dict[tuple[int, ...], dict[Any, Sequence[Row]]] = {}
        self.distinct: dict[int, int] = {}
        self.sample: list[Row] = []
        self.largest: dict[int, int] = {}

    def add(self, rows: Rows) -> Rows:
        """Add rows; those that are new."""
        fresh = {row: None for row in rows if row not in self.rows} if self.rows else rows
        self.rows |= fresh
        for columns, index in self.indexes.items():
            for key, row in zip(map(itemgetter(*columns), fresh), fresh, strict=True):
                found = index.get(key, ())
                if isinstance(found, list):
                    found.append(row)
                else:
                    index[key] = [*found, row]
        return fresh

    def index(self, columns: tuple[int, ...]) -> dict[Any, Sequence[Row]]:
        index = self.indexes.get(columns)
        if index is None:
            rows, key_of = self.rows, itemgetter(*columns)
            index = dict(zip(map(key_of, rows), zip(rows, strict=True), strict=True))
            if len(index) < len(rows):
                several: defaultdict[Any, list[Row]] = defaultdict(list)
                for key, row in zip(map(key_of, rows), rows, strict=True):
                    several[key].append(row)
                index = dict(several)
            self.indexes[columns] = index
        return index

    def values(self, column: int) -> int:
        """About how many values a column has, once the relation is complete: of rows here and there."""
        if column not in self.distinct:
            if not self.sample:
                self.sample = [*self.rows][:: 1 + len(self.rows) // _SAMPLE]
            found = len({row[column] for row in self.sample})
            self.distinct[column] = found if found < 0.7 * len(self.sample) else len(self.rows)
        return max(self.distinct[column], 1)


class Closed:
    """The relations of a rule set over facts, each complete once it is asked for. Tables and indexes stay the same
    objects while rows are added."""

    def __init__(
        self,
        rules: RuleSet,
        structure: Structure,
        facts: dict[str, Rows],
        numbers: dict[str, int],
        chosen: dict[str, Rows],
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
            self.tables[relation].rows |= rows
        self.done = {r for r in rules.relations if r not in self.clauses}
        self.concluding = False
        self.growing: set[str] = set()
        """Relations that are being computed."""

    def rows(self, relation: str) -> Rows:
        """All rows of a relation."""
        self.complete(relation)
        return self.tables[relation].rows

    def index(self, relation: str, columns: tuple[int, ...]) -> dict[Any, Sequence[Row]]:
        """All rows by their values in `columns`: one value, or the tuple of several."""
        self.complete(relation)
        return self.tables[relation].index(columns)

    def fitting(self, relation: str, columns: Iterable[int]) -> float:
        """About how many rows there are for one choice of values in these columns."""
        self.complete(relation)
        table = self.tables[relation]
        out = float(_MANY if relation in self.growing else len(table.rows))
        for column in columns:
            out /= 10 if relation in self.growing else table.values(column)
        return out

    def most(self, relation: str, column: int) -> int:
        """The most rows that there are for one value of a column."""
        table = self.tables[relation]
        if column not in table.largest:
            table.largest[column] = max(map(len, self.index(relation, (column,)).values()), default=0)
        return table.largest[column]

    def order(self, text: str) -> int:
        """The number that `ord` gives a text: any will do that no other text has."""
        if text not in self.numbers:
            raise RuleError(f"the order of {text!r} is not stated")
        return self.numbers[text]

    def conclude(self, decided: Rows) -> None:
        """From here on the recursion may be computed, too: all claims of arithmetic that were decided are known."""
        self.tables[DECIDED].rows |= decided
        self.concluding = True

    def complete(self, relation: str) -> None:
        """Compute a relation, and those that depend on each other with it."""
        if relation in self.done:
            return
        members = self.structure.components[relation][1]
        if RECURSION in members and not self.concluding:
            raise RuleError(f"{relation} is asked for before all claims are decided")
        self.done |= members  # from here on lookups inside see the rows so far
        self.growing |= members
        functions = Functions(self, LONG)
        places: list[tuple[str | None, str]] = []
        for member in sorted(members):
            for clause in self.clauses[member]:
                if self._dead(clause, members):
                    continue
                positive = [a.relation for a in plain_atoms(clause.body) if isinstance(a, Atom) and not a.negated]
                inside = [i for i, read in enumerate(positive) if read in members]
                for i in inside:
                    derive(functions, clause, i)
                    places.append((positive[i], member))
                if not inside:
                    derive(functions, clause, None)
                    places.append((None, member))
        recursive: dict[str, list[tuple[str, Derive]]] = defaultdict(list)
        fresh: dict[str, Rows] = {member: dict(self.tables[member].rows) for member in members}
        for (source, member), function in zip(places, functions.compiled(), strict=True):
            if source is None:
                function((), fresh[member])
            else:
                recursive[source].append((member, function))
        for member in members:
            self.tables[member].add(fresh[member])
        while recursive and fresh:
            delta, fresh = fresh, {}
            for source, rows in delta.items():
                for member, function in recursive[source]:
                    found: Rows = {}
                    function(rows, found)
                    if found and (new := self.tables[member].add(found)):
                        fresh[member] = fresh[member] | new if member in fresh else new
        self.growing -= members

    def _dead(self, clause: Clause, members: frozenset[str]) -> bool:
        """Whether some relation in the body is empty; the cheap ones are looked at first. Completes the others."""
        positive = {a.relation for a in clause.body if isinstance(a, Atom) and not a.negated} - members
        return not all(self.rows(r) for r in sorted(positive, key=lambda r: self.structure.components[r][0]))
