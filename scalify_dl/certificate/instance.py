"""Ground instances of rules: matching rows against atoms, evaluating terms, testing conditions.

A rule is turned once into closures over a list of variable slots. `None` is nil, so an unbound slot holds `UNBOUND`.
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

UNBOUND: Any = object()
Slots = list[Any]
Row = tuple[Value, ...]
Evaluate = Callable[[Slots], Any]
Match = Callable[[Slots, Any], bool]


class Store(Protocol):
    """Complete relations: rows whose columns at `positions` are `key`."""

    def lookup(self, relation: str, positions: tuple[int, ...], key: Row) -> Iterable[Row]: ...

    def order(self, text: str) -> int:
        """The number of a text (`ord`)."""
        ...


class Slotting:
    """The variables of one rule, numbered."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}

    def slot(self, name: str) -> int:
        """The number of a variable."""
        return self.slots.setdefault(name, len(self.slots))

    def fresh(self) -> Slots:
        """Slots in which nothing is bound (with room for variables that are met later)."""
        return [UNBOUND] * (len(self.slots) + 1)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise RuleError(f"{value!r} is not a 32-bit number")
    return value


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise RuleError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_FUNCTORS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: _whole(a + b),
    "-": lambda a, b: _whole(a - b),
    "*": lambda a, b: _whole(a * b),
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
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
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "contains": lambda a, b: a in b,
}


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


def _needs(term: Term) -> Iterator[str]:
    """Variables that must be bound before a term can be computed: all but an aggregate's own."""
    if isinstance(term, Aggregate):
        yield from (name for name in term_variables(term) if not name.endswith(LOCAL))
    elif isinstance(term, Apply | Record):
        for item in term.args if isinstance(term, Apply) else term.items:
            yield from _needs(item)
    else:
        yield from term_variables(term)


def is_pattern(term: Term) -> bool:
    """No functor or aggregate in it, so that a value can be matched against it."""
    if isinstance(term, Record):
        return all(is_pattern(item) for item in term.items)
    return isinstance(term, Var | Const)


def _has_unnamed(term: Term) -> bool:
    if isinstance(term, Record | Apply):
        return any(_has_unnamed(item) for item in (term.items if isinstance(term, Record) else term.args))
    return term == Var("_")


# ---- closures


def evaluator(term: Term, frame: Slotting, store: Store) -> Evaluate:
    """A closure that computes a term whose variables are bound."""
    if isinstance(term, Const):
        value = term.value
        return lambda slots: value
    if isinstance(term, Var):
        at = frame.slot(term.name)
        return lambda slots: slots[at]
    if isinstance(term, Record):
        parts = [evaluator(item, frame, store) for item in term.items]
        return lambda slots: cell(tuple([part(slots) for part in parts]))
    if isinstance(term, Apply):
        function: Callable[..., Any] | None = store.order if term.name == "ord" else _FUNCTORS.get(term.name)
        if function is None:
            raise RuleError(f"the checker does not know the functor `{term.name}`")
        args = [evaluator(item, frame, store) for item in term.args]
        if len(args) == 2:
            left, right = args
            return lambda slots: function(left(slots), right(slots))
        return lambda slots: function(*[arg(slots) for arg in args])
    return _aggregate(term, frame, store)


def matcher(term: Term, frame: Slotting) -> Match:
    """A closure that matches a value against a pattern, binding variables."""
    if isinstance(term, Const):
        value = term.value
        return lambda slots, got: bool(got == value)
    if isinstance(term, Var):
        if term.name == "_":
            return lambda slots, got: True
        at = frame.slot(term.name)

        def bind(slots: Slots, got: Any) -> bool:
            held = slots[at]
            if held is UNBOUND:
                slots[at] = got
                return True
            return held is got or bool(held == got)

        return bind
    if isinstance(term, Record):
        parts = [matcher(item, frame) for item in term.items]
        size = len(parts)

        def record(slots: Slots, got: Any) -> bool:
            if not isinstance(got, Cell) or len(got.items) != size:
                return False
            return all(part(slots, item) for part, item in zip(parts, got.items, strict=True))

        return record
    raise RuleError("a functor cannot be matched against")


Step = Callable[[Slots], Iterable[Slots]]


def _each(match: Match, lo: Evaluate, hi: Evaluate) -> Step:
    def each(slots: Slots) -> Iterator[Slots]:
        for value in range(lo(slots), hi(slots)):
            mine = list(slots)
            if match(mine, value):
                yield mine

    return each


def condition(literal: Compare, frame: Slotting, store: Store, bound: set[str]) -> Step | None:
    """A step for a comparison; None while variables are missing. Names that it binds join `bound`."""
    sides = (literal.left, literal.right)
    for target, source in (sides, sides[::-1]):  # x = range(lo, hi)
        if isinstance(source, Apply) and source.name == "range":
            if literal.op != "=" or not set(term_variables(source)) <= bound:
                return None
            bound.update(term_variables(target))
            return _each(matcher(target, frame), *(evaluator(arg, frame, store) for arg in source.args))
    ready = [set(_needs(side)) <= bound and not _has_unnamed(side) for side in sides]
    if all(ready):
        left, right = (evaluator(side, frame, store) for side in sides)
        test = _TESTS[literal.op]

        def compare(slots: Slots) -> Iterable[Slots]:
            a, b = left(slots), right(slots)
            return (slots,) if a is not UNBOUND and b is not UNBOUND and test(a, b) else ()

        return compare
    if literal.op != "=":
        return None
    for (target, source), known in ((sides, ready[1]), (sides[::-1], ready[0])):
        if known and is_pattern(target):
            fit, value = matcher(target, frame), evaluator(source, frame, store)
            bound.update(term_variables(target))

            def assign(slots: Slots, fit: Match = fit, value: Evaluate = value) -> Iterable[Slots]:
                got = value(slots)
                return (slots,) if got is not UNBOUND and fit(slots, got) else ()

            return assign
    return None


def _known(args: tuple[Term, ...], frame: Slotting, store: Store, bound: set[str]) -> tuple[tuple[int, ...], Evaluate]:
    """Which columns of an atom are known, and a closure for their values."""
    positions = tuple(i for i, t in enumerate(args) if not _has_unnamed(t) and set(term_variables(t)) <= bound)
    parts = [evaluator(args[i], frame, store) for i in positions]
    return positions, lambda slots: tuple([part(slots) for part in parts])


def absence(atom: Atom, frame: Slotting, store: Store, bound: set[str]) -> Step:
    """A step for a negated atom whose variables are bound."""
    positions, key = _known(atom.args, frame, store, bound)
    rest = [(i, matcher(t, frame)) for i, t in enumerate(atom.args) if i not in positions and t != Var("_")]

    def absent(slots: Slots) -> Iterable[Slots]:
        for row in store.lookup(atom.relation, positions, key(slots)):
            mine = list(slots)
            if all(match(mine, row[i]) for i, match in rest):
                return ()
        return (slots,)

    return absent


def presence(atom: Atom, frame: Slotting, store: Store, bound: set[str]) -> Step:
    """A step for an atom: every row that fits. Its variables join `bound`."""
    positions, key = _known(atom.args, frame, store, bound)
    rest = [(i, matcher(t, frame)) for i, t in enumerate(atom.args) if i not in positions and t != Var("_")]
    bound.update(variables(atom))

    def present(slots: Slots) -> Iterator[Slots]:
        for row in store.lookup(atom.relation, positions, key(slots)):
            mine = list(slots)
            if all(match(mine, row[i]) for i, match in rest):
                yield mine

    return present


def conditions(
    literals: Iterable[Literal], frame: Slotting, store: Store, bound: set[str], atoms_too: bool
) -> list[Step]:
    """Steps that satisfy literals in an order in which each can be evaluated; atoms by how much of them is known."""
    waiting = list(literals)
    steps: list[Step] = []
    while waiting:
        before = len(waiting)
        for literal in list(waiting):
            step = None
            if isinstance(literal, Compare):
                step = condition(literal, frame, store, bound)
            elif literal.negated and set(variables(literal)) <= bound:
                step = absence(literal, frame, store, bound)
            if step is not None:
                steps.append(step)
                waiting.remove(literal)
        if atoms_too:
            found = [a for a in waiting if isinstance(a, Atom) and not a.negated]
            if found:
                best = max(found, key=lambda a: sum(set(term_variables(t)) <= bound for t in a.args if t != Var("_")))
                steps.append(presence(best, frame, store, bound))
                waiting.remove(best)
        if len(waiting) == before:
            raise RuleError(f"the checker finds no order in which to evaluate {waiting}")
    return steps


def solutions(steps: list[Step], slots: Slots) -> Iterable[Slots]:
    """All ways through the steps."""
    found: Iterable[Slots] = (slots,)
    for step in steps:
        found = [after for before in found for after in step(before)]
        if not found:
            break
    return found


def _aggregate(term: Aggregate, frame: Slotting, store: Store) -> Evaluate:
    """Over complete relations. Variables bound outside keep their value; the others are the aggregate's own."""
    body = plain_atoms(term.body)
    names = sorted({name for literal in body for name in variables(literal)})
    places = [frame.slot(name) for name in names]
    target = None if term.target is None else evaluator(term.target, frame, store)
    plans: dict[frozenset[str], list[Step]] = {}

    def compute(slots: Slots) -> Any:
        slots = slots + [UNBOUND] * (len(frame.slots) + 1 - len(slots))
        bound = frozenset(name for name, at in zip(names, places, strict=True) if slots[at] is not UNBOUND)
        if bound not in plans:
            plans[bound] = conditions(body, frame, store, set(bound), atoms_too=True)
        values = [1 if target is None else target(found) for found in solutions(plans[bound], slots)]
        if term.kind in ("count", "sum"):
            return _whole(sum(values))
        if not values:
            return UNBOUND  # the least of nothing derives nothing
        return max(values) if term.kind == "max" else min(values)

    return compute


def plain_atoms(body: Iterable[Literal]) -> tuple[Literal, ...]:
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
    return tuple(out)


class Instance:
    """One clause, ready to check its ground instances."""

    def __init__(self, clause: Clause, store: Store) -> None:
        self.clause = clause
        self.frame = Slotting()
        body = plain_atoms(clause.body)
        positive = [a for a in body if isinstance(a, Atom) and not a.negated]
        self.relations = [atom.relation for atom in positive]
        self.matchers = [
            [(i, matcher(term, self.frame)) for i, term in enumerate(atom.args) if term != Var("_")]
            for atom in positive
        ]
        bound = {name for atom in positive for name in variables(atom)}
        rest = [literal for literal in body if literal not in positive]
        self.steps = conditions(rest, self.frame, store, bound, atoms_too=False)
        self.head = [evaluator(term, self.frame, store) for term in clause.head.args]
        self.names = [n for n in self.frame.slots if n != "_" and not n.startswith("?")]

    def check(self, row: Row, premises: list[Row], bindings: dict[str, Value]) -> bool:
        """Whether the rule derives `row` from these premises (rows of the positive atoms, in their order)."""
        slots = self.frame.fresh()
        for matchers, premise in zip(self.matchers, premises, strict=True):
            for i, match in matchers:
                if not match(slots, premise[i]):
                    return False
        for found in solutions(self.steps, slots):
            if all(evaluate(found) == value for evaluate, value in zip(self.head, row, strict=True)):
                at = self.frame.slots
                if all(name in at and found[at[name]] == value for name, value in bindings.items()):
                    return True
        return False
