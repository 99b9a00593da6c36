"""Clauses as Python functions: the checker's own evaluation.

A clause is turned into the source of one function, with loops for atoms that are looked up and tests for everything
else, and compiled. Two uses: `derive` finds all heads of a clause (closed.py), `instance` checks one step of a
certificate, whose bindings and premises are given (check.py).

    reach(a, c) :- reach(a, b), edge(b, c), a != c.

    def derive(delta, out):                     # from new rows of `reach`
     for t1 in delta:
      v1 = t1[0]
      v2 = t1[1]
      for t2 in edge_0.get(v2, ()):             # an index of `edge` by its first column
       v3 = t2[1]
       if not (v1 != v3): continue
       out((v1, v3,))

Only variables' numbers, operators and `repr` of constants get into the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

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
)

Row = tuple[Value, ...]
UNNAMED = Var("_")


class Tables(Protocol):
    """Where looked-up rows come from. Sets and indexes stay the same objects while rows are added."""

    def rows(self, relation: str) -> set[Row]: ...

    def index(self, relation: str, positions: tuple[int, ...]) -> dict[Any, list[Row]]:
        """Rows by their values at `positions`: one value, or the tuple of several."""
        ...

    def fitting(self, relation: str, known: list[int]) -> float:
        """About how many rows there are for one choice of values in these columns."""
        ...

    def order(self, text: str) -> int:
        """The number of a text (`ord`)."""
        ...


def _whole(value: Any) -> int:
    if not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise RuleError(f"{value!r} is not a 32-bit number")
    return value


def quotient(a: int, b: int) -> int:
    """Division towards zero."""
    if b == 0:
        raise RuleError("division by zero")
    out = abs(a) // abs(b)
    return out if (a < 0) == (b < 0) else -out


_FUNCTORS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: _whole(a + b),
    "-": lambda a, b: _whole(a - b),
    "*": lambda a, b: _whole(a * b),
    "/": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bshl": lambda a, b: _whole(a << (b if 0 <= b < 32 else 32)),
    "max": max,
    "min": min,
    "cat": lambda *texts: "".join(texts),
    "to_string": str,
    "to_number": int,
    "strlen": len,
    "substr": lambda text, start, count: text[start : start + count],
}
_TESTS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


# ---- which variables are where


def term_variables(term: Term) -> Iterator[str]:
    """Names of the variables in a term; those inside aggregates included."""
    if isinstance(term, Var):
        if term.name != "_":
            yield term.name
    elif isinstance(term, Record | Apply):
        for item in term.items if isinstance(term, Record) else term.args:
            yield from term_variables(item)
    elif isinstance(term, Aggregate):
        for literal in term.body:
            yield from variables(literal)


def variables(literal: Literal) -> Iterator[str]:
    """Names of the variables in a literal."""
    for term in literal.args if isinstance(literal, Atom) else (literal.left, literal.right):
        yield from term_variables(term)


def is_pattern(term: Term) -> bool:
    """No functor or aggregate in it, so that a value can be matched against it."""
    if isinstance(term, Record):
        return all(is_pattern(item) for item in term.items)
    return isinstance(term, Var | Const)


def plain_atoms(body: Iterable[Literal]) -> list[Literal]:
    """The body with functors taken out of positive atoms: `p(i + 1)` becomes `p(v), v = i + 1`."""
    out: list[Literal] = []
    for literal in body:
        if isinstance(literal, Compare) or literal.negated or all(map(is_pattern, literal.args)):
            out.append(literal)
            continue
        args = list(literal.args)
        for i, term in enumerate(args):
            if not is_pattern(term):
                args[i] = Var(f"?{len(out)} {i}")
                out.append(Compare("=", args[i], term))
        out.append(Atom(literal.relation, tuple(args)))
    return out


class _Source:
    """The source of one function while it is written."""

    def __init__(self, tables: Tables, fail: str) -> None:
        self.tables = tables
        self.fail = fail
        """What ends the way that is being tried: `continue` in a loop, `return` outside."""
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, str] = {}
        """Bound variables, and what they are called in Python."""
        self.scope: dict[str, Any] = {"Cell": Cell, "cell": cell, "order": tables.order}
        self.count = 0

    # ---- lines

    def emit(self, text: str) -> None:
        self.lines.append(" " * self.indent + text)

    def require(self, condition: str) -> None:
        self.emit(f"if not ({condition}): {self.fail}")

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def loop(self, over: str) -> str:
        """Open a loop; the name of what runs through it."""
        row = self.fresh("t")
        self.emit(f"for {row} in {over}:")
        self.indent += 1
        self.fail = "continue"
        return row

    def compiled(self, name: str, parameters: str) -> Any:
        """The function of the lines so far."""
        source = "\n".join([f"def {name}({parameters}):", *self.lines])
        exec(compile(source, "<clause>", "exec"), self.scope)
        return self.scope[name]

    # ---- terms

    def ready(self, term: Term) -> bool:
        """Whether a term can be computed: everything is bound but an aggregate's own variables."""
        if isinstance(term, Aggregate):
            return all(name in self.names for name in term_variables(term) if not name.endswith(LOCAL))
        if isinstance(term, Record | Apply):
            return all(map(self.ready, term.items if isinstance(term, Record) else term.args))
        return isinstance(term, Const) or term.name in self.names

    def value(self, term: Term) -> str:
        """An expression for a term that is ready."""
        if isinstance(term, Const):
            return repr(term.value)
        if isinstance(term, Var):
            return self.names[term.name]
        if isinstance(term, Aggregate):
            return self.aggregate(term)
        parts = "".join([self.value(item) + ", " for item in (term.items if isinstance(term, Record) else term.args)])
        if isinstance(term, Record):
            return f"cell(({parts}))"
        if term.name == "ord":
            return f"order({parts})"
        if term.name not in _FUNCTORS:
            raise RuleError(f"the checker does not know the functor `{term.name}`")
        name = "f" + "".join(f"{ord(c):x}" for c in term.name)
        self.scope[name] = _FUNCTORS[term.name]
        return f"{name}({parts})"

    def match(self, term: Term, value: str) -> None:
        """Test a value against a pattern and bind the variables that it has."""
        if term == UNNAMED:
            return
        if isinstance(term, Var) and term.name not in self.names:
            self.names[term.name] = name = self.fresh("v")
            self.emit(f"{name} = {value}")
        elif isinstance(term, Record) and not self.ready(term):
            name = self.fresh("t")
            self.emit(f"{name} = {value}")
            self.require(f"{name}.__class__ is Cell and len({name}.items) == {len(term.items)}")
            for i, item in enumerate(term.items):
                self.match(item, f"{name}.items[{i}]")
        else:
            self.require(f"{value} == {self.value(term)}")

    def aggregate(self, term: Aggregate) -> str:
        """Over complete relations; the variables that it has for itself end with it."""
        values, outside = self.fresh("a"), (dict(self.names), self.indent, self.fail)
        self.emit(f"{values} = []")
        self.loop("(None,)")
        self.literals(plain_atoms(term.body), counting=True)
        self.emit(f"{values}.append({1 if term.target is None else self.value(term.target)})")
        self.names, self.indent, self.fail = outside
        if term.kind in ("count", "sum"):
            return f"sum({values})"
        self.require(values)  # the least of nothing derives nothing
        return f"{term.kind}({values})"

    # ---- literals

    def _key(self, relation: str, args: tuple[Term, ...]) -> tuple[list[int], str, str]:
        """Columns that are known, an expression for their values, and the name of the rows, or of the index by them."""
        known = [i for i, term in enumerate(args) if self.ready(term)]
        values = [self.value(args[i]) for i in known]
        if len(known) in (0, len(args)):
            name = f"{relation.replace('?', '_')}_"
            self.scope[name] = self.tables.rows(relation)
            return known, f"({''.join(v + ', ' for v in values)})", name
        name = "_".join(map(str, [relation.replace("?", "_"), *known]))
        self.scope[name] = self.tables.index(relation, tuple(known))
        return known, values[0] if len(values) == 1 else f"({', '.join(values)})", name

    def presence(self, atom: Atom, counting: bool) -> None:
        """Every row that fits; one is as good as many unless they are counted."""
        known, key, name = self._key(atom.relation, atom.args)
        free = [i for i, term in enumerate(atom.args) if i not in known and (counting or term != UNNAMED)]
        if not free:
            self.require(f"{key} in {name}" if known or not atom.args else name)
            return
        row = self.loop(f"{name}.get({key}, ())" if known else name)
        for i in free:
            self.match(atom.args[i], f"{row}[{i}]")

    def absence(self, atom: Atom) -> None:
        """No row that fits."""
        known, key, name = self._key(atom.relation, atom.args)
        if all(i in known or term == UNNAMED for i, term in enumerate(atom.args)):
            self.require(f"{key} not in {name}" if known or not atom.args else f"not {name}")
            return
        absent, outside = self.fresh("a"), (dict(self.names), self.indent, self.fail)
        self.emit(f"{absent} = True")
        row = self.loop(f"{name}.get({key}, ())" if known else name)
        for i, term in enumerate(atom.args):
            if i not in known:
                self.match(term, f"{row}[{i}]")
        self.emit(f"{absent} = False")
        self.emit("break")
        self.names, self.indent, self.fail = outside
        self.require(absent)

    def comparison(self, literal: Compare) -> bool:
        """Test or bind; False while variables are missing."""
        sides = (literal.left, literal.right)
        for target, source in (sides, sides[::-1]):
            if isinstance(source, Apply) and source.name == "range":
                if literal.op != "=" or len(source.args) != 2 or not all(map(self.ready, source.args)):
                    return False
                lo, hi = map(self.value, source.args)
                if self.ready(target):
                    self.require(f"{lo} <= {self.value(target)} < {hi}")
                else:
                    self.match(target, self.loop(f"range({lo}, {hi})"))
                return True
        left, right = map(self.ready, sides)
        if left and right:
            a, b = self.value(literal.left), self.value(literal.right)
            self.require(f"{a} in {b}" if literal.op == "contains" else f"{a} {_TESTS[literal.op]} {b}")
            return True
        for known, source, target in ((right, literal.right, literal.left), (left, literal.left, literal.right)):
            if literal.op == "=" and known and is_pattern(target):
                self.match(target, self.value(source))
                return True
        return False

    def _cost(self, atom: Atom) -> tuple[bool, float]:
        """Whether nothing of an atom is known, and about how many rows fit what is."""
        known = [i for i, term in enumerate(atom.args) if self.ready(term)]
        if len(known) == len(atom.args):
            return False, 0.0
        return not known, self.tables.fitting(atom.relation, known)

    def literals(self, waiting: list[Literal], counting: bool = False) -> None:
        """All of them, in an order in which each can be evaluated: tests first, then the atom with fewest rows."""
        waiting = list(waiting)
        while waiting:
            before = len(waiting)
            for literal in list(waiting):
                if isinstance(literal, Compare):
                    done = self.comparison(literal)
                elif done := literal.negated and all(name in self.names for name in variables(literal)):
                    self.absence(literal)
                if done:
                    waiting.remove(literal)
            found = [a for a in waiting if isinstance(a, Atom) and not a.negated]
            if found:
                best = min(found, key=self._cost)
                self.presence(best, counting)
                waiting.remove(best)
            if len(waiting) == before:
                raise RuleError(f"the checker finds no order in which to evaluate {waiting}")


Derive = Callable[[Iterable[Row | None], Callable[[Row], object]], None]


def derive(clause: Clause, first: int | None, tables: Tables) -> Derive:
    """A function (rows, out) that calls `out` with the heads that follow from rows of the clause's positive atom
    number `first`; without one it takes a single None."""
    body = plain_atoms(clause.body)
    source = _Source(tables, "continue")
    row = source.loop("delta")
    if first is not None:
        atom = [a for a in body if isinstance(a, Atom) and not a.negated][first]
        body = [literal for literal in body if literal is not atom]
        for i, term in enumerate(atom.args):
            source.match(term, f"{row}[{i}]")
    source.literals(body)
    head = "".join(source.value(term) + ", " for term in clause.head.args)
    source.emit(f"out(({head}))")
    return source.compiled("derive", "delta, out")  # type: ignore[no-any-return]


class OtherVariables(Exception):
    """A clause has not the variables that are to be given."""


Check = Callable[[list[str], list[Row], list[int], list[Value]], Row | None]


def instance(clause: Clause, names: list[str], looked_up: Callable[[str], bool], tables: Tables) -> Check:
    """A function (relations, rows, premises, values) that checks a step and returns its head, or None.

    `values` are those of the variables `names`; `premises` are places in `relations` and `rows`, one for each positive
    atom whose relation is not looked up. OtherVariables where the clause has no such variables.
    """
    body = plain_atoms(clause.body)
    given = [a for a in body if isinstance(a, Atom) and not a.negated and not looked_up(a.relation)]
    has = {name for literal in body for name in variables(literal)}
    if not has.issuperset(names):
        raise OtherVariables
    source = _Source(tables, "return None")
    source.names = {name: source.fresh("v") for name in names}
    source.emit(f"[{', '.join(source.names.values())}] = values")
    places = [source.fresh("p") for _ in given]
    source.emit(f"[{', '.join(places)}] = premises")
    for atom, place in zip(given, places, strict=True):
        source.require(f"{place} >= 0 and relations[{place}] == {atom.relation!r}")
        if all(map(source.ready, atom.args)):
            row = "".join(source.value(term) + ", " for term in atom.args)
            source.require(f"rows[{place}] == ({row})")
        else:
            for i, term in enumerate(atom.args):
                source.match(term, f"rows[{place}][{i}]")
    source.literals([literal for literal in body if not any(literal is atom for atom in given)])
    source.emit(f"return ({''.join(source.value(term) + ', ' for term in clause.head.args)})")
    return source.compiled("instance", "relations, rows, premises, values")  # type: ignore[no-any-return]
