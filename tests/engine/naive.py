"""A second evaluator, as simple as can be: programs as Python data, rules applied to everything until nothing is new.

It shares nothing with the engine. Programs print as Datalog text; `evaluate` gives what the relations must hold.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st

Term = str | int  # a variable, a constant, or "_"
Row = tuple[int, ...]
Database = dict[str, set[Row]]
MODULUS = 5  # values are 0 … 4, so every program is finite
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Atom:
    relation: str
    args: tuple[Term, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.relation}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Comparison:
    left: Term
    op: str
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Aggregate:
    result: str
    kind: str
    target: str
    body: Atom

    def __str__(self) -> str:
        return (
            f"{self.result} = {self.kind} {self.target}: {{ {self.body} }}"
            if self.kind != "count"
            else f"{self.result} = count : {{ {self.body} }}"
        )


@dataclass(frozen=True)
class Sum:
    """`(left + right) % 5`, in a head."""

    left: Term
    right: Term

    def __str__(self) -> str:
        return f"({self.left} + {self.right}) % {MODULUS}"


@dataclass(frozen=True)
class Rule:
    relation: str
    head: tuple[Term | Sum, ...]
    body: tuple[Atom | Comparison | Aggregate, ...]

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.head))}) :- {', '.join(map(str, self.body))}."


@dataclass
class Program:
    arity: dict[str, int]
    strata: list[list[Rule]]
    facts: Database = field(default_factory=dict)
    equivalences: set[str] = field(default_factory=set)  # relations that are eqrel

    def text(self) -> str:
        lines = [
            f".decl {r}({', '.join(f'c{i}: number' for i in range(n))}){' eqrel' if r in self.equivalences else ''}"
            for r, n in self.arity.items()
        ]
        return "\n".join(lines + [str(rule) for stratum in self.strata for rule in stratum])


# ---- evaluation


def _matches(args: tuple[Term, ...], rows: set[Row], bound: dict[str, int]) -> Iterator[dict[str, int]]:
    for row in rows:
        new = dict(bound)
        for arg, value in zip(args, row, strict=True):
            if arg == "_":
                continue
            if isinstance(arg, int):
                if arg != value:
                    break
            elif new.setdefault(arg, value) != value:
                break
        else:
            yield new


def _value(term: Term | Sum, bound: dict[str, int]) -> int:
    if isinstance(term, Sum):
        return (_value(term.left, bound) + _value(term.right, bound)) % MODULUS
    return bound[term] if isinstance(term, str) else term


def _solve(
    body: list[Atom | Comparison | Aggregate], database: Database, bound: dict[str, int]
) -> Iterator[dict[str, int]]:
    if not body:
        yield bound
        return
    first, rest = body[0], body[1:]
    if isinstance(first, Comparison):
        if COMPARE[first.op](_value(first.left, bound), _value(first.right, bound)):
            yield from _solve(rest, database, bound)
    elif isinstance(first, Aggregate):
        found = list(_matches(first.body.args, database[first.body.relation], bound))
        values = [m[first.target] for m in found] if first.kind != "count" else []
        if first.kind in ("min", "max") and not values:
            return
        result = {
            "count": lambda: len(found),
            "sum": lambda: sum(values),
            "min": lambda: min(values),
            "max": lambda: max(values),
        }[first.kind]()
        yield from _solve(rest, database, {**bound, first.result: result})
    elif first.negated:
        if not any(True for _ in _matches(first.args, database[first.relation], bound)):
            yield from _solve(rest, database, bound)
    else:
        for new in _matches(first.args, database[first.relation], bound):
            yield from _solve(rest, database, new)


def _in_order(rule: Rule) -> list[Atom | Comparison | Aggregate]:
    rank = {Atom: 0, Aggregate: 1, Comparison: 2}
    return sorted(rule.body, key=lambda literal: (isinstance(literal, Atom) and literal.negated, rank[type(literal)]))


def closure(pairs: set[Row]) -> set[Row]:
    """The least equivalence that holds these pairs."""
    classes: list[set[int]] = []
    for x, y in pairs:
        merged = {x, y}.union(*(c for c in classes if c & {x, y}))
        classes = [c for c in classes if not c & merged] + [merged]
    return {(x, y) for c in classes for x in c for y in c}


def evaluate(program: Program) -> Database:
    database: Database = {r: set(program.facts.get(r, ())) for r in program.arity}
    for stratum in program.strata:
        while True:
            new = {
                (rule.relation, tuple(_value(t, bound) for t in rule.head))
                for rule in stratum
                for bound in _solve(_in_order(rule), database, {})
            }
            before = sum(map(len, database.values()))
            for relation, row in new:
                database[relation].add(row)
            for relation in program.equivalences:
                database[relation] = closure(database[relation])
            if sum(map(len, database.values())) == before:
                break
    return database


def heights(program: Program) -> dict[tuple[str, Row], int]:
    """The height of the lowest proof of every row: facts have 0; negations and aggregates read finished relations."""
    finished = evaluate(program)
    known: dict[tuple[str, Row], int] = {(r, row): 0 for r, rows in program.facts.items() for row in rows}
    level = 0
    while True:
        level += 1
        so_far: Database = {r: set() for r in program.arity}
        for relation, row in known:
            so_far[relation].add(row)
        # positive atoms read what has a proof so far, all others read what is finished
        split = so_far | {f"!{r}": rows for r, rows in finished.items()}
        new = set()
        for rule in (rule for stratum in program.strata for rule in stratum):
            body: list[Atom | Comparison | Aggregate] = []
            for literal in _in_order(rule):
                if isinstance(literal, Atom) and literal.negated:
                    literal = Atom(f"!{literal.relation}", literal.args, True)
                elif isinstance(literal, Aggregate):
                    literal = Aggregate(
                        literal.result,
                        literal.kind,
                        literal.target,
                        Atom(f"!{literal.body.relation}", literal.body.args),
                    )
                body.append(literal)
            new |= {(rule.relation, tuple(_value(t, bound) for t in rule.head)) for bound in _solve(body, split, {})}
        fresh = [key for key in new if key not in known]
        if not fresh:
            return known
        known.update((key, level) for key in fresh)


# ---- random programs

_VARIABLES = ["x", "y", "z", "u", "v"]


@st.composite
def _rules(draw: st.DrawFn, arity: dict[str, int], head: str, positive: list[str], lower: list[str]) -> Rule:
    atoms = []
    for _ in range(draw(st.integers(1, 4))):
        relation = draw(st.sampled_from(positive))
        terms = st.one_of(
            st.sampled_from(_VARIABLES), st.sampled_from(_VARIABLES), st.integers(0, MODULUS - 1), st.just("_")
        )
        atoms.append(Atom(relation, tuple(draw(terms) for _ in range(arity[relation]))))
    variables = sorted({a for atom in atoms for a in atom.args if isinstance(a, str) and a != "_"})
    bound: st.SearchStrategy[Term] = st.one_of(
        *([st.sampled_from(variables)] * 3 if variables else []), st.integers(0, MODULUS - 1)
    )
    body: list[Atom | Comparison | Aggregate] = list(atoms)
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["compare", "negate", "aggregate"]))
        if kind == "compare":
            body.append(Comparison(draw(bound), draw(st.sampled_from(sorted(COMPARE))), draw(bound)))
        elif kind == "negate" and lower:
            relation = draw(st.sampled_from(lower))
            body.append(
                Atom(
                    relation, tuple(draw(st.one_of(bound, st.just("_"))) for _ in range(arity[relation])), negated=True
                )
            )
        elif kind == "aggregate" and lower and not any(isinstance(b, Aggregate) for b in body):
            relation = draw(st.sampled_from(lower))
            at = draw(st.integers(0, arity[relation] - 1))
            args = tuple("w" if i == at else draw(st.one_of(bound, st.just("_"))) for i in range(arity[relation]))
            body.append(
                Aggregate("n", draw(st.sampled_from(["count", "sum", "min", "max"])), "w", Atom(relation, args))
            )
    if any(isinstance(b, Aggregate) for b in body):
        bound = st.one_of(bound, st.just("n"))
    # an aggregate's result may leave 0 … 4 and so may only reach a head through a Sum
    terms = tuple(
        draw(st.one_of(bound.filter(lambda t: t != "n"), st.builds(Sum, bound, bound))) for _ in range(arity[head])
    )
    return Rule(head, terms, tuple(draw(st.permutations(body))))


@st.composite
def programs(draw: st.DrawFn, equivalences: bool = False) -> Program:
    """Stratified programs: facts e0 … e2, then strata of one or two relations each, recursive within a stratum.

    With `equivalences`, some of the binary relations that have rules are eqrel.
    """
    arity = {f"e{i}": draw(st.integers(1, 3)) for i in range(3)}
    known = list(arity)
    strata = []
    for s in range(draw(st.integers(1, 3))):
        own = [f"r{s}{i}" for i in range(draw(st.integers(1, 2)))]
        arity.update({r: draw(st.integers(1, 3)) for r in own})
        strata.append(
            [draw(_rules(arity, head, known + own, known)) for head in own for _ in range(draw(st.integers(1, 3)))]
        )
        known += own
    binary = [r for r, n in arity.items() if n == 2 and r.startswith("r")] if equivalences else []
    program = Program(arity, strata, equivalences={r for r in binary if draw(st.booleans())})
    for relation in ("e0", "e1", "e2"):
        row = st.tuples(*[st.integers(0, MODULUS - 1)] * arity[relation])
        program.facts[relation] = draw(st.sets(row, max_size=8))
    return program
