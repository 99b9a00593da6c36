"""Random stratified programs on other engines: pyDatalog (what it can express) and Soufflé where it is installed."""

from __future__ import annotations

import shutil
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings

from scalify_dl.pysouffle import Program
from tests.engine import naive

FEW = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def embedded(program: naive.Program, **options: str) -> naive.Database:
    built = Program.from_source(program.text(), **options)
    for relation, rows in program.facts.items():
        built.insert(relation, sorted(rows))
    built.run(timeout=60)
    return {relation: set(built.relation(relation)) for relation in built.relations}


def plain(rule: naive.Rule) -> bool:
    """Is the rule in pyDatalog's fragment: no aggregates, no arithmetic, `_` in positive atoms, variables compared?"""

    def literal_is(part: naive.Atom | naive.Comparison | naive.Aggregate) -> bool:
        if isinstance(part, naive.Comparison):
            return isinstance(part.left, str) and part.left != part.right
        return isinstance(part, naive.Atom) and not (part.negated and "_" in part.args)

    return all(map(literal_is, rule.body)) and not any(isinstance(t, naive.Sum) for t in rule.head)


def pydatalog_text(program: naive.Program) -> str:
    fresh = count()

    def term(value: naive.Term) -> str:
        return f"U{next(fresh)}" if value == "_" else str(value).upper()

    def atom(relation: str, args: tuple[naive.Term, ...]) -> str:
        return f"{relation}({', '.join(map(term, args))})"

    def literal(part: naive.Atom | naive.Comparison | naive.Aggregate) -> str:
        if isinstance(part, naive.Atom):
            text = atom(part.relation, part.args)
            return f"~({text})" if part.negated else text
        assert isinstance(part, naive.Comparison)
        return f"({term(part.left)} {'==' if part.op == '=' else part.op} {term(part.right)})"

    lines = []
    for relation, arity in program.arity.items():
        # pyDatalog wants every relation to be defined somehow
        columns = [f"X{i}" for i in range(arity)]
        lines.append(f"{relation}({', '.join(columns)}) <= " + " & ".join(f"({c} == 1) & ({c} == 2)" for c in columns))
    lines += [f"+ {relation}({', '.join(map(str, row))})" for relation, rows in program.facts.items() for row in rows]
    for rule in (rule for stratum in program.strata for rule in stratum):
        # pyDatalog evaluates from left to right
        body = sorted(
            rule.body, key=lambda p: isinstance(p, naive.Comparison) or (isinstance(p, naive.Atom) and p.negated)
        )
        head = atom(rule.relation, tuple(t for t in rule.head if not isinstance(t, naive.Sum)))
        lines.append(f"{head} <= {' & '.join(map(literal, body))}")
    return "\n".join(lines)


def pydatalog(program: naive.Program) -> naive.Database:
    engine = pytest.importorskip("pyDatalog.pyDatalog")
    engine.clear()
    engine.load(pydatalog_text(program))
    found: naive.Database = {}
    for relation, arity in program.arity.items():
        answer = engine.ask(f"{relation}({', '.join(f'X{i}' for i in range(arity))})")
        found[relation] = set(answer.answers) if answer else set()
    return found


@FEW
@given(naive.programs())
def test_random_programs_give_what_pydatalog_gives(program: naive.Program) -> None:
    program.strata = [[rule for rule in stratum if plain(rule)] for stratum in program.strata]
    assert embedded(program) == pydatalog(program)


@pytest.mark.skipif(shutil.which("souffle") is None, reason="the souffle executable is not on PATH")
@FEW
@given(naive.programs())
def test_random_programs_give_what_souffle_gives(program: naive.Program) -> None:
    assert embedded(program) == embedded(program, engine="souffle")
