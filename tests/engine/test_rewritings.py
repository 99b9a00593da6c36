"""Writing the same program in another way changes nothing."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.pysouffle import Program, SourceError
from tests.engine import naive

SOME = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def results(text: str, facts: naive.Database, prefix: str = "") -> naive.Database:
    built = Program.from_source(text)
    for relation, rows in facts.items():
        built.insert(prefix + relation, sorted(rows))
    built.run(timeout=20)
    return {name.removeprefix(prefix): set(built.relation(name)) for name in built.relations}


@SOME
@given(naive.programs(), st.data())
def test_inlined_relations(program: naive.Program, data: st.DataObject) -> None:
    derived = [name for name in program.arity if name.startswith("r")]
    inlined = data.draw(st.sets(st.sampled_from(derived), min_size=1))
    text = program.text()
    for name in inlined:
        text = re.sub(rf"(\.decl {name}\([^)]*\))", r"\1 inline", text)
    try:
        found = results(text, program.facts)
    except SourceError as error:
        refused = [d.message for d in error.diagnostics]
    else:
        refused = []
    if refused:  # recursive, aggregated, or negated with variables of its own: refused, as in Soufflé
        assert all("inline" in message or "ungrounded" in message for message in refused)
        return
    expected = naive.evaluate(program)
    assert found == {name: rows for name, rows in expected.items() if name not in inlined}


@SOME
@given(naive.programs(), st.integers(1, 3))
def test_programs_within_components(program: naive.Program, depth: int) -> None:
    text = program.text()
    for level in range(depth):
        text = f".comp C{level} {{\n{text}\n}}\n.init i{level} = C{level}"
    prefix = "".join(f"i{level}." for level in reversed(range(depth)))
    assert results(text, program.facts, prefix) == naive.evaluate(program)


@SOME
@given(naive.programs())
def test_rules_of_one_head_as_a_disjunction(program: naive.Program) -> None:
    rules: dict[str, list[str]] = {}
    for rule in (rule for stratum in program.strata for rule in stratum):
        head, _, body = str(rule).rstrip(".").partition(" :- ")
        rules.setdefault(head, []).append(body)
    declarations = [line for line in program.text().splitlines() if line.startswith(".decl")]
    text = "\n".join(declarations + [f"{head} :- ({') ; ('.join(bodies)})." for head, bodies in rules.items()])
    assert results(text, program.facts) == naive.evaluate(program)


@SOME
@given(naive.programs())
def test_columns_packed_into_records(program: naive.Program) -> None:
    """Every relation holds one record instead of its columns."""
    types = [f".type T{n} = [{', '.join(f'c{i}: number' for i in range(n))}]" for n in (1, 2, 3)]
    names = "|".join(program.arity)
    text = program.text()
    for name, arity in program.arity.items():
        text = re.sub(rf"\.decl {name}\([^)]*\)", f".decl {name}(t: T{arity})", text)
    lines = [
        line if line.startswith(".") else re.sub(rf"\b({names})\(((?:[^()]|\([^()]*\))*)\)", r"\1([\2])", line)
        for line in text.splitlines()
    ]
    packed = {name: {(row,) for row in rows} for name, rows in program.facts.items()}
    found = results("\n".join(types + lines), packed)
    assert {name: {row for (row,) in rows} for name, rows in found.items()} == naive.evaluate(program)
