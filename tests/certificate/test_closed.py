"""The checker's own evaluation: against a naive evaluator, and against the engine on the shipped rules."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.certificate.closed import Closed
from scalify_dl.certificate.plans import Functions, instance
from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.structure import Structure
from scalify_dl.certificate.terms import RuleSet, cell
from scalify_dl.facts.files import load
from scalify_dl.prove.certificate import order_of_texts
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, rule_files
from scalify_dl.pysouffle import Program

from ..engine import naive

FACTS = Path(__file__).parents[2] / "facts"
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def read(text: str) -> RuleSet:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rules.dl"
        file.write_text(text)
        return read_rules([file])


def closed(rules: RuleSet, facts: dict[str, Any], numbers: dict[str, int] | None = None) -> Closed:
    tables = {relation: dict.fromkeys(rows) for relation, rows in facts.items()}
    return Closed(rules, Structure(rules), tables, numbers or {}, {})


@RELAXED
@given(naive.programs())
def test_relations_are_what_a_naive_evaluation_finds(program: naive.Program) -> None:
    found = closed(read(program.text()), program.facts)
    for relation, rows in naive.evaluate(program).items():
        assert set(found.rows(relation)) == rows


@RELAXED
@given(naive.programs(), st.randoms(use_true_random=False))
def test_a_step_is_accepted_as_it_is_and_otherwise_only_if_it_follows(
    program: naive.Program, chance: random.Random
) -> None:
    built = Program.from_source(program.text())
    for relation, rows in program.facts.items():
        built.insert(relation, rows)
    built.run(timeout=20)
    derived = built.derivation({relation: built.relation(relation) for relation in built.relations})
    rules = read(program.text())
    truth = naive.evaluate(program)
    tables = closed(rules, program.facts)
    relations: list[str] = []
    rows_so_far: list[Any] = []
    for relation, rule, premises, values in derived.steps:
        row = tuple(derived.values[n] for n in values)
        if rule >= 0:
            head, _, line, names = derived.rules[rule]
            clause = next(c for c in rules.clauses if c.head.relation == head and c.line == line)
            functions = Functions(tables)
            assert instance(functions, clause, names, ())
            (check,) = functions.compiled()
            given_values = row
            row = check(relations, rows_so_far, premises, given_values)
            assert row in truth[relation]
            for _ in range(3):
                other = list(given_values)
                where = list(premises)
                if other and chance.random() < 0.5:
                    other[chance.randrange(len(other))] = chance.randrange(6)
                else:
                    where[chance.randrange(len(where))] = chance.randrange(len(rows_so_far))
                found = check(relations, rows_so_far, where, tuple(other))
                assert found is None or found in truth[relation]
        relations.append(relation)
        rows_so_far.append(row)


def own(value: Any) -> Any:
    """A value of the engine as the checker has it."""
    return cell(tuple([own(item) for item in value])) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", ["row_parallel_linear", "megatron_mlp_wrong_group", "gqa_fused_qkv"])
def test_computed_relations_are_those_of_the_engine(name: str) -> None:
    facts = load(FACTS / name)
    program = analyse(facts, Options(refute=False)).program
    rules = read_rules(rule_files())
    structure = Structure(rules)
    given = {relation: facts.tables.get(Path(file).stem, []) for relation, file in rules.inputs.items()}
    found = closed(rules, given, order_of_texts(program, rules))
    compared = 0
    for relation in sorted(structure.computed - rules.choices.keys()):
        expected = {tuple(map(own, row)) for row in program.relation(relation)}
        assert set(found.rows(relation)) == expected, relation
        compared += len(expected)
    assert compared > 1000
