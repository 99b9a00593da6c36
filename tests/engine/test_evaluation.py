"""The engine computes what the rules say: against a naive evaluator, in one go and piecemeal."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.pysouffle import Program
from tests.engine import naive

RELAXED = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def run(program: naive.Program, facts: naive.Database) -> Program:
    built = Program.from_source(program.text())
    for relation, rows in facts.items():
        built.insert(relation, sorted(rows))
    return built.run(timeout=20)


def relations(built: Program) -> naive.Database:
    found = {}
    for relation in built.relations:
        rows = built.relation(relation)
        assert len(rows) == len(set(rows)) == built.size(relation)
        found[relation] = set(rows)
    return found


@RELAXED
@given(naive.programs(equivalences=True))
def test_random_stratified_programs_give_what_naive_evaluation_gives(program: naive.Program) -> None:
    assert relations(run(program, program.facts)) == naive.evaluate(program)


@RELAXED
@given(naive.programs(equivalences=True), st.data())
def test_facts_in_several_batches_give_what_one_batch_gives(program: naive.Program, data: st.DataObject) -> None:
    built = run(program, {})
    left = {r: list(rows) for r, rows in program.facts.items()}
    while any(left.values()):
        for relation, rows in left.items():
            n = data.draw(st.integers(0, len(rows)))
            built.insert(relation, rows[:n])
            del rows[:n]
        built.run(timeout=20)
        if not data.draw(st.booleans()):
            break
    for relation, rows in left.items():
        built.insert(relation, rows)
    built.run(timeout=20)
    assert relations(built) == naive.evaluate(program)
