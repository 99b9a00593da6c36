"""Clauses as Python functions: the checker's own evaluation.

A clause is turned into the source of one function, with loops for atoms that are looked up and tests for everything
else. Two uses: `derive` finds all heads of a clause (closed.py), `instance` checks one step of a certificate, whose
bindings and premises are given (check.py).

    reach(a, c) :- reach(a, b), edge(b, c), a != c.

    def f0(delta, out):                         # from new rows of `reach`
     for [v1, v2] in delta:
      for [_, v3] in t0.get(v2, ()):            # an index of `edge` by its first column
       if not (v1 != v3): continue
       out[(v1, v3,)] = None

Only numbered names, operators and `repr` of constants get into the source.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from .functors import FUNCTORS, INFIX, whole
from .terms import (
    LOCAL,
    Aggregate,
    Apply,
    Atom,
    Cell,
    Clause,
    Compare,
    Const,
    Literal,
    Record,
    RuleError,
    Term,
    Value,
    Var,
    cell,
    names_in,
    parts,
)

if TYPE_CHECKING:
    from .closed import Closed

SHORT, LONG = 2**31, 2**63
"""Numbers in steps are those of stock Soufflé; relations that are computed may have larger ones on the way."""
Row = tuple[Value, ...]
Rows = dict[Row, None]
"""A set that keeps the order in which rows came: rows that are made together are near in memory."""
_FEW = 16
"""Rows for one value of a column that are rather looked through than told apart by an index of several columns."""


_TESTS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "contains": "in"}


def _unnamed(term: Term) -> bool:
    return isinstance(term, Var) and term.name == "_"


def _is_pattern(term: Term) -> bool:
    """No functor or aggregate in it, so that a value can be matched against it."""
    return not any(isinstance(part, Apply | Aggregate) for part in parts(term))


@lru_cache(20_000)
def plain_atoms(body: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """The body with functors taken out of positive atoms: `p(i + 1)` becomes `p(v), v = i + 1`."""
    out: list[Literal] = []
    for literal in body:
        if isinstance(literal, Atom) and not literal.negated and not _is_pattern(literal):  # type: ignore[arg-type]
            args = list(literal.args)
            for i, term in enumerate(args):
                if not _is_pattern(term):
                    args[i] = Var(f"?{len(out)} {i}")
                    out.append(Compare("=", args[i], term))
            literal = Atom(literal.relation, tuple(args))
        out.append(literal)
    return tuple(out)


@lru_cache(2000)
def _code(source: str) -> CodeType:
    """Compiled once for all certificates that are replayed."""
    return compile(source, "<clauses>", "exec")


class Functions:
    """Functions over the same tables, compiled together."""

    def __init__(self, tables: Closed, limit: int = SHORT) -> None:
        """Numbers beyond `limit` are a RuleError."""
        self.tables = tables
        self.limit = limit
        self.scope: dict[str, Any] = {"Cell": Cell, "cell": cell, "order": tables.order, "whole": whole}
        self.known: dict[Any, str] = {}
        self.sources: list[str] = []

    def named(self, key: Any, value: Callable[[], Any]) -> str:
        """A name for a value."""
        name = self.known.get(key)
        if name is None:
            name = self.known[key] = f"t{len(self.known)}"
            self.scope[name] = value()
        return name

    def add(self, parameters: str, lines: list[str]) -> None:
        self.sources.append("\n".join([f"def f{len(self.sources)}({parameters}):", *lines]))

    def compiled(self) -> list[Any]:
        """The functions, in the order in which they were added."""
        exec(_code("\n".join(self.sources)), self.scope)
        return [self.scope.pop(f"f{i}") for i in range(len(self.sources))]


class _Body:
    """The lines of one function while they are written."""

    def __init__(self, functions: Functions, fail: str) -> None:
        self.functions = functions
        self.tables = functions.tables
        self.fail = fail
        """What ends the way that is being tried: `continue` in a loop, a return outside."""
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, str] = {}
        """Bound variables, and what they are called in Python."""
        self.count = 0

    # ---- lines

    def emit(self, text: str) -> None:
        self.lines.append(" " * self.indent + text)

    def require(self, condition: str) -> None:
        self.emit(f"if not ({condition}): {self.fail}")

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def loop(self, targets: str, over: str) -> None:
        self.emit(f"for {targets} in {over}:")
        self.indent += 1
        self.fail = "continue"

    # ---- terms

    def ready(self, term: Term) -> bool:
        """Whether a term can be computed: everything is bound but an aggregate's own variables."""
        if isinstance(term, Var):
            return term.name in self.names
        if isinstance(term, Const):
            return True
        if isinstance(term, Aggregate):
            return all(name in self.names or name.endswith(LOCAL) for name in names_in(term))
        return all(map(self.ready, term.items if isinstance(term, Record) else term.args))

    def value(self, term: Term) -> str:
        """An expression for a term that is ready."""
        if isinstance(term, Const):
            return repr(term.value)
        if isinstance(term, Var):
            return self.names[term.name]
        if isinstance(term, Aggregate):
            return self.aggregate(term)
        values = [self.value(item) for item in (term.items if isinstance(term, Record) else term.args)]
        given = "".join([value + ", " for value in values])
        if isinstance(term, Record):
            return f"cell(({given}))"
        if term.name == "ord":
            return f"order({given})"
        if term.name in INFIX and len(values) == 2:  # in place: calls of Python functions are dear
            number = self.fresh()
            result = f"({number} := {values[0]} {INFIX[term.name]} {values[1]})"
            limit = self.functions.limit
            return f"({number} if -{limit} <= {result} < {limit} else whole({number}))"
        if term.name == "cat":
            return f"''.join(({given}))"
        if term.name not in FUNCTORS:
            raise RuleError(f"the checker does not know the functor `{term.name}`")
        return f"{self.functions.named(('functor', term.name), lambda: FUNCTORS[term.name])}({given})"

    def aggregate(self, term: Aggregate) -> str:
        """Over complete relations; the variables that it has for itself end with it."""
        values, outside = self.fresh(), (dict(self.names), self.indent, self.fail)
        self.emit(f"{values} = []")
        self.loop("_", "(None,)")
        self.literals(plain_atoms(term.body), counting=True)
        self.emit(f"{values}.append({1 if term.target is None else self.value(term.target)})")
        self.names, self.indent, self.fail = outside
        if term.kind in ("count", "sum"):
            return f"sum({values})"
        self.require(values)  # the least of nothing derives nothing
        return f"{term.kind}({values})"

    # ---- patterns

    def match(self, term: Term, value: str) -> None:
        """Test a value against a pattern and bind the variables that it has."""
        if _unnamed(term):
            return
        if isinstance(term, Var) and term.name not in self.names:
            self.names[term.name] = name = self.fresh()
            self.emit(f"{name} = {value}")
        elif isinstance(term, Record) and not self.ready(term):
            self.require(f"{value}.__class__ is Cell and len({value}.items) == {len(term.items)}")
            targets, later = self.targets(term.items)
            self.emit(f"{targets} = {value}.items")
            self.match_all(later)
        else:
            self.require(f"{value} == {self.value(term)}")

    def targets(self, terms: Iterable[Term], found: Iterable[int] = ()) -> tuple[str, list[tuple[Term, str]]]:
        """What to unpack a row to, without the columns that an index found; and the patterns to match afterwards."""
        names, later = [], []
        for i, term in enumerate(terms):
            names.append("_" if i in found or _unnamed(term) else self.fresh())
            if isinstance(term, Var) and names[i] != "_" and term.name not in self.names:
                self.names[term.name] = names[i]
            elif names[i] != "_":
                later.append((term, names[i]))
        return f"[{', '.join(names)}]", later

    def match_all(self, patterns: list[tuple[Term, str]]) -> None:
        for term, value in patterns:
            self.match(term, value)

    # ---- atoms

    def rows(self, relation: str) -> str:
        return self.functions.named(relation, lambda: self.tables.rows(relation))

    def index(self, relation: str, columns: tuple[int, ...]) -> str:
        return self.functions.named((relation, columns), lambda: self.tables.index(relation, columns))

    def key(self, atom: Atom, columns: Iterable[int]) -> str:
        values = [self.value(atom.args[i]) for i in columns]
        return values[0] if len(values) == 1 else f"({', '.join(values)})"

    def membership(self, atom: Atom, known: tuple[int, ...]) -> str | None:
        """Whether there is a row with these values in the known columns, if that can be told without a loop."""
        rows = self.rows(atom.relation)
        if len(known) == len(atom.args):
            return f"{self.row(atom.args)} in {rows}"
        if len(known) > 1 or not all(i in known or _unnamed(term) for i, term in enumerate(atom.args)):
            return None
        return f"{self.key(atom, known)} in {self.index(atom.relation, known)}" if known else rows

    def scan(self, atom: Atom, known: tuple[int, ...]) -> None:
        """A loop over the rows that fit."""
        rows = self.rows(atom.relation)
        fitting = {i: self.tables.fitting(atom.relation, (i,)) for i in known}
        best = min(known, key=fitting.__getitem__, default=0)
        if len(known) > 1 and fitting[best] <= _FEW and self.tables.most(atom.relation, best) <= 4 * _FEW:
            known = (best,)
        if self.indent == 1 and known and fitting[best] * _FEW > self.tables.fitting(atom.relation, ()):
            known = ()  # looked through once
        if known:
            rows = f"{self.index(atom.relation, known)}.get({self.key(atom, known)}, ())"
        targets, later = self.targets(atom.args, known)
        self.loop(targets, rows)
        self.match_all(later)

    def known(self, atom: Atom) -> tuple[int, ...]:
        return tuple([i for i, term in enumerate(atom.args) if self.ready(term)])

    def presence(self, atom: Atom, counting: bool) -> None:
        """Every row that fits; one is as good as many unless they are counted."""
        known = self.known(atom)
        present = None if counting and len(known) < len(atom.args) else self.membership(atom, known)
        if present is None:
            self.scan(atom, known)
        else:
            self.require(present)

    def absence(self, atom: Atom) -> None:
        """No row that fits."""
        known = self.known(atom)
        present = self.membership(atom, known)
        if present is not None:
            self.require(f"not ({present})")
            return
        absent, outside = self.fresh(), (dict(self.names), self.indent, self.fail)
        self.emit(f"{absent} = True")
        self.scan(atom, known)
        self.emit(f"{absent} = False")
        self.emit("break")
        self.names, self.indent, self.fail = outside
        self.require(absent)

    # ---- bodies

    def comparison(self, literal: Compare) -> bool:
        """Test or bind; False while variables are missing."""
        sides = (literal.left, literal.right)
        for target, source in (sides, sides[::-1]):
            if isinstance(source, Apply) and source.name == "range":
                if literal.op != "=" or len(source.args) != 2 or not all(map(self.ready, source.args)):
                    return False
                over = f"range({', '.join(map(self.value, source.args))})"
                if self.ready(target):
                    self.require(f"{self.value(target)} in {over}")
                else:
                    value = self.fresh()
                    self.loop(value, over)
                    self.match(target, value)
                return True
        if all(map(self.ready, sides)):
            self.require(f"{self.value(literal.left)} {_TESTS[literal.op]} {self.value(literal.right)}")
            return True
        for source, target in (sides, sides[::-1]):
            if literal.op == "=" and self.ready(source) and _is_pattern(target):
                value = self.fresh()
                self.emit(f"{value} = {self.value(source)}")
                self.match(target, value)
                return True
        return False

    def cost(self, atom: Atom) -> tuple[bool, float]:
        """Whether nothing of an atom is known, and about how many rows fit what is."""
        known = self.known(atom)
        return not known and bool(atom.args), self.tables.fitting(atom.relation, known)

    def literals(self, waiting: Sequence[Literal], counting: bool = False) -> None:
        """All of them, in an order in which each can be evaluated: tests first, then the atom with fewest rows."""
        while waiting:
            left: list[Literal] = []
            for literal in waiting:
                if isinstance(literal, Compare):
                    if not self.comparison(literal):
                        left.append(literal)
                elif literal.negated and names_in(literal) <= self.names.keys():
                    self.absence(literal)
                else:
                    left.append(literal)
            found = [a for a in left if isinstance(a, Atom) and not a.negated]
            if found:
                best = min(found, key=self.cost)
                self.presence(best, counting)
                left = [literal for literal in left if literal is not best]
            if len(left) == len(waiting):
                raise RuleError(f"the checker finds no order in which to evaluate {waiting}")
            waiting = left

    def row(self, terms: Iterable[Term]) -> str:
        return f"({''.join([self.value(term) + ', ' for term in terms])})"


Derive = Callable[[Iterable[Row], Rows], None]


def derive(functions: Functions, clause: Clause, first: int | None) -> None:
    """Add a function (delta, out) that puts the heads that follow into `out`; the clause's positive atom number
    `first`, if one is named, ranges over the rows of `delta`."""
    literals: Sequence[Literal] = plain_atoms(clause.body)
    body = _Body(functions, "return")
    if first is not None:
        atom = [a for a in literals if isinstance(a, Atom) and not a.negated][first]
        literals = [literal for literal in literals if literal is not atom]
        targets, later = body.targets(atom.args)
        body.loop(targets, "delta")
        body.match_all(later)
    body.literals(literals)
    body.emit(f"out[{body.row(clause.head.args)}] = None")
    functions.add("delta, out", body.lines)


Check = Callable[[list[str], list[Row], list[int], Row], Row | None]


def instance(functions: Functions, clause: Clause, names: list[str], looked_up: Container[str]) -> bool:
    """Add a function (relations, rows, premises, values) that checks a step and returns its head, or None.

    `values` are those of the variables `names`; `premises` are places in `relations` and `rows`, one for each positive
    atom whose relation is not looked up. False where the clause has no such variables.
    """
    literals = plain_atoms(clause.body)
    given = [a for a in literals if isinstance(a, Atom) and not a.negated and a.relation not in looked_up]
    if not names_in(literals, aggregates=False).issuperset(names):  # what an aggregate has for itself it finds
        return False
    body = _Body(functions, "return None")
    body.names = {name: body.fresh() for name in names}
    body.emit(f"[{', '.join(body.names.values())}] = values")
    places = [body.fresh() for _ in given]
    body.emit(f"[{', '.join(places)}] = premises")
    for atom, place in zip(given, places, strict=True):
        body.require(f"{place} >= 0 and relations[{place}] == {atom.relation!r}")
        if all(map(body.ready, atom.args)):
            body.require(f"rows[{place}] == {body.row(atom.args)}")
        else:
            targets, later = body.targets(atom.args)
            body.emit(f"{targets} = rows[{place}]")
            body.match_all(later)
    body.literals([literal for literal in literals if not any(literal is atom for atom in given)])
    body.emit(f"return {body.row(clause.head.args)}")
    functions.add("relations, rows, premises, values", body.lines)
    return True
